"""The memory as callers see it: add, find, keep in order. Synchronous; `p.memory` runs it in a thread."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Unpack

import orjson

from perdure.errors import Conflict, NotFound, PerdureError
from perdure.memory.arguments import (
    budget_of,
    days_of,
    fingerprint_of,
    limit_of,
    number_of,
    paths_of,
    text_of,
    word_of,
)
from perdure.memory.batch import Batch
from perdure.memory.dedupe import LONG_BYTES, WINDOW_MS, Recent
from perdure.memory.index.ids import TakenIds, in_archive
from perdure.memory.index.index import Index
from perdure.memory.index.index_file import Keys
from perdure.memory.index.view import View
from perdure.memory.log import compaction
from perdure.memory.log.files import OpenFile, open_file
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import Log
from perdure.memory.log.log import now_ms as clock_ms
from perdure.memory.log.repair import repair
from perdure.memory.log.transfer import export, import_lines
from perdure.memory.log.verify import status, verify
from perdure.memory.normalise import normalised, repository_path
from perdure.memory.paths import LOG_FILE, Places
from perdure.memory.query.filters import Filters, filter_of
from perdure.memory.query.listing import listed
from perdure.memory.query.related import Asked
from perdure.memory.query.related import related as find_related
from perdure.memory.query.search import Search
from perdure.memory.query.search import search as find_text
from perdure.memory.record import Plain
from perdure.memory.updating import update

_DAY_MS = 24 * 60 * 60 * 1000
_SHORTEST_BEGINNING = 6
_STEP_BYTES = 1 << 20
"""So much an index is caught up by who only wants to add something."""


class Memory:
    """One memory; threads may share it, processes may use the same folder at once."""

    def __init__(self, folder: Path) -> None:
        self.places = Places(Path(os.path.abspath(folder)) / LOG_FILE)
        self._log = Log(self.places)
        self._index = Index(self.places)
        self._keys = Keys(self.places)
        self._recent = Recent(self.places.log, self._keys)
        self._taken = TakenIds(self.places, self._keys)

    def add(self, record: Mapping[str, Any], *, dedupe: bool = True) -> Plain:
        """Store a record, unless the same was stored within a day; return whether, and under which id.

        Raises: Invalid; Conflict when another record has its id, or had it until it was forgotten; Unavailable; Denied;
        Damaged.
        """
        return self.add_many([record], dedupe=dedupe)[0]

    def ready(self, record: Mapping[str, Any]) -> Plain:
        """Return a record as it would be stored, with the id that it would have.

        Raises: Invalid
        """
        arrival_ms = clock_ms()
        found = normalised(record, arrival_ms)
        line_of(found, arrival_ms)
        return found

    def add_many(
        self, records: Sequence[Mapping[str, Any]], *, dedupe: bool = True, skip_taken: bool = False
    ) -> list[Plain]:
        """Store several records with one write and one flush; all or, when one is refused, none.

        A record whose id is taken is a duplicate when it says the same, however old that is; otherwise the batch is
        refused, as is the id of a forgotten record. With `skip_taken` a taken id is always a duplicate, and a
        forgotten record is not added again.

        Raises: what `add` raises.
        """
        batch = Batch(records, clock_ms(), dedupe=dedupe, skip_taken=skip_taken)
        if not dedupe and not batch.names:
            self._log.append([each.line for each in batch.news])
            return batch.all_added()
        self._prepare(batch)
        archived = in_archive(self.places, batch.names)

        def choose(fd: int, size: int) -> Sequence[bytes]:
            held = self._taken.find(batch.names, fd, size, archived)
            keys = batch.keys
            known = self._recent.find(keys, fd, size, batch.arrival_ms - WINDOW_MS) if keys else {}
            return batch.choose(held, known)

        self._log.append_chosen(choose)
        if max(self._recent.read_bytes, self._taken.read_bytes) > LONG_BYTES:
            self._index.catch_up(at_most=_STEP_BYTES)
        return batch.answers

    def _prepare(self, batch: Batch) -> None:
        """Bring the index up before the lock is taken, where much would have to be read under it."""
        if batch.names:
            with suppress(FileNotFoundError):
                file = OpenFile(open_file(self.places.log, os.O_RDONLY))
                if self._taken.unread_bytes(file.fd) > _STEP_BYTES:
                    self._index.use(lambda _view: None)

    def related(  # noqa: PLR0913  each is something that a person may ask by
        self,
        *,
        paths: Sequence[str] = (),
        fingerprint: str | Sequence[str] | None = None,
        text: str | None = None,
        repo: str | None = None,
        sha: str | None = None,
        pr_number: int | None = None,
        limit: int = 3,
        budget_ms: float = 50.0,
        retention_days: float = 90,
        now_ms: int | None = None,
    ) -> Plain:
        """Find the history that has to do with something: the worst, of those the newest, by overlap of paths, by id.

        A record matches when it has the fingerprint, the commit, the pull request, or a path that is one of the paths
        (overlap 2), lies within one or contains one (overlap 1); the best overlap counts. A text narrows that down to
        records that have all of its words, apart from those that are too common to tell anything; given alone, it is
        the only reason. Without any of these nothing matches.

        Records without a usable timestamp count by their arrival. The budget is for the answer, not for catching up
        the index; when it is used up, the answer is what is there, with `truncated: true`.

        Raises: Invalid for a path that leads out of the repository; Unavailable; Denied; Damaged.
        """
        asked = Asked(
            paths=tuple(dict.fromkeys(filter(None, map(repository_path, paths_of(paths))))),
            fingerprint=fingerprint_of(fingerprint),
            text=word_of(text, "text"),
            repo=word_of(repo, "repo"),
            sha=word_of(sha, "sha"),
            pr_number=number_of(pr_number, "pr_number"),
            limit=limit_of(limit),
            since_ms=int((clock_ms() if now_ms is None else now_ms) - days_of(retention_days) * _DAY_MS),
        )
        within_ms = budget_of(budget_ms)
        return self._index.use(lambda view: find_related(view, asked, within_ms)) or _nothing()

    def search(
        self,
        text: str,
        *,
        limit: int = 10,
        budget_ms: float = 50.0,
        **filters: Unpack[Filters],
    ) -> Plain:
        """Find records by the words of a text, the best first (BM25 over title and summary).

        The text is never read as a query language. A record needs one of the words; words that too many records have
        are dropped, unless there are no others. The budget is as for `related`, the filters are as for `list`.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        asked = Search(text_of(text, "text"), limit_of(limit), filter_of(**filters))
        within_ms = budget_of(budget_ms)
        return self._index.use(lambda view: find_text(view, asked, within_ms)) or _nothing()

    def list(self, *, limit: int = 20, **filters: Unpack[Filters]) -> Plain:
        """Return the newest records, and whether there are more; filters are type, source, repo, since and until.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        return listed(self.places, filter_of(**filters), limit_of(limit))

    def update(self, key: str, changes: Mapping[str, Any]) -> Plain:
        """Store a record under a key, which supersedes what is current there, and takes over what is not changed.

        The key may also be the id of a record, which is the key from then on. None removes a value. When nothing
        changes, nothing is stored.

        Raises: Invalid; Unavailable; Denied; Damaged.
        """
        return update(self._log, self._index, key, changes)

    def get(self, id: str) -> Plain:  # noqa: A002  the key of a record has this name
        """Return the record with an id, or with the only id that begins so; at least six characters.

        Raises: Invalid; NotFound; Conflict when there are several; Unavailable; Denied; Damaged.
        """
        name = text_of(id, "id")
        found = self._index.use(lambda view: _called(view, name)) or []
        if not found:
            raise NotFound(f"The memory has no record {id!r}.")
        if len(found) > 1:
            raise Conflict(f"Several records begin with {id!r}; write more of the id.")
        return found[0]

    def rebuild(self) -> Plain:
        """Make the index anew; return how many records and seconds that was, and its size.

        Raises: NotFound when there is no log; Unavailable; Denied.
        """
        return self._index.rebuild()

    def index_state(self) -> Plain:
        """Tell whether the index is current, behind, missing or unusable; look-ups are right with any of them."""
        return self._index.state()

    def iter(self) -> Iterator[Plain]:
        """Give all records that are not forgotten, oldest first."""
        return map(orjson.loads, export(self.places))

    def compact(self, *, retention_days: int = 90, now_ms: int | None = None, dry_run: bool = False) -> Plain:
        """Move what is old to the archive; return what was kept, archived and forgotten, and the bytes of the log.

        A dry run returns the same and writes nothing.

        Raises: Conflict when somebody else rewrites the log now; Unavailable; Denied; Damaged.
        """
        answer = compaction.compact(self._log, retention_days=retention_days, now=now_ms, dry_run=dry_run)
        return answer if dry_run else self._indexed(answer)

    def forget(self, record_id: str) -> Plain:
        """Remove all records with an id, from the log and the archive; return how many.

        Raises: NotFound; Conflict when somebody else rewrites the log for a minute; Unavailable; Denied; Damaged.
        """
        return self._indexed(compaction.forget(self._log, text_of(record_id, "id")))

    def verify(self, *, clear: bool = False) -> Plain:
        """Check every line; with `clear`, read the log from disk and allow appends again after a failed flush.

        Raises: Damaged when the disk cannot be read; Conflict; Unavailable; Denied.
        """
        answer = verify(self._log, clear=clear)
        return self._indexed(answer) if clear else answer

    def repair(self, *, accept: str | None = None) -> Plain:
        """Move damaged bytes into quarantine, or take the altered line with an id as it stands.

        Raises: NotFound; Conflict; Unavailable; Denied; Damaged.
        """
        return self._indexed(repair(self._log, accept=text_of(accept, "accept") if accept is not None else None))

    def status(self, *, retention_days: int = 90) -> Plain:
        """Tell what there is."""
        return {**status(self._log, retention_days=retention_days), "index": self._index.state()}

    def export(self, *, raw: bool = False, archive: bool = False) -> Iterator[bytes]:
        """Give every record as a line of JSON; `raw` as it stands in the log."""
        return export(self.places, raw=raw, archive=archive)

    def import_lines(self, chunks: Iterable[bytes]) -> Plain:
        """Add every line of JSON whose id is not there yet; return what was added and skipped, and which lines are bad.

        Raises: Unavailable; Denied; Damaged.
        """
        return import_lines(self._log, chunks)

    def _indexed(self, answer: Plain) -> Plain:
        """Bring the index up to a log that was rewritten, so that nobody's look-up has to; if it fails, they do."""
        with suppress(PerdureError):
            if self.index_state()["state"] != "current":
                self.rebuild()
        return answer

    def close(self) -> None:
        """Close all files."""
        self._log.close()
        self._index.close()
        self._keys.close()


def _called(view: View, name: str) -> list[Plain]:
    """Return the record with an id, or a few whose ids begin so."""
    names = [name] if name and view.called(name) else []
    if not names and len(name) >= _SHORTEST_BEGINNING:
        names = view.ids_from(name, 2)
    rows = [row for each in names if (row := view.visible(each)) is not None]
    return [found[0].record for row in rows if (found := view.read(row)) is not None]


def _nothing() -> Plain:
    return {"matches": [], "truncated": False}
