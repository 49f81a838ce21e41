"""Compaction: old records move to the archive, forgotten records are removed."""

import os
import re
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Literal

import orjson
from uuid_utils import uuid7

from perdure.errors import Invalid, NotFound, PerdureError
from perdure.memory.arguments import days_of
from perdure.memory.callers import writing
from perdure.memory.index.terms import target_of
from perdure.memory.log.archive import (
    archive,
    archive_files,
    count,
    purge,
    record_digest,
    record_id_of,
    remaining_ranges,
)
from perdure.memory.log.files import OpenFile, open_file, read_at
from perdure.memory.log.lines import Line, line_of, read_line
from perdure.memory.log.log import Log, now_ms
from perdure.memory.log.reading import iter_lines, lines_of
from perdure.memory.log.removed import RemovedRecords, find_removed
from perdure.memory.log.rewriting import WAIT_S, Draft, rewrite, rewriting
from perdure.memory.normalise import moment
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import TOMBSTONE, JsonObject

DAY_MS = 24 * 60 * 60 * 1000
_NORMAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z")

RetentionAction = Literal["keep", "archive", "forget", "drop"]


@dataclass
class Survey:
    """Facts about all lines that are needed to decide about one line."""

    since: str
    """Records since this time are kept."""
    removed: RemovedRecords = field(default_factory=RemovedRecords)
    """The records that are forgotten or superseded."""
    newest: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    """The timestamp and offset of the newest record of each fingerprint."""
    reused: set[str] = field(default_factory=set)
    """Forgotten ids that another program has used again since."""

    def take(self, line: Line) -> None:
        """Note the id and the fingerprint of a record."""
        if line.is_served and line.offset > self.removed.forgotten.get(record_id_of(line) or "", line.offset):
            self.reused.add(record_id_of(line) or "")
        is_removed = self.removed.is_forgotten(line) or self.removed.is_superseded(line)
        if line.is_served and not is_removed and (fingerprint := _fingerprint(line)) is not None:
            newest = (timestamp_of(line) or "", line.offset)
            self.newest[fingerprint] = max(newest, self.newest.get(fingerprint, newest))

    def action_for(self, line: Line) -> RetentionAction:
        """Decide what happens to a line. A damaged line stays: nothing is discarded because it cannot be read."""
        if self.removed.is_forgotten(line):
            return "forget"
        if line.content is None or not line.is_served:
            return "keep"
        if is_tombstone(line):
            return "keep" if self._is_needed(line) else "drop"
        when = timestamp_of(line)
        if self.since and when is not None and self.removed.is_superseded(line):
            return "archive"
        if when is None or when >= self.since or _is_pinned(line.content):
            return "keep"
        fingerprint = _fingerprint(line)
        return "keep" if fingerprint is not None and self.newest[fingerprint][1] == line.offset else "archive"

    def _is_needed(self, tombstone: Line) -> bool:
        """Return whether a tombstone is the last one of its id: it stays, so that no import restores the record."""
        target = target_of(tombstone.content or {})
        return target not in self.reused and self.removed.forgotten.get(target) == tombstone.offset


@dataclass
class Removal:
    """The lines that leave the log, in order; and those that move to the archive, by year."""

    kept: int = 0
    forgotten: int = 0
    gone: "array[int]" = field(default_factory=lambda: array("Q"))
    archived: "dict[str, array[int]]" = field(default_factory=lambda: defaultdict(lambda: array("Q")))

    def take(self, line: Line, action: RetentionAction) -> None:
        """Record what happens to a line."""
        if action == "keep":
            self.kept += line.is_served and not is_tombstone(line)
            return
        self.forgotten += action == "forget"
        self.gone.extend((line.offset, line.length))
        if action == "archive":
            self.archived[(timestamp_of(line) or "")[:4]].extend((line.offset, line.length))

    def parts(self) -> Iterator[range]:
        """Yield the offsets of the lines that leave the log."""
        return (range(offset, offset + length + 1) for offset, length in _pairs(self.gone))


def compact(
    log: Log, *, retention_days: int = 90, now: int | None = None, wait_s: float = 0, dry_run: bool = False
) -> JsonObject:
    """Archive superseded records and old ones that are neither pinned nor the newest of their fingerprint.

    Forgotten records are removed. A dry run returns the same numbers, takes no lock and writes nothing.

    Raises: Conflict while another process rewrites the log; as `Log.append`.
    """
    since_ms = (now_ms() if now is None else now) - days_of(retention_days) * DAY_MS
    since = moment(since_ms / 1000)
    return _dry_run(log, since) if dry_run else _compact(log, since, wait_s=wait_s)


def forget(log: Log, record_id: str) -> JsonObject:
    """Remove all records with an id from the log and the archive; bytes in quarantine stay there.

    A tombstone with the id stays in the log, so that no import, adapter or add restores the record.

    Raises: NotFound; Conflict when another process rewrites the log for too long: the next compaction removes it then.
    """
    if not _is_known(log.files, record_id):
        raise NotFound(f"There is no record with the id {record_id!r}.")
    now = now_ms()
    tombstone = {"id": str(uuid7()), "type": TOMBSTONE, "timestamp": moment(now / 1000), "target": record_id}
    log.append([line_of(tombstone, now)])
    return {"forgotten": purge_forgotten(log, record_id)}


