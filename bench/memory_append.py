"""Appending to the memory, beside a bare write and flush, beside a flush inside of the lock, and in a long log."""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import TypeVar

from bench.measure import DISK, in_turn, scratch
from bench.memory_log import records, write_log
from bench.table import Target, Timed
from perdure.memory.lines import line_of
from perdure.memory.log import Log
from perdure.memory.memory import Memory
from perdure.memory.places import Places

T = TypeVar("T")

_TIMES = 200
_BATCH = 100
_WRITERS = 8
_SECONDS = 1.0
_FEW = 1_000
_LINES = [line_of(record, 1_780_000_000_000) for record in islice(records(_TIMES), _TIMES)]


def measure(n: int = 100_000, repeats: int = 5) -> list[Timed]:
    """Return what an append costs: alone, with others, in a batch, in a log of n records, and with the check."""
    return [_one_writer(repeats), _writers(repeats), _batch(repeats), _long(n, repeats), _checked(n, repeats)]


def _one_writer(repeats: int) -> Timed:
    with scratch(DISK) as folder:
        log = Log(Places(folder / "memory.jsonl"))
        fd = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

        def raw(line: bytes) -> None:
            os.write(fd, line)
            os.fdatasync(fd)

        ways = [lambda: _p50(raw, _LINES), lambda: _p50(lambda line: log.append([line]), _LINES)]
        floor, ours = (median(found) for found in in_turn(*ways, repeats=repeats))
        os.close(fd)
        log.close()
    return Timed("append of one writer, median", floor, ours, "µs", Target("ratio", "≤", 1.3))


def _writers(repeats: int) -> Timed:
    floor, ours = (
        median(found)
        for found in in_turn(lambda: _together("inside"), lambda: _together("ours"), repeats=max(repeats // 2, 1))
    )
    what = f"append of {_WRITERS} processes, per record, beside a flush inside of the lock"
    return Timed(what, floor, ours, "µs", Target("ratio", "≤", 1 / 3))


def _together(way: str) -> float:
    with scratch(DISK) as folder:
        command = [sys.executable, "-m", "bench.memory_append", way, str(folder)]
        children = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(_WRITERS)]
        written = sum(int(child.communicate()[0]) for child in children)
    return _SECONDS / written * 1e6


def _batch(repeats: int) -> Timed:
    with scratch(DISK) as folder:
        log = Log(Places(folder / "memory.jsonl"))
        ways = [
            lambda: _p50(lambda line: log.append([line]), _LINES),
            lambda: _p50(lambda _line: log.append(_LINES[:_BATCH]), _LINES[:20]) / _BATCH,
        ]
        floor, ours = (median(found) for found in in_turn(*ways, repeats=repeats))
        log.close()
    wanted = Target("ratio", "≤", 1 / 30)
    return Timed(f"append in batches of {_BATCH}, per record, beside one by one", floor, ours, "µs", wanted)


def _long(n: int, repeats: int) -> Timed:
    return _beside_short(f"append to a log of {n:,}, beside an empty one", (0, n), repeats, 1.2, dedupe=False)


def _checked(n: int, repeats: int) -> Timed:
    what = f"add with the check for duplicates to {n:,}, beside {_FEW:,}"
    return _beside_short(what, (_FEW, n), repeats, 1.5, dedupe=True)


def _beside_short(what: str, sizes: Sequence[int], repeats: int, most: float, *, dedupe: bool) -> Timed:
    with scratch(DISK) as folder:
        memories = []
        for size in sizes:
            place = folder / str(size)
            place.mkdir()
            if size:
                write_log(place / "memory.jsonl", size)
            memories.append(Memory(place))
            if size and dedupe:
                memories[-1].rebuild()
        numbers = count()

        def add(memory: Memory) -> float:
            return _p50(lambda number: memory.add(_new(number), dedupe=dedupe), list(islice(numbers, _TIMES)))

        ways = [partial(add, memory) for memory in memories]
        floor, ours = (median(found) for found in in_turn(*ways, repeats=repeats))
        for memory in memories:
            memory.close()
    return Timed(what, floor, ours, "µs", Target("ratio", "≤", most))


def _new(number: int) -> dict[str, object]:
    return {"type": "lesson", "title": f"what was learnt in run {number}", "paths": [f"src/mod_{number % 500}.py"]}


def _p50(work: Callable[[T], object], values: Sequence[T]) -> float:
    """Return the median of what the work takes for each value, in microseconds."""
    each = []
    for value in values:
        begun = time.perf_counter()
        work(value)
        each.append(time.perf_counter() - begun)
    return median(each) * 1e6


def write_for_a_while(way: str, folder: Path) -> int:
    """Append until the time is over; return how many records that were."""
    end_s = time.monotonic() + _SECONDS
    written = 0
    if way == "ours":
        log = Log(Places(folder / "memory.jsonl"))
        while time.monotonic() < end_s:
            log.append([_LINES[written % _TIMES]])
            written += 1
        log.close()
        return written
    fd = os.open(folder / "memory.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    while time.monotonic() < end_s:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(fd, _LINES[written % _TIMES])
        os.fdatasync(fd)
        fcntl.flock(lock, fcntl.LOCK_UN)
        written += 1
    os.close(fd)
    os.close(lock)
    return written


if __name__ == "__main__":
    print(write_for_a_while(sys.argv[1], Path(sys.argv[2])))
