"""The archive: records that compaction moved out of the log, one file per year. Only a rewrite of the log writes it."""

import os
from collections.abc import Callable, Iterable, Iterator, Set
from hashlib import blake2b
from pathlib import Path

import orjson

from perdure import failpoints
from perdure.files.atomic import part_file
from perdure.files.fsync import fsync_file, fsync_folder
from perdure.files.opening import write_all
from perdure.memory.log.files import OpenFile, chunks_of, copy_owner, open_file, read_at, translate_os_errors
from perdure.memory.log.lines import Line, read_line
from perdure.memory.log.reading import LONGEST, iter_lines, texts_of
from perdure.memory.paths import MemoryFiles

_MUCH = 1 << 20


def archive_files(files: MemoryFiles) -> list[Path]:
    """Return the files of the archive, the oldest year first."""
    with translate_os_errors(files.archive):
        try:
            entries = [
                entry for entry in os.scandir(files.archive) if entry.name.endswith(".jsonl") and entry.is_file()
            ]
        except FileNotFoundError:
            return []
    return sorted(Path(entry.path) for entry in entries)


def record_digest(line: Line, text: bytes) -> bytes:
    """Return a digest that is equal for lines of the same record: of its id and content, or of the bytes without id."""
    what = orjson.dumps(line.record) if "id" in (line.content or {}) else text
    return blake2b(what, digest_size=16).digest()


def archive(files: MemoryFiles, year: str, texts: Callable[[], Iterable[tuple[bytes, bytes]]]) -> None:
    """Add lines, each given with its record digest, to a year unless it has them; an error adds nothing.

    When this returns, all of them are durable, including those that were there before.

    Raises: Unavailable; Denied; Damaged when the disk fails.
    """
    path = files.archive / f"{year}.jsonl"
    file = OpenFile(open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT))
    with translate_os_errors(path):
        size = _end_last_line(file.fd, path)
        stored = _stored_digests(path, {digest for digest, _ in texts()})
        failpoints.hit("memory.archive.before")
        try:
            for part in _joined(_missing(texts(), stored)):
                write_all(file.fd, part)
            fsync_file(file.fd)
        except BaseException:
            os.ftruncate(file.fd, size)
            raise
        fsync_folder(path.parent)
        failpoints.hit("memory.archive.after")


def purge(files: MemoryFiles, targets: Set[str]) -> int:
    """Remove the records with these ids from the archive, one file at a time; return how many."""
    return sum(_purge(path, targets) for path in archive_files(files)) if targets else 0


def count(files: MemoryFiles, targets: Set[str]) -> int:
    """Return how many records of the archive have these ids."""
    years = archive_files(files) if targets else []
    return sum(record_id_of(line) in targets for path in years for line in iter_lines(path))


def _purge(path: Path, targets: Set[str]) -> int:
    removed = [
        range(line.offset, line.offset + line.length + 1) for line in iter_lines(path) if record_id_of(line) in targets
    ]
    if not removed:
        return 0
    old = OpenFile(open_file(path, os.O_RDONLY))
    draft = path.with_name(f"{path.name}.new")
    with translate_os_errors(draft):
        size = os.fstat(old.fd).st_size
        with part_file(path, name=draft.name) as new:
            copy_owner(new.fd, old.fd, path)
            for kept in remaining_ranges(removed, size):
                for chunk in chunks_of(old.fd, path, kept.start, kept.stop):
                    new.write(chunk)
            failpoints.hit("memory.purge.before")
            new.replace()
            failpoints.hit("memory.purge.between")
        failpoints.hit("memory.purge.after")
    return len(removed)


def record_id_of(line: Line) -> str | None:
    """Return the id of a record, even of an altered one."""
    name = (line.content or {}).get("id")
    return name if isinstance(name, str) else None


def remaining_ranges(removed: Iterable[range], size: int) -> Iterator[range]:
    """Yield the parts of a file outside of the given ones, which are in order."""
    at = 0
    for part in removed:
        if part.start > at:
            yield range(at, part.start)
        at = part.stop
    if size > at:
        yield range(at, size)


def _stored_digests(path: Path, digests: Set[bytes]) -> set[bytes]:
    """Return those of the record digests that a year already has."""
    lines = (record_digest(line, text) for line, text in _texts(path) if line.is_served)
    return {digest for digest in lines if digest in digests}


def _missing(texts: Iterable[tuple[bytes, bytes]], stored: set[bytes]) -> Iterator[bytes]:
    for digest, text in texts:
        if digest not in stored:
            stored.add(digest)
            yield text


def _texts(path: Path) -> Iterator[tuple[Line, bytes]]:
    try:
        file = OpenFile(open_file(path, os.O_RDONLY))
    except FileNotFoundError:
        return
    for offset, _, text in texts_of(file.fd, path):
        if text is not None:
            yield read_line(offset, text), text


def _end_last_line(fd: int, path: Path) -> int:
    """End the last line, and return the size.

    A torn line was left by a compaction that died. The whole line is still in the log, so the torn one is cut off.
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


def _joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines with their line ends, joined into large blocks."""
    parts: list[bytes] = []
    size = 0
    for line in lines:
        parts += (line, b"\n")
        size += len(line) + 1
        if size > _MUCH:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join(parts)
