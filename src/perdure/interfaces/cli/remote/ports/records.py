"""The ports of commands for memory records.

The two implementations are `HomeMemory` of `perdure.app`, and `ServerRecords` over the client.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from perdure.app.wire.resources.parameters import RecordFilters, RelatedTo
from perdure.errors import Conflict, NotFound

if TYPE_CHECKING:
    from perdure.app.memory.sources import SourceRecords
    from perdure.app.wire.resources import memory as wire


class RecordReader(Protocol):
    """Reads memory records."""

    async def get(self, record_id: str) -> dict[str, Any]:
        """Return the record with an id or a unique prefix of it, or the current one of a key.

        Raises: NotFound; Conflict
        """
        ...

    async def related(
        self, *, limit: int | None = None, budget_ms: float = 50.0, **asked: Unpack[RelatedTo]
    ) -> "wire.RelatedMatches":
        """Return records related to paths, a fingerprint, a text, a commit or a pull request."""
        ...

    async def search(
        self, text: str, *, limit: int = 10, budget_ms: float = 50.0, **filters: Unpack[RecordFilters]
    ) -> "wire.SearchMatches":
        """Return records by words, best match first."""
        ...

    async def list(self, *, limit: int = 20, **filters: Unpack[RecordFilters]) -> "wire.RecordList":
        """Return the newest records."""
        ...

    async def pins(self, bot: str) -> Sequence[dict[str, Any]]:
        """Return the records that a bot has pinned, oldest first."""
        ...

    async def status(self) -> "wire.MemoryStatus":
        """Return the number of records, their size, and the state of the log and its index."""
        ...


class RecordWriter(Protocol):
    """Changes memory records."""

    async def add(self, record: Mapping[str, Any], *, dedupe: bool = True) -> "wire.AddedRecord":
        """Store a record, unless the same was stored within a day."""
        ...

    async def add_many(
        self, records: Sequence[Mapping[str, Any]], *, dedupe: bool = True
    ) -> "Sequence[wire.AddedRecord]":
        """Store several records: all of them, or none if one is rejected."""
        ...

    async def update(self, key: str, changes: Mapping[str, Any]) -> "wire.UpdatedRecord":
        """Store a record under a key, or as the successor of the record with an id."""
        ...

    async def forget(self, record_id: str) -> "wire.DeletedRecord":
        """Delete a record permanently.

        Raises: NotFound
        """
        ...

    async def ingest(self, find: "Callable[[], SourceRecords]") -> dict[str, Any]:
        """Store the records of a source, and return counts of the results."""
        ...


@dataclass(frozen=True)
class Records:
    """The memory of a home, or of a server."""

    reader: RecordReader
    writer: RecordWriter


async def find_by_prefix(memory: RecordReader, record: str) -> dict[str, Any] | None:
    """Return the record with an id, a unique prefix or a key; archived records are not found."""
    try:
        return await memory.get(record)
    except (NotFound, Conflict):
        return None
