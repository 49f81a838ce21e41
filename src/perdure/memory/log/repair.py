"""Repairs a log: damaged bytes move to quarantine, and a line that was edited on purpose gets a new checksum."""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from perdure import failpoints
from perdure.errors import NotFound
from perdure.files.fsync import fsync_file, fsync_folder
from perdure.files.opening import write_all
from perdure.memory.callers import writing
from perdure.memory.log.archive import record_id_of
from perdure.memory.log.files import OpenFile, chunks_of, open_file, read_at, translate_os_errors
from perdure.memory.log.lines import Line, line_of, read_line, resummed
from perdure.memory.log.log import Log, now_ms
from perdure.memory.log.reading import LONGEST, lines_of
from perdure.memory.log.rewriting import Piece, rewrite, rewriting
from perdure.memory.log.verify import describe_line
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import JsonObject

_WHOLE_END = re.compile(rb',"_c":"[0-9a-f]{8}"\}')
_BEGIN = re.compile(rb'\{"')
_MOST_BEGINNINGS = 64
_NOTHING_REPAIRED: JsonObject = {"moved": 0, "bytes": 0, "recovered": 0, "quarantine": None, "accepted": 0}


def repair(log: Log, *, accept: str | None = None) -> JsonObject:
    """Move damaged lines into quarantine, or accept the altered lines with an id as they are.

    Whole records inside a damaged line, whose line end was lost, stay in the log.

    Raises: NotFound when no altered line has that id; Conflict while another process rewrites the log.
    """
    if not log.files.log.exists():
        if accept is not None:
            raise _nothing_altered(accept)
        return dict(_NOTHING_REPAIRED)
    with rewriting(log) as draft:
        source, size = log.snapshot()
        damaged = [line for line in lines_of(source.fd, log.files.log, end=size) if _is_damaged(line)]
        if accept is not None:
            damaged = [line for line in damaged if line.kind == "altered" and record_id_of(line) == accept]
            if not damaged:
                raise _nothing_altered(accept)
        replacements = {line.offset: _replacements(source, log.files, line, accept) for line in damaged}
        with writing():
            quarantine = _quarantine(log.files, source, damaged) if damaged and accept is None else None
        if damaged:
            rewrite(log, draft, source, size, _pieces(damaged, replacements, size))
        if accept is not None:
            return {**_NOTHING_REPAIRED, "accepted": len(damaged)}
        return {
            "moved": len(damaged),
            "bytes": sum(line.length for line in damaged),
            "recovered": sum(map(len, replacements.values())),
            "quarantine": str(quarantine) if quarantine else None,
            "accepted": 0,
        }


def _is_damaged(line: Line) -> bool:
    return line.kind in ("altered", "unreadable", "torn")


def _nothing_altered(record_id: str) -> NotFound:
    return NotFound(f"No altered line has the id {record_id!r}; `perdure memory verify` lists the altered lines.")


def _replacements(source: OpenFile, files: MemoryFiles, line: Line, accept: str | None) -> list[bytes]:
    """Return the lines that replace a damaged one."""
    if line.length > LONGEST:
        return []
    text = read_at(source.fd, files.log, line.offset, line.length)
    if accept is None:
        return [record + b"\n" for record in _records_within(text)]
    return [_accepted(line, text)]


def _accepted(line: Line, text: bytes) -> bytes:
    """Return an altered line with a valid checksum and its present text."""
    if (summed := resummed(text)) is not None and read_line(0, summed).kind == "checked":
        return summed + b"\n"
    return line_of(line.record, now_ms() if line.arrival_ms is None else line.arrival_ms)


def _records_within(text: bytes) -> Iterator[bytes]:
    """Yield the complete records within a line, which they share if a line end was lost."""
    at = 0
    for end in _WHOLE_END.finditer(text):
        if text[end.end() : end.end() + 1] in (b"}", b",", b"]"):
            continue  # a nested value, not a record
        for number, begin in enumerate(_BEGIN.finditer(text, at, end.start())):
            if number == _MOST_BEGINNINGS:
                break
            record = text[begin.start() : end.end()]
            line = read_line(0, record)
            if line.kind == "checked" and not str(line.record.get("type", "")).startswith("_"):
                yield record
                at = end.end()
                break


def _pieces(damaged: list[Line], replacements: dict[int, list[bytes]], size: int) -> Iterator[Piece]:
    at = 0
    for line in damaged:
        yield range(at, line.offset)
        yield from replacements[line.offset]
        at = line.offset + line.length + 1
    yield range(at, size)


def _quarantine(files: MemoryFiles, source: OpenFile, damaged: list[Line]) -> Path:
    """Write the damaged bytes to a file, and a description beside it; return its path."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = files.quarantine / f"{stamp}-{now_ms() % 1000:03d}-{damaged[0].offset}.bytes"
    description = {"log": str(files.log), "moved": stamp, "lines": [describe_line(line) for line in damaged]}
    failpoints.hit("memory.quarantine.before")
    _write(path, (chunk for line in damaged for chunk in _with_line_end(source, files, line)))
    _write(path.with_suffix(".json"), iter([orjson.dumps(description, option=orjson.OPT_INDENT_2) + b"\n"]))
    with translate_os_errors(path):
        fsync_folder(path.parent)
    failpoints.hit("memory.quarantine.after")
    return path


def _with_line_end(source: OpenFile, files: MemoryFiles, line: Line) -> Iterator[bytes]:
    return chunks_of(source.fd, files.log, line.offset, line.offset + line.length + 1)


def _write(path: Path, chunks: Iterator[bytes]) -> None:
    file = OpenFile(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    with translate_os_errors(path):
        for chunk in chunks:
            write_all(file.fd, chunk)
        fsync_file(file.fd)
