"""The archive: what compaction moved out of the log, a file for each year; written only by who rewrites the log."""

import os
from collections.abc import Callable, Iterable, Iterator, Set
from hashlib import blake2b
from pathlib import Path

import orjson

from perdure import failpoints
from perdure.files.atomic import part_file
from perdure.files.fsync import fsync_file, fsync_folder
from perdure.files.opening import write_all
from perdure.memory.log.files import OpenFile, chunks_of, hand_over, open_file, read_at, told
from perdure.memory.log.lines import Line, read_line
from perdure.memory.log.reading import LONGEST, iter_lines, texts_of
from perdure.memory.paths import Places

_MUCH = 1 << 20


def archive_files(places: Places) -> list[Path]:
    """Return the files of the archive, the oldest year first."""
    with told(places.archive):
        try:
            found = [entry for entry in os.scandir(places.archive) if entry.name.endswith(".jsonl") and entry.is_file()]
        except FileNotFoundError:
            return []
    return sorted(Path(entry.path) for entry in found)


def sameness(line: Line, text: bytes) -> bytes:
    """Return what is equal for lines that are the same record: id and content, or every byte when there is no id."""
    what = orjson.dumps(line.record) if "id" in (line.content or {}) else text
    return blake2b(what, digest_size=16).digest()


def archive(places: Places, year: str, texts: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
    """Add lines, each given with its sameness, to a year that does not have them; an error adds nothing.

    When this returns, all of them are durable, also those that were there before.

    Raises: Unavailable; Denied; Damaged when the disk fails.
    """
    path = places.archive / f"{year}.jsonl"
    file = OpenFile(open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT))
    with told(path):
        size = _ended(file.fd, path)
        there = _known(path, {same for same, _ in texts()})
        failpoints.hit("memory.archive.before")
        try:
            for part in _gathered(_missing(texts(), there)):
                write_all(file.fd, part)
            fsync_file(file.fd)
        except BaseException:
            os.ftruncate(file.fd, size)
            raise
        fsync_folder(path.parent)
        failpoints.hit("memory.archive.after")


def purge(places: Places, targets: Set[str]) -> int:
    """Remove the records with these ids from the archive, a file at a time; return how many."""
    return sum(_purge(path, targets) for path in archive_files(places)) if targets else 0


def count(places: Places, targets: Set[str]) -> int:
    """Return how many records of the archive have these ids."""
    files = archive_files(places) if targets else []
    return sum(named(line) in targets for path in files for line in iter_lines(path))


def _purge(path: Path, targets: Set[str]) -> int:
    gone = [range(line.offset, line.offset + line.length + 1) for line in iter_lines(path) if named(line) in targets]
    if not gone:
        return 0
    old = OpenFile(open_file(path, os.O_RDONLY))
    draft = path.with_name(f"{path.name}.new")
    with told(draft):
        size = os.fstat(old.fd).st_size
        with part_file(path, name=draft.name) as new:
            hand_over(new.fd, old.fd, path)
            for kept in without(gone, size):
                for chunk in chunks_of(old.fd, path, kept.start, kept.stop):
                    new.write(chunk)
            failpoints.hit("memory.purge.before")
            new.replace()
            failpoints.hit("memory.purge.between")
        failpoints.hit("memory.purge.after")
    return len(gone)


def named(line: Line) -> str | None:
    """Return the id of a record, also of one that was altered."""
    name = (line.content or {}).get("id")
    return name if isinstance(name, str) else None


def without(gone: Iterable[range], size: int) -> Iterator[range]:
    """Give what is left of a file without these parts, which are in order."""
    at = 0
    for part in gone:
        if part.start > at:
            yield range(at, part.start)
        at = part.stop
    if size > at:
        yield range(at, size)


def _known(path: Path, wanted: Set[bytes]) -> set[bytes]:
    """Return which of the records a year already has."""
    lines = (sameness(line, text) for line, text in _texts(path) if line.is_served)
    return {same for same in lines if same in wanted}


def _missing(texts: Iterable[tuple[bytes, bytes]], there: set[bytes]) -> Iterator[bytes]:
    for same, text in texts:
        if same not in there:
            there.add(same)
            yield text


def _texts(path: Path) -> Iterator[tuple[Line, bytes]]:
    try:
        file = OpenFile(open_file(path, os.O_RDONLY))
    except FileNotFoundError:
        return
    for offset, _, text in texts_of(file.fd, path):
        if text is not None:
            yield read_line(offset, text), text


def _ended(fd: int, path: Path) -> int:
    """See to it that the last line has an end, and return the size.

    The beginning of a line was left by a compaction that died; the line is still in the log, so what is here goes.
    """
    size = os.fstat(fd).st_size
    start = max(0, size - LONGEST)
    tail = read_at(fd, path, start, size - start).rpartition(b"\n")[2]
    if not tail:
        return size
    if read_line(0, tail).kind == "torn" and len(tail) < LONGEST:
        os.ftruncate(fd, size - len(tail))
        return size - len(tail)
    write_all(fd, b"\n")
    return size + 1


def _gathered(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Give the lines with their ends, many at once."""
    parts: list[bytes] = []
    size = 0
    for line in lines:
        parts += (line, b"\n")
        size += len(line) + 1
        if size > _MUCH:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)
