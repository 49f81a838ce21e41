"""Verifies a log line by line, counts its records, and allows appends again after the disk has failed."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from perdure.memory.index.ids import digest_of
from perdure.memory.index.terms import target_of
from perdure.memory.log.archive import archive_files, record_id_of
from perdure.memory.log.compaction import is_tombstone, timestamp_of
from perdure.memory.log.files import OpenFile, copy_owner, open_file
from perdure.memory.log.lines import Line
from perdure.memory.log.log import Log
from perdure.memory.log.reading import whole_lines_of
from perdure.memory.log.rewriting import rewriting
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import JsonObject, is_printable

LISTED = 100
"""Maximum number of bad lines that are listed; all are counted."""


@dataclass
class Tally:
    """Counts of the lines of a log."""

    records: int = 0
    unchecked: int = 0
    bad_lines: int = 0
    """Lines that were changed after they were written: altered or unreadable."""
    torn: int = 0
    """Lines that a writer left incomplete when it died; they were never acknowledged."""
    bad: list[JsonObject] = field(default_factory=list)
    size: int = 0
    torn_tail: int = 0
    """Bytes after the last line: an unfinished write."""
    oldest: str | None = None
    newest: str | None = None
    repeated_ids: int = 0
    """Records with the id of an earlier one, written by another program or an old version."""
    odd_ids: list[JsonObject] = field(default_factory=list)
    """Records with a control character in their id, by offset."""
    _ids: set[int] = field(default_factory=set)

    def take(self, line: Line) -> None:
        """Count a line."""
        match line.kind:
            case "checked" | "unchecked":
                self._take_record(line)
            case "altered" | "unreadable" | "torn":
                self.torn += line.kind == "torn"
                self.bad_lines += line.kind != "torn"
                if len(self.bad) < LISTED:
                    self.bad.append(describe_line(line))

    def _take_record(self, line: Line) -> None:
        if is_tombstone(line):
            self._ids.discard(digest_of(target_of(line.content or {})))
            return
        self._take_id(line)
        self.records += 1
        self.unchecked += line.kind == "unchecked"
        if (when := timestamp_of(line)) is not None:
            self.oldest = min(self.oldest or when, when)
            self.newest = max(self.newest or when, when)

    def _take_id(self, line: Line) -> None:
        if not (name := record_id_of(line)):
            return
        self.repeated_ids += digest_of(name) in self._ids
        self._ids.add(digest_of(name))
        if not is_printable(name) and len(self.odd_ids) < LISTED:
            self.odd_ids.append({"offset": line.offset, "id": name})


def describe_line(line: Line) -> JsonObject:
    """Describe a line that is not served."""
    name = record_id_of(line)
    return {"offset": line.offset, "length": line.length, "kind": line.kind} | ({"id": name} if name else {})


def tally(path: Path) -> Tally:
    """Count the lines of a log in one pass; a missing log is empty."""
    counts = Tally()
    try:
        file = OpenFile(open_file(path, os.O_RDONLY))
    except FileNotFoundError:
        return counts
    counts.size = os.fstat(file.fd).st_size
    end = 0
    for line in whole_lines_of(file.fd, path, end=counts.size):
        counts.take(line)
        end = line.offset + line.length + 1
    counts.torn_tail = max(counts.size - end, 0)  # a whole record without its line end is not torn
    return counts


def verify(log: Log, *, clear: bool = False) -> JsonObject:
    """Verify every line of the log and of the archive; with `clear`, first rewrite the log if a flush has failed.

    JSON, checksums and ids are verified. The index is not: it is derived, and each query validates it.

    An incomplete line is `torn`: its writer died. It is listed, but does not count as damage.

    Raises: Damaged when the disk cannot be read; with `clear` also Conflict; Unavailable; Denied.
    """
    has_failed = log.has_failed()
    if is_cleared := clear and has_failed:
        _clear(log)
    counts = tally(log.files.log)
    return {
        "checked": ["json", "checksums", "ids"],
        **_counts(counts),
        "bad": counts.bad,
        "repeated_ids": counts.repeated_ids,
        "odd_ids": counts.odd_ids,
        "torn_tail": counts.torn_tail,
        "failed": has_failed and not is_cleared,
        "cleared": is_cleared,
        "archive": _verify_archive(log.files),
    }


def status(log: Log, *, retention_days: int) -> JsonObject:
    """Return counts and sizes, by reading the log once."""
    counts = tally(log.files.log)
    return {
        "path": str(log.files.log),
        **_counts(counts),
        "retention_days": retention_days,
        "oldest": counts.oldest,
        "newest": counts.newest,
        "bytes": counts.size,
        "archive_bytes": sum(path.stat().st_size for path in archive_files(log.files)),
        "failed": log.has_failed(),
    }


def _counts(counts: Tally) -> JsonObject:
    return {
        "records": counts.records,
        "unchecked": counts.unchecked,
        "bad_lines": counts.bad_lines,
        "torn": counts.torn,
    }


def _verify_archive(files: MemoryFiles) -> JsonObject:
    tallies = {path: tally(path) for path in archive_files(files)}
    bad = [{"file": path.name, **each} for path, counts in tallies.items() for each in counts.bad]
    return {
        "files": len(tallies),
        **{name: sum(_counts(counts)[name] for counts in tallies.values()) for name in _counts(Tally())},
        "bad": bad[:LISTED],
    }


def _clear(log: Log) -> None:
    """Rewrite the log from the bytes on the disk, and allow appends again; the log is locked meanwhile."""
    with rewriting(log) as draft:

        def copy_all(fd: int, size: int) -> None:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)  # cached pages may not be on the disk
            copy_owner(draft.fd, fd, log.files.log)
            draft.copy(fd, range(size))
            draft.flush()

        log.replace(draft, copy_all, after_failure=True)
    log.clear_failure()