def purge_forgotten(log: Log, what: str) -> int:
    """Remove the records that tombstones name from the log and the archive; return how many.

    Raises: as `forget`; `what` names the records in the message.
    """
    try:
        return int(_compact(log, "", wait_s=WAIT_S)["forgotten"])
    except PerdureError as error:
        raise type(error)(
            f"{what} is not found any more, but its text is still in the file: {error.detail}"
            " The next `perdure memory compact` removes it."
        ) from error


def is_tombstone(line: Line) -> bool:
    """Return whether a line is a tombstone, which marks earlier records as forgotten."""
    return line.is_served and (line.content or {}).get("type") == TOMBSTONE


def timestamp_of(line: Line) -> str | None:
    """Return the timestamp of a record in its normal form, else its arrival time; None without both."""
    content = line.content or {}
    stated = content.get("timestamp")
    if isinstance(stated, str) and _NORMAL.fullmatch(stated):
        return stated
    for value in (stated, None if line.arrival_ms is None else line.arrival_ms / 1000):
        try:
            return moment(value)
        except Invalid:
            continue
    return None


def _compact(log: Log, since: str, *, wait_s: float) -> JsonObject:
    if not log.files.log.exists():
        return {"kept": 0, "archived": 0, "forgotten": 0, "bytes_before": 0, "bytes_after": 0}
    with rewriting(log, wait_s=wait_s) as draft:
        source, size = log.snapshot()
        survey = _survey(source, size, since, log.files)
        removal = _removal(source, size, survey, log.files)
        with writing():
            removal.forgotten += purge(log.files, survey.removed.forgotten.keys())
            archived = sum(_archive(log.files, source, year, spans) for year, spans in removal.archived.items())
        return {
            "kept": removal.kept + _rewrite(log, draft, source, size, removal),
            "archived": archived,
            "forgotten": removal.forgotten,
            "bytes_before": size,
            "bytes_after": draft.size if removal.gone else size,
        }


def _dry_run(log: Log, since: str) -> JsonObject:
    """Return what a compaction would do now, without doing it."""
    try:
        source = OpenFile(open_file(log.files.log, os.O_RDONLY))
    except FileNotFoundError:
        return {"kept": 0, "archived": 0, "forgotten": 0, "bytes_before": 0, "bytes_after": 0}
    size = os.fstat(source.fd).st_size
    survey = _survey(source, size, since, log.files)
    removal = _removal(source, size, survey, log.files)
    return {
        "kept": removal.kept,
        "archived": sum(len(spans) // 2 for spans in removal.archived.values()),
        "forgotten": removal.forgotten + count(log.files, survey.removed.forgotten.keys()),
        "bytes_before": size,
        "bytes_after": size - sum(len(part) for part in removal.parts()),
    }


def _removal(source: OpenFile, size: int, survey: Survey, files: MemoryFiles) -> Removal:
    removal = Removal()
    for line in lines_of(source.fd, files.log, end=size):
        removal.take(line, survey.action_for(line))
    return removal


def _survey(source: OpenFile, size: int, since: str, files: MemoryFiles) -> Survey:
    survey = Survey(since, find_removed(source.fd, files, size))
    if since or survey.removed.forgotten:
        for line in lines_of(source.fd, files.log, end=size):
            survey.take(line)
    return survey


def _rewrite(log: Log, draft: Draft, source: OpenFile, size: int, removal: Removal) -> int:
    """Rewrite the log without the removed lines, if there are any; return how many records were added meanwhile."""
    if not removal.gone:
        return 0
    new_records = rewrite(log, draft, source, size, remaining_ranges(removal.parts(), size))
    later = lines_of(draft.fd, log.files.log, start=new_records, end=draft.size)
    return sum(line.is_served and not is_tombstone(line) for line in later)


def _archive(files: MemoryFiles, source: OpenFile, year: str, spans: "array[int]") -> int:
    """Copy lines of the log to a year of the archive unless it has them; return the number of lines."""

    def texts() -> Iterator[tuple[bytes, bytes]]:
        for offset, length in _pairs(spans):
            text = read_at(source.fd, files.log, offset, length)
            yield record_digest(read_line(offset, text), text), text

    archive(files, year, texts)
    return len(spans) // 2


def _is_known(files: MemoryFiles, record_id: str) -> bool:
    paths = [files.log, *archive_files(files)]
    return any(record_id_of(line) == record_id for path in paths for line in iter_lines(path))


def _fingerprint(line: Line) -> bytes | None:
    value = (line.content or {}).get("fingerprint")
    if value is None or value in ("", []):
        return None
    return blake2b(orjson.dumps(value), digest_size=16).digest()


def _is_pinned(content: JsonObject) -> bool:
    metadata = content.get("metadata")
    return isinstance(metadata, dict) and metadata.get("pinned") is True


def _pairs(flat: Iterable[int]) -> Iterator[tuple[int, int]]:
    numbers = iter(flat)
    return zip(numbers, numbers, strict=True)
