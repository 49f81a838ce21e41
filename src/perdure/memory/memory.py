"""The API of the memory: add, find, maintain. Synchronous; `p.memory` runs it in a thread."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

import orjson

from perdure.errors import Conflict, NotFound, PerdureError
from perdure.memory.arguments import (
    LONGEST_DAYS,
    budget_of,
    days_of,
    limit_of,
    text_of,
)
from perdure.memory.batch import Batch
from perdure.memory.dedupe import LONG_BYTES, WINDOW_MS, RecentKeys
from perdure.memory.index.ids import TakenIds, in_archive
from perdure.memory.index.index import Index
from perdure.memory.index.index_file import IndexLookup
from perdure.memory.index.view import View
from perdure.memory.log import compaction
from perdure.memory.log.files import OpenFile, open_file
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import Log
from perdure.memory.log.log import now_ms as clock_ms
from perdure.memory.log.repair import repair
from perdure.memory.log.transfer import export, import_lines
from perdure.memory.log.verify import status, verify
from perdure.memory.normalise import normalised
from perdure.memory.paths import LOG_FILE, MemoryFiles
from perdure.memory.query.filters import filter_of
from perdure.memory.query.listing import list_records
from perdure.memory.query.parameters import RecordFilters, RelatedTo
from perdure.memory.query.related import related as find_related
from perdure.memory.query.related import related_query
from perdure.memory.query.search import SearchQuery
from perdure.memory.query.search import search as find_text
from perdure.memory.record import JsonObject
from perdure.memory.updating import complete, other_versions, update

_DAY_MS = 24 * 60 * 60 * 1000
_SHORTEST_PREFIX = 6
_LONG_BUDGET_MS = 1000.0
"""The time budget of queries whose result must be complete."""
_STEP_BYTES = 1 << 20
"""At most this many bytes are indexed by a call that only adds records."""


class Memory:
    """One memory. Threads may share it, and processes may use the same folder at the same time."""

    def __init__(self, folder: Path) -> None:
        self.files = MemoryFiles(Path(os.path.abspath(folder)) / LOG_FILE)
        self._log = Log(self.files)
        self._index = Index(self.files)
        self._keys = IndexLookup(self.files)
        self._recent = RecentKeys(self.files.log, self._keys)
        self._taken = TakenIds(self.files, self._keys)

    def add(self, record: Mapping[str, Any], *, dedupe: bool = True) -> JsonObject:
        """Store a record unless a duplicate was stored within a day; return whether it was added, and its id.

        Raises: Invalid; Conflict when another record has its id, or had it until it was forgotten; Unavailable; Denied;
        Damaged.
        """
        return self.add_many([record], dedupe=dedupe)[0]

    def prepare(self, record: Mapping[str, Any]) -> JsonObject:
        """Return the record as it would be stored, with its id.

        Raises: Invalid
        """
        arrival_ms = clock_ms()
        stored = normalised(record, arrival_ms)
        line_of(stored, arrival_ms)
        return stored

    def add_many(
        self, records: Sequence[Mapping[str, Any]], *, dedupe: bool = True, skip_taken: bool = False
    ) -> list[JsonObject]:
        """Store several records with one write and one flush: all, or none when one is rejected.

        A record whose id is taken is a duplicate when its content is equal, whatever its age; otherwise the batch is
        rejected, as it is for the id of a forgotten record. With `skip_taken`, a taken id always counts as a
        duplicate, and a forgotten record is not added again; a report that was stored without paths gets those of its
        repetition, by a record that supersedes it.

        Raises: what `add` raises.
        """
        batch = Batch(records, clock_ms(), dedupe=dedupe, skip_taken=skip_taken)
        if not dedupe and not batch.names:
            self._log.append([each.line for each in batch.new_records])
            return batch.all_added()
        self._prepare(batch)
        archived = in_archive(self.files, batch.names)

        def choose(fd: int, size: int) -> Sequence[bytes]:
            holders = self._taken.find(batch.names, fd, size, archived)
            keys = batch.keys
            key_holders = self._recent.find(keys, fd, size, batch.arrival_ms - WINDOW_MS) if keys else {}
            return batch.choose(holders, key_holders)

        self._log.append_chosen(choose)
        if max(self._recent.read_bytes, self._taken.read_bytes) > LONG_BYTES:
            self._index.catch_up(at_most=_STEP_BYTES)
        for place, record in batch.with_paths.items():
            if (new_id := complete(self._log, self._index, record)) is not None:
                batch.answers[place] = {"added": True, "id": new_id}
        return batch.answers

    def _prepare(self, batch: Batch) -> None:
        """Update the index before the lock is taken, if much would have to be read under the lock."""
        if batch.names:
            with suppress(FileNotFoundError):
                file = OpenFile(open_file(self.files.log, os.O_RDONLY))
                if self._taken.unread_bytes(file.fd) > _STEP_BYTES:
                    self._index.use(lambda _view: None)

    def related(
        self,
        *,
        limit: int = 3,
        budget_ms: float = 50.0,
        retention_days: float = 90,
        now_ms: int | None = None,
        **criteria: Unpack[RelatedTo],
    ) -> JsonObject:
        """Find related records, sorted by severity, then newest first, then by overlap of paths, then by id.

        A record matches when it has the fingerprint, the commit (by at least seven characters of its id) or the pull
        request, or a path that equals one of the
        paths (overlap 2), lies within one or contains one (overlap 1); the best overlap counts. A text keeps only
        records with all of its words, except very common words; given alone, it is the only criterion. Without a
        criterion nothing matches.

        A record without a usable timestamp is dated by its arrival. The budget covers the query, not the update of
        the index; when it is used up, the matches found so far are returned with `truncated: true`.

        Raises: Invalid for a path that leads out of the repository; Unavailable; Denied; Damaged.
        """
        since_ms = int((clock_ms() if now_ms is None else now_ms) - days_of(retention_days) * _DAY_MS)
        query = replace(related_query(**criteria), limit=limit_of(limit), since_ms=since_ms)
        within_ms = budget_of(budget_ms)
        if query.is_empty:
            return _nothing()
        return self._index.use(lambda view: find_related(view, query, within_ms)) or _nothing()

    def with_fingerprint(self, fingerprint: str, limit: int) -> Sequence[JsonObject]:
        """Return the records with a fingerprint, of any age, oldest first.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        found = self.related(
            fingerprint=fingerprint, limit=limit, budget_ms=_LONG_BUDGET_MS, retention_days=LONGEST_DAYS
        )
        records = [match["record"] for match in found["matches"]]
        return sorted(records, key=lambda record: (str(record.get("timestamp")), str(record.get("id"))))

    def search(
        self,
        text: str,
        *,
        limit: int = 10,
        budget_ms: float = 50.0,
        **filters: Unpack[RecordFilters],
    ) -> JsonObject:
        """Find records by words, the best match first (BM25 over title and summary).

        The text is never parsed as a query language. A record must have one of the words; very common words are
        ignored unless there are no others. The budget works as in `related`, the filters work as in `list`.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        query = SearchQuery(text_of(text, "text"), limit_of(limit), filter_of(**filters))
        within_ms = budget_of(budget_ms)
        return self._index.use(lambda view: find_text(view, query, within_ms)) or _nothing()

    def list(self, *, limit: int = 20, **filters: Unpack[RecordFilters]) -> JsonObject:
        """Return the newest records, and whether there are more; filters are type, source, repo, since and until.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        return list_records(self.files, filter_of(**filters), limit_of(limit))

    def update(self, key: str, changes: Mapping[str, Any]) -> JsonObject:
        """Store a record under a key: it supersedes the current one and copies the values that are not changed.

        The key may also be the id of a record, which becomes its key. None removes a value. An update that changes
        nothing stores nothing.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        return update(self._log, self._index, key, changes)

    def get(self, id: str) -> JsonObject:  # noqa: A002  the key of a record has this name
        """Return the record with an id or a unique prefix of one, at least six characters long, or the one of a key.

        Raises: Invalid; NotFound; Conflict when there are several; Unavailable; Denied; Damaged.
        """
        name = text_of(id, "id")
        records = self._index.use(lambda view: _with_id_or_prefix(view, name) or view.with_key(name)[-1:]) or []
        if not records:
            raise NotFound(f"The memory has no record {id!r}.")
        if len(records) > 1:
            raise Conflict(f"Several records have an id that begins with {id!r}; give more characters.")
        return records[0]

    def rebuild(self) -> JsonObject:
        """Rebuild the index; return the number of records, the size in bytes and the seconds it took.

        Raises: NotFound when there is no log; Unavailable; Denied.
        """
        return self._index.rebuild()

    def index_state(self) -> JsonObject:
        """Return whether the index is current, behind, missing or unusable. Queries are correct in every state."""
        return self._index.state()

    def iter(self) -> Iterator[JsonObject]:
        """Yield all records that are not forgotten, oldest first."""
        return map(orjson.loads, export(self.files))

    def compact(self, *, retention_days: int = 90, now_ms: int | None = None, dry_run: bool = False) -> JsonObject:
        """Move old records to the archive; return the numbers kept, archived and forgotten, and the size of the log.

        A dry run returns the same numbers and writes nothing.

        Raises: Conflict while another process rewrites the log; Unavailable; Denied; Damaged.
        """
        answer = compaction.compact(self._log, retention_days=retention_days, now=now_ms, dry_run=dry_run)
        return answer if dry_run else self._update_index(answer)

    def forget(self, record_id: str) -> JsonObject:
        """Remove all records with an id from the log and the archive; return how many, and the versions that remain.

        Raises: NotFound; Conflict when another process rewrites the log for a minute; Unavailable; Denied; Damaged.
        """
        name = text_of(record_id, "id")
        versions = self._index.use(lambda view: other_versions(view, name)) or []
        answer = self._update_index(compaction.forget(self._log, name))
        return {**answer, "other_versions": versions} if versions else answer

    def verify(self, *, clear: bool = False) -> JsonObject:
        """Check every line; with `clear`, read the log from disk and allow appends again after a failed flush.

        Raises: Damaged when the disk cannot be read; Conflict; Unavailable; Denied.
        """
        answer = verify(self._log, clear=clear)
        return self._update_index(answer) if clear else answer

    def repair(self, *, accept: str | None = None) -> JsonObject:
        """Move damaged bytes into quarantine, or accept the altered line with an id as it is.

        Raises: NotFound; Conflict; Unavailable; Denied; Damaged.
        """
        return self._update_index(repair(self._log, accept=text_of(accept, "accept") if accept is not None else None))

    def status(self, *, retention_days: int = 90) -> JsonObject:
        """Return the counts and sizes of the log, the archive and the index."""
        return {**status(self._log, retention_days=retention_days), "index": self._index.state()}

    def export(self, *, raw: bool = False, archive: bool = False) -> Iterator[bytes]:
        """Yield every record as a line of JSON; with `raw` exactly as it is stored."""
        return export(self.files, raw=raw, archive=archive)

    def import_lines(self, chunks: Iterable[bytes]) -> JsonObject:
        """Add every line of JSON whose id is new; return the numbers added and skipped, and the bad lines.

        Raises: Unavailable; Denied; Damaged.
        """
        return import_lines(self._log, chunks)

    def _update_index(self, answer: JsonObject) -> JsonObject:
        """Rebuild the index after the log was rewritten; if that fails, the next query does it."""
        with suppress(PerdureError):
            if self.index_state()["state"] != "current":
                self.rebuild()
        return answer

    def close(self) -> None:
        """Close all files."""
        self._log.close()
        self._index.close()
        self._keys.close()


def _with_id_or_prefix(view: View, name: str) -> list[JsonObject]:
    """Return the record with an id, or at most two whose ids have the prefix."""
    names = [name] if name and view.with_id(name) else []
    if not names and len(name) >= _SHORTEST_PREFIX:
        names = view.ids_with_prefix(name, 2)
    rows = [row for each in names if (row := view.visible(each)) is not None]
    return [result[0].record for row in rows if (result := view.read(row)) is not None]


def _nothing() -> JsonObject:
    return {"matches": [], "truncated": False}
