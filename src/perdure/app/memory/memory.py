"""The operations on the memory of a home: add, find, read and maintain records. It needs no database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, cast

import orjson

from perdure import failpoints
from perdure.app.memory.threads import MemoryThreads
from perdure.errors import Conflict, Invalid, NotFound, Over
from perdure.memory.ingest.report import SourceRecords, store
from perdure.memory.memory import Memory
from perdure.memory.query.parameters import RecordFilters, RelatedTo
from perdure.memory.tools.pins import MOST_PINS, is_pin, pin_fingerprint
from perdure.settings import MemorySettings, Settings

if TYPE_CHECKING:
    from perdure.app.wire.resources import memory as wire
    from perdure.kernel.ports import IdempotencyKeys, IdempotentCall

P = ParamSpec("P")
T = TypeVar("T")


_PAGE = 200
_OFF = "The memory is switched off (memory.enabled)."
_WHOLE_ID = "Only commands that read the memory accept a prefix of an id."


class HomeMemory:
    """The memory of a home: an append-only log of records, and queries over it.

    async with Perdure.open() as p:
        await p.memory.add({"type": "lesson", "title": "The cart caches prices", "paths": ["src/cart.py"]})
        for match in (await p.memory.related(paths=["src/cart.py"]))["matches"]:
            print(match["record"]["title"], match["why"])

    While it is switched off (`memory.enabled`), nothing is added or found; records can still be listed and read.
    Every method but `close` raises Invalid when the settings of the memory are invalid.
    """

    def __init__(self, settings: Settings, keys: "IdempotencyKeys | None" = None) -> None:
        self._settings = settings
        self._own_keys = keys
        self._memory = Memory(settings.memory_state_dir)
        self._threads = MemoryThreads()

    async def add(self, record: Mapping[str, Any], *, dedupe: bool = True) -> "wire.AddedRecord":
        """Store a record, unless a duplicate was stored within a day: `{"added": True, "id"}`, else `added` is False.

        It is on stable storage when this returns. `reason` says why it was not added: `duplicate`, with `existing_id`,
        or `disabled`. A record that equals the stored one with its id is a duplicate, too, whatever its age.

        Raises: Invalid; Conflict when its id is taken by another record, or by a forgotten one; Unavailable; Denied;
        Damaged.
        """
        return (await self.add_many([record], dedupe=dedupe))[0]

    async def add_many(
        self, records: Sequence[Mapping[str, Any]], *, dedupe: bool = True, skip_taken: bool = False
    ) -> "list[wire.AddedRecord]":
        """Store several records with one write and one flush: all, or none when one is rejected.

        With `skip_taken` a taken id is always a duplicate, and a forgotten record is not added again.

        Raises: what `add` raises.
        """
        if not self._memory_settings.enabled:
            return [{"added": False, "reason": "disabled"} for _ in records]
        answers = await self._call(self._memory.add_many, records, dedupe=dedupe, skip_taken=skip_taken)
        return cast("list[wire.AddedRecord]", answers)

    async def add_once(self, record: Mapping[str, Any], once: "IdempotentCall") -> "wire.AddedRecord":
        """Store a record as `add` does; repeated calls with the same key store one, and get the same answer.

        The id is chosen and stored with the key before the record is stored: a repeated call, after an interruption or
        at the same time, uses that id, and finds the record if it exists.

        Raises: KeyTaken when the key was used for another call; Over when the record was removed since; otherwise as
        `add`.
        """
        from perdure.app.idempotency import Idempotency

        if not self._memory_settings.enabled:
            return {"added": False, "reason": "disabled"}
        prepared = await self._call(self._memory.prepare, record)
        stored, was_repeated = await Idempotency(self._keys).settle(once, prepared["id"], partial(self._add_as, record))
        answer: wire.AddedRecord = orjson.loads(stored)
        return await self._require_unremoved(answer) if was_repeated else answer

    async def _add_as(self, record: Mapping[str, Any], record_id: str) -> str:
        """Add a record under the chosen id, and return the answer, also if it was added before."""
        failpoints.hit("memory.once.before")
        answer = await self._call(self._memory.add, {**record, "id": record_id})
        if record.get("id") is None and answer.get("existing_id") == record_id:
            answer = {"added": True, "id": record_id}
        failpoints.hit("memory.once.after")
        return orjson.dumps(answer).decode()

    async def _require_unremoved(self, answer: "wire.AddedRecord") -> "wire.AddedRecord":
        """Return the stored answer to a repeated call, if its record still exists.

        Raises: Over
        """
        record_id = answer["id"] if answer["added"] else answer["existing_id"]
        try:
            is_unchanged = (await self.get(record_id))["id"] == record_id  # it may be only a prefix
        except (NotFound, Conflict):
            is_unchanged = False
        if not is_unchanged:
            did = "stored" if answer["added"] else "was a duplicate of"
            raise Over(
                f"An earlier request with this idempotency key {did} the record {record_id}, which was removed or"
                " archived since."
            )
        return answer

    async def get(self, record_id: str) -> dict[str, Any]:
        """Return the record with an id or a unique prefix of one (at least six characters), or the one with a key.

        Raises: NotFound
        """
        return await self._call(self._memory.get, record_id)

    async def get_exact(self, record_id: str) -> dict[str, Any]:
        """Return the record with an id; a prefix of it is not enough.

        Raises: NotFound, naming the only record whose id has that prefix; otherwise as `get`.
        """
        try:
            record = await self.get(record_id)
        except Conflict as error:
            raise NotFound(f"No record has the id {record_id!r}. {_WHOLE_ID}") from error
        if record["id"] != record_id:
            raise NotFound(f"No record has the id {record_id!r}. Did you mean {record['id']!r}? {_WHOLE_ID}")
        return record

    async def related(
        self, *, limit: int | None = None, budget_ms: float = 50.0, **criteria: Unpack[RelatedTo]
    ) -> "wire.RelatedMatches":
        """Find records related to paths, a fingerprint, a text, a commit or a pull request.

        Returns `{"matches": [{"record", "why": [{"kind", "value"}], "count"}], "truncated"}`, the most severe and
        newest first, of the last `memory.retention_days`, at most `memory.max_matches` unless a limit is given. Records
        that report the same (reports of tools about one cause; otherwise the same title and summary) are one match. Its
        `count` is their number among the first 40 matching records. `truncated` says that the time budget was used up.
        If more records match than the limit allows, `more` is `{"count", "is_exact"}`: their number, which is a minimum
        unless `is_exact`.

        Raises: Invalid; Unavailable; Denied.
        """
        memory_settings = self._memory_settings
        if not memory_settings.enabled:
            return {"matches": [], "truncated": False, "disabled": True}
        matches = await self._call(
            self._memory.related,
            limit=memory_settings.max_matches if limit is None else limit,
            budget_ms=budget_ms,
            retention_days=memory_settings.retention_days,
            **criteria,
        )
        return cast("wire.RelatedMatches", matches)

    async def search(
        self,
        text: str,
        *,
        limit: int = 10,
        budget_ms: float = 50.0,
        **filters: Unpack[RecordFilters],
    ) -> "wire.SearchMatches":
        """Find records by their words, best match first: `{"matches": [{"record", "score"}], "truncated"}`.

        Words are compared by their stem; a text in Chinese, Japanese or Korean is found by any part of it. The filters
        are those of `list`.

        Raises: Invalid; Unavailable; Denied.
        """
        if not self._memory_settings.enabled:
            return {"matches": [], "truncated": False, "disabled": True}
        matches = await self._call(self._memory.search, text, limit=limit, budget_ms=budget_ms, **filters)
        return cast("wire.SearchMatches", matches)

    async def pins(self, bot: str) -> Sequence[dict[str, Any]]:
        """Return the records that are pinned for a bot, oldest first: they are in each of its prompts.

        Raises: Invalid; Unavailable; Denied.
        """
        if not self._memory_settings.enabled:
            return []
        records = await self._call(self._memory.with_fingerprint, pin_fingerprint(bot), MOST_PINS)
        return [record for record in records if is_pin(record, bot)]

    async def list(self, *, limit: int = 20, **filters: Unpack[RecordFilters]) -> "wire.RecordList":
        """Return the newest records: `{"records", "has_more"}`; superseded records are left out.

        Filters are `type`, `source`, `repo`, and `since` and `until` (ISO-8601 or seconds since 1970).

        Raises: Invalid; Unavailable; Denied.
        """
        return cast("wire.RecordList", await self._call(self._memory.list, limit=limit, **filters))

    async def update(self, key: str, changes: Mapping[str, Any]) -> "wire.UpdatedRecord":
        """Store a record under a key, or as the successor of the one with an id; it supersedes the current one.

        Values that `changes` does not have are copied; None removes a value. Returns `{"added": True, "id", "key",
        "superseded"}`, else `added` is False with the `reason`: `unchanged`, with `existing_id`, or `disabled`.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        if not self._memory_settings.enabled:
            return {"added": False, "reason": "disabled"}
        return cast("wire.UpdatedRecord", await self._call(self._memory.update, key, changes))

    async def iter(self) -> AsyncIterator[dict[str, Any]]:
        """Yield all records, oldest first, a page of them in memory at a time."""
        _ = self._memory_settings
        records = self._memory.iter()
        while page := await self._call(lambda: list(islice(records, _PAGE))):
            for record in page:
                yield record

    async def ingest(self, find: Callable[[], SourceRecords]) -> dict[str, Any]:
        """Add the records of a source; return the numbers `added`, `duplicates`, `forgotten`, `skipped`, and `errors`.

        The same source, read again, adds nothing, and a forgotten record is not added again. Unusable entries are
        skipped and listed in `errors` instead of raised.

        Raises: Unavailable; Denied; Damaged.
        """
        if not self._memory_settings.enabled:
            return {"added": 0, "duplicates": 0, "forgotten": 0, "skipped": 0, "errors": [_OFF]}
        return await self._call(lambda: store(find(), self._memory))

    async def status(self) -> "wire.MemoryStatus":
        """Return the number of records, their size, and the state of the log and its index."""
        memory_settings = self._memory_settings
        status = await self._call(self._memory.status, retention_days=memory_settings.retention_days)
        return cast("wire.MemoryStatus", {"enabled": memory_settings.enabled, **status})

    async def verify(self, *, clear: bool = False) -> dict[str, Any]:
        """Read the whole log and list its damaged lines under `bad`; `clear` allows appends after a failed flush.

        Raises: Unavailable; Denied; Damaged.
        """
        return await self._call(self._memory.verify, clear=clear)

    async def repair(self, *, accept: str | None = None) -> dict[str, Any]:
        """Move damaged lines into `quarantine`, or accept an altered one unchanged.

        Raises: NotFound; Unavailable; Denied; Damaged.
        """
        return await self._call(self._memory.repair, accept=accept)

    async def rebuild(self) -> dict[str, Any]:
        """Rebuild the index from the log.

        Raises: Unavailable; Denied.
        """
        return await self._call(self._memory.rebuild)

    async def compact(self, *, retention_days: int | None = None, dry_run: bool = False) -> dict[str, Any]:
        """Move records that are superseded, or older than the retention, into the archive, while the memory is in use.

        Pinned records and the newest of each fingerprint stay. A dry run returns the same numbers and writes nothing.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        days = self._memory_settings.retention_days if retention_days is None else retention_days
        return await self._call(self._memory.compact, retention_days=days, dry_run=dry_run)

    async def forget(self, record_id: str) -> "wire.DeletedRecord":
        """Remove a record permanently: no import and no adapter adds it again.

        `other_versions` has the ids of its other versions, which remain.

        Raises: NotFound; Unavailable; Denied; Damaged.
        """
        result = await self._call(self._memory.forget, record_id)
        return cast("wire.DeletedRecord", {**result, "id": record_id})

    async def export(self, *, raw: bool = False, archive: bool = False) -> AsyncIterator[bytes]:
        """Yield every record as a line of JSON, oldest first; with `raw` as it is stored, with its checksum."""
        _ = self._memory_settings
        lines = self._memory.export(raw=raw, archive=archive)
        while page := await self._call(lambda: list(islice(lines, _PAGE))):
            for line in page:
                yield line

    async def import_lines(self, chunks: Iterable[bytes]) -> dict[str, Any]:
        """Add every line of JSON whose id is new; the chunks may be cut anywhere.

        Returns the numbers `added`, `skipped`, `forgotten` and `bad_lines`; `bad` lists the first bad lines by number.
        `conflicts` counts the skipped lines whose id is taken by another record, and `conflicting` has the first of
        them.

        Raises: Conflict when the memory is switched off; Unavailable; Denied; Damaged.
        """
        if not self._memory_settings.enabled:
            raise Conflict(_OFF)
        return await self._call(self._memory.import_lines, chunks)

    async def close(self) -> None:
        """Wait for running calls, and close all files."""
        await self._threads.wait()
        await asyncio.to_thread(self._memory.close)

    @property
    def _keys(self) -> "IdempotencyKeys":
        if self._own_keys is None:
            raise Invalid("This memory was opened without a database, which is needed to store keys.")
        return self._own_keys

    @property
    def _memory_settings(self) -> MemorySettings:
        return self._settings.memory

    async def _call(self, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread, if the settings are valid; see MemoryThreads.call."""
        _ = self._memory_settings
        return await self._threads.call(act, *args, **kwargs)


@asynccontextmanager
async def open_memory(settings: Settings) -> AsyncIterator[HomeMemory]:
    """Open only the memory of a home."""
    memory = HomeMemory(settings)
    try:
        yield memory
    finally:
        await memory.close()
