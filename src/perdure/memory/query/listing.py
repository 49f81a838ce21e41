"""Lists the records of a log, newest first, without an index."""

import heapq
import os
from collections.abc import Iterator

from perdure.memory.index.terms import is_internal
from perdure.memory.log.files import OpenFile, open_file
from perdure.memory.log.lines import Line
from perdure.memory.log.reading import whole_lines_of
from perdure.memory.log.removed import find_removed
from perdure.memory.paths import MemoryFiles
from perdure.memory.query.filters import Filter, happened_ms
from perdure.memory.record import JsonObject


def list_records(files: MemoryFiles, record_filter: Filter, limit: int) -> JsonObject:
    """Return the newest matching records, and whether there are more; superseded ones are left out.

    Raises: Unavailable; Denied; Damaged.
    """
    try:
        file = OpenFile(open_file(files.log, os.O_RDONLY))
    except FileNotFoundError:
        return {"records": [], "has_more": False}
    size = os.fstat(file.fd).st_size
    lines = filter(record_filter.matches, _current(file, files, size))
    newest = heapq.nlargest(limit + 1, lines, key=_newness)
    return {"records": [line.record for line in newest[:limit]], "has_more": len(newest) > limit}


def _current(file: OpenFile, files: MemoryFiles, size: int) -> Iterator[Line]:
    removed = find_removed(file.fd, files, size)
    for line in whole_lines_of(file.fd, files.log, end=size):
        is_record = line.is_served and not is_internal(str((line.content or {}).get("type", "")))
        if is_record and not removed.is_forgotten(line) and not removed.is_superseded(line):
            yield line


def _newness(line: Line) -> tuple[bool, int, int]:
    when = happened_ms(line)
    return when is not None, when or 0, line.offset
