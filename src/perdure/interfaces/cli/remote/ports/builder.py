"""What commands need of the interviews, drafts and choices that they work with.

The two implementations are `Forge` of `perdure.app`, and `ServerBuilder` over the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from perdure.interfaces.cli.remote.ports.bots import Shown

if TYPE_CHECKING:
    from perdure.app.builder.sessions import SessionView
    from perdure.app.wire.resources import builder as wire
    from perdure.forge.assembly.assembly import AssemblyResult
    from perdure.forge.assembly.changes import Changes


class Interviews(Protocol):
    """Interviews, from the first turn to the bot. Every turn is kept before it is returned."""

    async def start(self, description: str) -> "SessionView":
        """Begin an interview about a new bot.

        Raises: Invalid
        """
        ...

    async def reconfigure(self, bot_slug: str, *, description: str = "") -> "SessionView":
        """Begin an interview about a bot that is there.

        Raises: NotFound
        """
        ...

    async def get(self, session_id: str) -> "SessionView":
        """Return a session with its pending turn.

        Raises: NotFound, also when the session is over; Damaged.
        """
        ...

    async def answer(self, session_id: str, wire_answer: Any, expected_revision: int | None = None) -> "SessionView":
        """Answer the pending turn, and return the next.

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

        Raises: NotFound; Conflict when the session is not ready, or has moved on.
        """
        ...

    async def delete(self, session_id: str) -> None:
        """Remove the draft of a session.

        Raises: NotFound
        """
        ...


class Drafts(Protocol):
    """Interviews that are not finished, as they are found and taken up again."""

    async def drafts(self, limit: int = 50) -> Sequence[Shown["wire.Draft"]]:
        """Return the drafts, the newest change first."""
        ...

    async def find(self, prefix: str) -> str:
        """Return the id of the one draft whose id begins so; a whole id is returned as it is.

        Raises: NotFound; Conflict, naming some of them, when there are several.
        """
        ...

    async def require_whole_id(self, given: str) -> str:
        """Return the id of a draft that is to be changed; a prefix is not enough.

        Raises: NotFound, naming the only draft whose id begins so.
        """
        ...

    async def resume(self, session_id: str) -> "SessionView":
        """Return a session that is to be answered; a change of a bot that was deleted is refused.

        Raises: NotFound; Damaged.
        """
        ...


class Choices(Protocol):
    """What was chosen for bots; suggestions are made of it."""

    async def choices(self, limit: int = 50) -> Sequence[Shown["wire.PastChoice"]]:
        """Return what was chosen, the newest first."""
        ...

    async def remove_choice(self, choice_id: str) -> None:
        """Forget one choice.

        Raises: NotFound
        """
        ...

    async def clear_choices(self) -> int:
        """Forget all choices; return how many there were."""
        ...


@dataclass(frozen=True)
class BuilderPorts:
    """Forge of a home, or of a server."""

    interviews: Interviews
    drafts: Drafts
    choices: Choices
    home: Path | None
    """The folder of the home, where it is on this machine."""
