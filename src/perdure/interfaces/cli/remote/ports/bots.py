"""The ports of commands for bots.

The two implementations are `Bots` of `perdure.app`, and `ServerBots` over the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from perdure.app.builder.bots import ExplanationView
    from perdure.app.builder.values import AssemblyResult
    from perdure.app.wire.resources import bots as wire

T_co = TypeVar("T_co", covariant=True)


class Shown(Protocol[T_co]):
    """An object with the same JSON form on every surface."""

    def wire(self) -> T_co:
        """Return the JSON form."""
        ...


class BotReader(Protocol):
    """Reads bots."""

    async def details(self, slug: str) -> Shown["wire.Bot"]:
        """Return a bot with all its current details.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        ...

    async def versions(self, slug: str) -> Sequence[Shown["wire.BotVersion"]]:
        """Return all versions of a bot, the newest first.

        Raises: NotFound
        """
        ...

    async def explain(self, slug: str, place: str) -> "ExplanationView":
        """Return the source of a line; a place is `SOUL.md:12`.

        Raises: NotFound; Invalid when there is no such line.
        """
        ...

    async def verify(self, slug: str) -> Sequence[str]:
        """Return the problems of a bot's files.

        Raises: NotFound
        """
        ...

    async def export(self, slug: str) -> bytes:
        """Return a bot as one file.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        ...


class BotWriter(Protocol):
    """Changes bots."""

    async def rollback(self, slug: str, number: int) -> "AssemblyResult":
        """Restore an earlier version of a bot's files as a new version.

        Raises: NotFound; Conflict when the bot is changed at the same time.
        """
        ...

    async def load(self, path: Path) -> "AssemblyResult":
        """Create a new bot from an archive of `export`. Nothing in it is run.

        Raises: NotFound; Invalid when the archive has no bot; Damaged when it is incomplete.
        """
        ...

    async def delete(self, slug: str, *, with_choices: bool = False) -> None:
        """Delete a bot with its files and versions; with `with_choices`, also its remembered choices.

        Raises: NotFound
        """
        ...


@dataclass(frozen=True)
class BotPorts:
    """The bots of a home, or of a server."""

    reader: BotReader
    writer: BotWriter
    home: Path | None
    """The folder of the home; None for a server."""
