"""The ports of commands for interviews, drafts and choices.

The two implementations are `Forge` of `perdure.app`, and `ServerBuilder` over the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from perdure.interfaces.cli.remote.ports.bots import Shown

if TYPE_CHECKING:
    from perdure.app.builder.sessions import SessionView
    from perdure.app.builder.values import AssemblyResult, Changes
    from perdure.app.wire.resources import builder as wire


class Interviews(Protocol):
    """Runs interviews, from the first turn to the bot. Every turn is stored before it is returned."""

    async def start(self, description: str, *, engine: str | None = None) -> "SessionView":
        """Start an interview about a new bot, led by an engine (default: the model, if one is configured).

        Raises: Invalid; Unavailable when the model does not answer.
        """
        ...

    async def reconfigure(self, bot_slug: str, *, description: str = "", engine: str | None = None) -> "SessionView":
        """Start an interview that changes an existing bot.

        Raises: NotFound
        """
        ...

    async def get(self, session_id: str) -> "SessionView":
        """Return a session with its pending turn.

        Raises: NotFound, also when the session is over; Damaged.
        """
        ...

    async def answer(
        self, session_id: str, wire_answer: Any, expected_revision: int | None = None, *, engine: str | None = None
    ) -> "SessionView":
        """Answer the pending turn, and return the next; with an engine, it leads the interview from here on.

        Raises: Invalid when the answer does not fit; Conflict when the session is at another revision; NotFound.
        """
        ...

    async def changes(self, session_id: str) -> "Changes":
        """Return what `assemble` would change on disk.

        Raises: NotFound; Conflict when the session is not ready.
        """
        ...

    async def assemble(self, session_id: str) -> "AssemblyResult":
        """Build the bot; a second call builds nothing.

        Raises: NotFound; Conflict when the session is not ready, or is at another revision.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the draft of a session.

        Raises: NotFound
        """
        ...


class Drafts(Protocol):
    """Finds and resumes unfinished interviews."""

    async def drafts(self, limit: int = 50) -> Sequence[Shown["wire.Draft"]]:
        """Return the drafts, last changed first."""
        ...

    async def find(self, prefix: str) -> str:
        """Return the id of the draft with a unique prefix; a whole id is returned unchanged.

        Raises: NotFound; Conflict, with examples, when several ids match.
        """
        ...

    async def require_whole_id(self, session_id: str) -> str:
        """Return the id of a draft for a command that changes it; a prefix is rejected.

        Raises: NotFound, with the id of the draft that the prefix matches, if any.
        """
        ...

    async def resume(self, session_id: str) -> "SessionView":
        """Return a session to continue; a session that changes a deleted bot is rejected.

        Raises: NotFound; Damaged.
        """
        ...


class Choices(Protocol):
    """The remembered choices, from which suggestions are derived."""

    async def choices(self, limit: int = 50) -> Sequence[Shown["wire.PastChoice"]]:
        """Return the choices, newest first."""
        ...

    async def remove_choice(self, choice_id: str) -> None:
        """Delete one choice.

        Raises: NotFound
        """
        ...

    async def clear_choices(self) -> int:
        """Delete all choices; return their number."""
        ...


@dataclass(frozen=True)
class BuilderPorts:
    """Forge of a home, or of a server."""

    interviews: Interviews
    drafts: Drafts
    choices: Choices
    home: Path | None
    """The folder of the home; None for a server."""
