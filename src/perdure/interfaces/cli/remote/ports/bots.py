"""What commands need of the bots that they work with.

The two implementations are `Bots` of `perdure.app`, and `ServerBots` over the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from perdure.app.builder.bots import ExplanationView
    from perdure.app.wire.resources import bots as wire
    from perdure.forge.assembly.assembly import AssemblyResult

T_co = TypeVar("T_co", covariant=True)


class Shown(Protocol[T_co]):
    """What has one JSON form on every surface."""

    def wire(self) -> T_co:
        """Return the JSON form."""
        ...


class BotReader(Protocol):
    """The bots, as far as they are read."""

    async def whole(self, slug: str) -> Shown["wire.Bot"]:
        """Return a bot with all that there is to know about it now.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        ...

    async def versions(self, slug: str) -> Sequence[Shown["wire.BotVersion"]]:
        """Return all versions of a bot, the newest first.

        Raises: NotFound
        """
        ...

    async def explain(self, slug: str, place: str) -> "ExplanationView":
        """Return where a line came from; a place is `SOUL.md:12`.

        Raises: NotFound; Invalid when there is no such line.
        """
        ...

    async def verify(self, slug: str) -> Sequence[str]:
        """Return what is wrong with the files of a bot.

        Raises: NotFound
        """
        ...

    async def export(self, slug: str) -> bytes:
        """Return a bot as one file.

        Raises: NotFound; Invalid, naming the file, when one cannot be read.
        """
        ...


class BotWriter(Protocol):
    """The bots, as far as they are changed."""

    async def rollback(self, slug: str, number: int) -> "AssemblyResult":
        """Make the files of a bot what they were in an earlier version, as a new version.

        Raises: NotFound; Conflict when the bot is changed at the same time.
        """
        ...

    async def load(self, path: Path) -> "AssemblyResult":
        """Make a new bot of a file that `export` gave. Nothing in it is run.

        Raises: NotFound; Invalid when it holds no bot; Damaged when it is not whole.
        """
        ...

    async def delete(self, slug: str, *, with_choices: bool = False) -> None:
        """Remove a bot with its files and all its versions; with choices, also what was chosen for it.

        Raises: NotFound
        """
        ...


@dataclass(frozen=True)
class BotPorts:
    """The bots of a home, or of a server."""

    reader: BotReader
    writer: BotWriter
    home: Path | None
    """The folder of the home, where it is on this machine."""
