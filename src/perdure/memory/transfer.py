"""Taking records out of a memory, and in: as lines of JSON, however many."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from uuid import UUID

import orjson

from perdure.errors import Invalid
from perdure.memory.archive import archive_files, named
from perdure.memory.compaction import is_tombstone, tombstones
from perdure.memory.files import OpenFile, identity, open_file
from perdure.memory.index import Names
from perdure.memory.lines import Line, line_of, read_line
from perdure.memory.log import Log, now_ms
from perdure.memory.normalise import normalised
from perdure.memory.places import Places
from perdure.memory.reading import iter_lines, lines_of, split, texts_of
from perdure.memory.record import Plain
from perdure.memory.verify import LISTED

_BATCH = 500
_BATCH_BYTES = 4 << 20


def export(places: Places, *, raw: bool = False, archive: bool = False) -> Iterator[bytes]:
    """Give every record as a line of JSON with its end; `raw` gives the line as it stands, with our keys.

    With the archive, that comes first. What is to be forgotten is left out.
    """
    try:
        log = OpenFile(open_file(places.log, os.O_RDONLY))
    except FileNotFoundError:
        log = None
    gone = tombstones(log.fd, places) if log is not None else {}
    for path in archive_files(places) if archive else []:
        old = OpenFile(open_file(path, os.O_RDONLY))
        yield from _exported(old, path, dict.fromkeys(gone, os.fstat(old.fd).st_size), raw=raw)
    if log is not None:
        yield from _exported(log, places.log, gone, raw=raw)


def _exported(file: OpenFile, path: Path, gone: dict[str, int], *, raw: bool) -> Iterator[bytes]:
    for offset, _, text in texts_of(file.fd, path):
        if text is None or not (line := read_line(offset, text)).is_served or is_tombstone(line):
            continue
        if offset >= gone.get(named(line) or "", -1):
            yield (text if raw else orjson.dumps(line.record)) + b"\n"


def import_lines(log: Log, chunks: Iterable[bytes]) -> Plain:
    """Add every line of JSON as a record, unless its id is there already; tell which lines are none, by their number.

    The chunks may be cut anywhere and go on for ever: only a batch is kept at a time.

    Raises: Unavailable; Denied; Damaged. What the answer would have counted as added until then is stored.
    """
    answer: Plain = {"added": 0, "skipped": 0, "bad_lines": 0, "bad": []}
    with closing(_Ids(log)) as ids:
        batch: list[Plain] = []
        size = 0
        for number, (_, length, text) in enumerate(split(_ended(chunks)), 1):
            record = _read(number, text, answer)
            if record is None:
                continue
            batch.append(record)
            size += length
            if len(batch) == _BATCH or size > _BATCH_BYTES:
                _add(log, ids, batch, answer)
                batch, size = [], 0
        _add(log, ids, batch, answer)
    return answer


def _ended(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Give the chunks, and an end for a last line that has none."""
    return chain(chunks, (b"\n",))


def _read(number: int, text: bytes | None, answer: Plain) -> Plain | None:
    """Read a line as a record; None when it is none, which is noted unless it is blank."""
    line = Line(0, 0, "unreadable") if text is None else read_line(0, text)
    if line.kind == "blank":
        return None
    try:
        if not line.is_served:
            raise Invalid("the line is longer than a record can be" if text is None else f"the line is {line.kind}")
        record = normalised(_with_an_id(line.record), now_ms())
        line_of(record, now_ms())
    except Invalid as error:
        answer["bad_lines"] += 1
        if len(answer["bad"]) < LISTED:
            answer["bad"].append({"line": number, "why": str(error)})
        return None
    return record


def _with_an_id(record: Plain) -> Plain:
    """Return a record with an id: one that has none gets that of its content, so that it is not added twice."""
    if record.get("id") is not None:
        return record
    told = orjson.dumps({key: value for key, value in record.items() if key != "id"}, option=orjson.OPT_SORT_KEYS)
    return {**record, "id": str(UUID(bytes=blake2b(told, digest_size=16).digest(), version=5))}


def _add(log: Log, ids: "_Ids", batch: list[Plain], answer: Plain) -> None:
    if not batch:
        return
    news: list[Plain] = []

    def choose(fd: int, size: int) -> Sequence[bytes]:
        ids.follow(fd, size)
        news.extend(record for record in batch if ids.take(record["id"]))
        return [line_of(record, now_ms()) for record in news]

    ids.catch_up()
    log.append_chosen(choose)
    answer["added"] += len(news)
    answer["skipped"] += len(batch) - len(news)


class _Ids:
    """Which ids a memory has, kept in a temporary file: there may be more of them than memory."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._path = log.places.log
        self._file = (0, 0)
        self._upto = 0
        self._names = Names()

    def catch_up(self) -> None:
        """Take in what is settled while others write, so that little is left to be done under the lock."""
        file, size = self._log.look()
        self.follow(file.fd, size)

    def follow(self, fd: int, size: int) -> None:
        """Take in what was appended since; when the file is another one, all of it, and where the rest of it went."""
        if identity(os.fstat(fd)) != self._file or size < self._upto:
            self._file, self._upto = identity(os.fstat(fd)), 0
            for path in archive_files(self._log.places):
                self._take_all(iter_lines(path))
        self._take_all(lines_of(fd, self._path, start=self._upto, end=size))
        self._upto = size

    def take(self, name: str) -> bool:
        """Note an id; tell whether it is new."""
        return self._names.take(name)

    def close(self) -> None:
        """Forget all of it."""
        self._names.close()

    def _take_all(self, lines: Iterator[Line]) -> None:
        for line in lines:
            if line.is_served and (name := named(line)) is not None:
                self.take(name)
