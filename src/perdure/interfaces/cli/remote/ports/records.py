"""What commands need of the memory that they work with: that of the home that they open, or of a server.

Each port has two implementations: an object of `perdure.app`, and one in this folder over `perdure.client`. What
crosses is what the wire defines, so that a command prints the same in both cases.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from perdure.memory.query.parameters import RecordFilters, RelatedTo

if TYPE_CHECKING:
    from perdure.app.wire.resources import memory as wire
    from perdure.memory.ingest.report import Found


class RecordReader(Protocol):
    """The memory, as far as it is read."""

    async def get(self, record_id: str) -> dict[str, Any]:
        """Return the record with an id, or with the only one that begins so.

        Raises: NotFound; Conflict
        """
        ...

    async def related(
        self, *, limit: int | None = None, budget_ms: float = 50.0, **asked: Unpack[RelatedTo]
    ) -> "wire.RelatedMatches":
        """Find what has to do with paths, a fingerprint, a text, a commit or a pull request."""
        ...

    async def search(
        self, text: str, *, limit: int = 10, budget_ms: float = 50.0, **filters: Unpack[RecordFilters]
    ) -> "wire.SearchMatches":
        """Find records by their words, the best first."""
        ...

    async def list(self, *, limit: int = 20, **filters: Unpack[RecordFilters]) -> "wire.RecordList":
        """Return the newest records."""
        ...

    async def status(self) -> "wire.MemoryStatus":
        """Return how much there is, how large it is, and how the log and its index stand."""
        ...


class RecordWriter(Protocol):
    """The memory, as far as it is written."""

    async def add(self, record: Mapping[str, Any], *, dedupe: bool = True) -> "wire.AddedRecord":
        """Store a record, unless the same was stored within a day."""
        ...

    async def add_many(
        self, records: Sequence[Mapping[str, Any]], *, dedupe: bool = True
    ) -> "Sequence[wire.AddedRecord]":
        """Store several records: all or, when one is refused, none."""
        ...

    async def update(self, key: str, changes: Mapping[str, Any]) -> "wire.UpdatedRecord":
        """Store a record under a key, or in the place of the one with an id."""
        ...

    async def forget(self, record_id: str) -> "wire.DeletedRecord":
        """Remove a record for good.

        Raises: NotFound
        """
        ...

    async def ingest(self, find: "Callable[[], Found]") -> dict[str, Any]:
        """Take in what a source gives, and count what became of it."""
        ...


@dataclass(frozen=True)
class Records:
    """The memory of a home, or of a server."""

    reader: RecordReader
    writer: RecordWriter
