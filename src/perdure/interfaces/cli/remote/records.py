"""Implements the ports for memory records over the client."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast
from uuid import uuid4

from uuid_utils import uuid7

from perdure.app.memory.arguments import find_invalid
from perdure.app.wire.resources.parameters import RecordFilters, RelatedTo
from perdure.client.memory import Memory
from perdure.errors import PerdureError

if TYPE_CHECKING:
    from perdure.app.memory.sources import SourceRecords
    from perdure.app.wire.resources import memory as wire

_PAGE = 500
_MOST_SENT = 1000
_LARGEST_SENT = (1 << 20) - 1000
"""The records that a request may have, and their bytes: a body has at most 1 MiB."""
_OFF = "The memory is switched off (memory.enabled)."


class ServerRecords:
    """Implements `RecordReader` and `RecordWriter` over the client."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    async def get(self, record_id: str) -> dict[str, Any]:
        """See RecordReader.get."""
        return await self._memory.get(record_id, prefix=True)

    async def related(
        self, *, limit: int | None = None, budget_ms: float = 50.0, **asked: Unpack[RelatedTo]
    ) -> "wire.RelatedMatches":
        """See RecordReader.related."""
        found = await self._memory.related(limit=limit, budget_ms=budget_ms, **asked)
        found.pop("next_cursor", None)
        return found

    async def search(
        self, text: str, *, limit: int = 10, budget_ms: float = 50.0, **filters: Unpack[RecordFilters]
    ) -> "wire.SearchMatches":
        """See RecordReader.search."""
        found = await self._memory.search(text, limit=limit, budget_ms=budget_ms, **filters)
        found.pop("next_cursor", None)
        return found

    async def list(self, *, limit: int = 20, **filters: Unpack[RecordFilters]) -> "wire.RecordList":
        """See RecordReader.list."""
        records: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            size = min(limit - len(records), _PAGE)
            found = await self._memory.list(limit=size, cursor=cursor, **filters)
            records += [match["record"] for match in found["matches"]]
            cursor = found.get("next_cursor")
            if cursor is None or len(records) >= limit:
                return {"records": records, "has_more": cursor is not None}

    async def pins(self, bot: str) -> Sequence[dict[str, Any]]:
        """See RecordReader.pins."""
        return cast("Sequence[dict[str, Any]]", (await self._memory.pins(bot))["pins"])

    async def status(self) -> "wire.MemoryStatus":
        """See RecordReader.status."""
        return await self._memory.status()

    async def add(self, record: Mapping[str, Any], *, dedupe: bool = True) -> "wire.AddedRecord":
        """See RecordWriter.add; a repeated call with the same key stores one record."""
        if dedupe:
            return await self._memory.add(record, key=uuid4().hex)
        return (await self.add_many([record], dedupe=False))[0]

    async def add_many(
        self, records: Sequence[Mapping[str, Any]], *, dedupe: bool = True
    ) -> "Sequence[wire.AddedRecord]":
        """See RecordWriter.add_many; ids are assigned here, so that a repeated call stores nothing twice.

        Records that one request cannot hold are sent in several: each is stored completely or not at all. They are
        validated before the first is sent.
        """
        named = [record if record.get("id") is not None else {**record, "id": str(uuid7())} for record in records]
        batches = list(_batches(named))
        if len(batches) > 1 and (invalid := find_invalid(named)) is not None:
            raise invalid[1]
        answers: list[wire.AddedRecord] = []
        for batch in batches:
            try:
                answers += (await self._memory.put(batch, again=not dedupe))["records"]
            except PerdureError as error:
                if answers:
                    error.detail += (
                        f" The first {len(answers):,} of {len(named):,} records were sent before and are stored."
                    )
                raise
        return [_result_of(*each) for each in zip(records, named, answers, strict=True)]

    async def update(self, key: str, changes: Mapping[str, Any]) -> "wire.UpdatedRecord":
        """See RecordWriter.update."""
        return await self._memory.update(key, changes)

    async def forget(self, record_id: str) -> "wire.DeletedRecord":
        """See RecordWriter.forget."""
        return await self._memory.forget(record_id)

    async def ingest(self, find: "Callable[[], SourceRecords]") -> dict[str, Any]:
        """Read a source here, and store its records at the server.

        Raises: Unavailable or Denied when the server stops answering; a repetition does not store records twice.
        """
        from perdure.app.memory.sources import store

        target = _Target(self._memory, asyncio.get_running_loop())
        report = await asyncio.to_thread(lambda: store(find(), target))
        if target.is_off:
            return {"added": 0, "duplicates": 0, "forgotten": 0, "skipped": 0, "errors": [_OFF]}
        return report


class _Target:
    """Receives records from `store` in its thread, and sends them from the event loop."""

    def __init__(self, memory: Memory, loop: asyncio.AbstractEventLoop) -> None:
        self._memory = memory
        self._loop = loop
        self.is_off = False

    def add_many(self, records: Sequence[Mapping[str, Any]], *, skip_taken: bool) -> Sequence[dict[str, Any]]:
        """See Target.add_many."""
        answers: list[wire.AddedRecord] = []
        for batch in _batches(records):
            sent = self._memory.put(batch, only_new=skip_taken)
            answers += asyncio.run_coroutine_threadsafe(sent, self._loop).result()["records"]
        self.is_off = self.is_off or any(answer.get("reason") == "disabled" for answer in answers)
        return [dict(answer) for answer in answers]


def _batches(records: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the records in parts that fit into one request each."""
    batch: list[Mapping[str, Any]] = []
    size = 0
    for record in records:
        length = len(json.dumps(record, default=str))
        if batch and (len(batch) == _MOST_SENT or size + length > _LARGEST_SENT):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += length + 2
    if batch:
        yield batch


def _result_of(record: Mapping[str, Any], sent: Mapping[str, Any], answer: "wire.AddedRecord") -> "wire.AddedRecord":
    """Return the result for a record; an existing record with the id assigned here was added by this call."""
    if record.get("id") is None and answer.get("existing_id") == sent["id"]:
        return {"added": True, "id": sent["id"]}
    return answer
