"""Appends single records to a log, unchanged, without a `Memory`."""

import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perdure.memory.index.ids import TakenIds, id_conflict, in_archive, is_equal
from perdure.memory.index.index_file import IndexLookup
from perdure.memory.index.terms import is_internal
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import Log, now_ms
from perdure.memory.paths import MemoryFiles
from perdure.memory.record import JsonObject, plain, require_printable

_MOST_LOGS = 8
_taken_by_log: "OrderedDict[Path, TakenIds]" = OrderedDict()
"""The ids of the logs that this process appended to last, so that a loop of appends reads a log once."""


def append_record(path: str | os.PathLike[str], record: Mapping[str, Any]) -> None:
    """Store one record unchanged; it is on stable storage when the call returns.

    A record without an id is stored each time. A record with an id is stored once. A value that JSON does not have is
    stored as its text (`str`), except NaN and infinity.

    Raises: Invalid when a value cannot be JSON or the id has a control character; Conflict when another record has
    the id, or had it before it was forgotten; Unavailable; Denied; Damaged when a flush fails or has failed before.
    """
    stored = plain(record, is_lenient=True)
    line = line_of(stored, now_ms())
    log = Log(MemoryFiles(Path(path)))
    name = stored.get("id")
    try:
        if isinstance(name, str) and name and not is_internal(str(stored.get("type", ""))):
            _append_new(log, require_printable(name), stored, line)
        else:
            log.append([line])
    finally:
        log.close()


def _append_new(log: Log, name: str, record: JsonObject, line: bytes) -> None:
    taken = _taken_ids(log.files)
    archived = in_archive(log.files, [name])

    def choose(fd: int, size: int) -> Sequence[bytes]:
        holders = taken.find([name], fd, size, archived)
        if name not in holders:
            return [line]
        stored = holders[name]
        if stored is None or not is_equal(record, stored):
            raise id_conflict({0: name}, holders)
        return []

    log.append_chosen(choose)


def _taken_ids(files: MemoryFiles) -> TakenIds:
    """Return the cached ids of a log; those of the least recently used log are dropped."""
    path = Path(os.path.abspath(files.log))
    taken = _taken_by_log.pop(path, None) or TakenIds(MemoryFiles(path), IndexLookup(MemoryFiles(path)))
    _taken_by_log[path] = taken
    while len(_taken_by_log) > _MOST_LOGS:
        _taken_by_log.popitem(last=False)
    return taken
