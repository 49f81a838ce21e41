"""Adding to a memory, beside a raw write and flush of the same bytes; and what must hold for it, counted.

`python -m bench.memory_append WHAT FOLDER HOW_MUCH` is the program that is looked at from outside.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import TypeVar

from bench.measure import DISK, in_turn, mark, peak_mb, scratch
from bench.memory_log import records, write_log
from bench.table import Counted, Target, Timed
from perdure import failpoints
from perdure.memory.log.lines import line_of
from perdure.memory.log.log import Log, now_ms
from perdure.memory.log.reading import iter_lines, iter_records
from perdure.memory.memory import Memory
from perdure.memory.paths import LOG_FILE, MemoryFiles
from perdure.memory.record import JsonObject

T = TypeVar("T")

WRITERS = 8
SLOW_FLUSH_S = 0.004
_BATCH = 100
_BATCHES = 10
_FEW = 10_000
_TRACED = 50
_ALL_CALLS = 9
_BEGIN, _END = "bench-begins", "bench-ends"


def measure(n: int, adds: int = 500, repeats: int = 3, seconds: float = 1.0) -> list[Timed]:
    """Return what adding takes: alone, among others, in a batch, and at the end of n records."""
    together = [_among_others(repeats, seconds, flush_s) for flush_s in (0, SLOW_FLUSH_S)]
    return [_alone(adds), *together, _in_batches(repeats), *_at_the_end(n, adds)]


def count(n: int, seconds: float = 0.5) -> list[Counted]:
    """Count the system calls of appends, what eight writers lose, and the memory that reading n records takes."""
    return [*_calls(), _lost(seconds), _streamed(n)]


def _alone(adds: int) -> Timed:
    with _raw() as raw, _log() as log:
        floor, ours = _each(_lines(adds), partial(_write, raw), lambda line: log.append([line]))
    return Timed("append, median, beside write and fdatasync", floor, ours, "µs", Target("ratio", "≤", 1.3))


def _among_others(repeats: int, seconds: float, flush_s: float) -> Timed:
    ways = (partial(_together, how, seconds, flush_s) for how in ("inside", "ours"))
    floor, ours = in_turn(*ways, repeats=repeats)
    what = f"{WRITERS} processes append, beside those that flush inside the lock"
    what += f", flush of {flush_s * 1e3:g} ms" if flush_s else ", disk"
    slow, fast = (median(told / seconds for told, _kept in found) for found in (floor, ours))
    return Timed(what, slow, fast, "/s", Target("ratio", "≥", 3))


def _in_batches(repeats: int) -> Timed:
    lines = _lines(_BATCH)
    with _log() as log:

        def single() -> float:
            return _per_second(_BATCH, lambda: _all(log, [[line] for line in lines]))

        def batches() -> float:
            return _per_second(_BATCHES * _BATCH, lambda: _all(log, [lines] * _BATCHES))

        floor, ours = (median(found) for found in in_turn(single, batches, repeats=repeats))
    return Timed(f"append {_BATCH} at once, beside one by one", floor, ours, "/s", Target("ratio", "≥", 30))


def _at_the_end(n: int, adds: int) -> list[Timed]:
    """Add to an empty, a short and a long log in turn."""
    few = min(_FEW, n)
    with scratch(DISK) as folder:
        sizes = {"empty": 0, "short": few, "long": n}
        empty, short, long = (_filled(folder / name, size) for name, size in sizes.items())
        news = _news(n)
        at_0, at_n = _each(list(islice(news, adds)), partial(empty.add, dedupe=False), partial(long.add, dedupe=False))
        at_few, at_many = _each(list(islice(news, adds)), short.add, long.add)
        for memory in (empty, short, long):
            memory.close()
    wanted = Target("ratio", "≤", 1.2)
    return [
        Timed(f"add to {n:,} without a check, median, beside an empty log", at_0, at_n, "µs", wanted),
        Timed(f"add to {n:,} with a check for duplicates, median, beside {few:,}", at_few, at_many, "µs", wanted),
    ]


def _filled(folder: Path, size: int) -> Memory:
    folder.mkdir()
    memory = Memory(folder)
    write_log(memory.files.log, size, now_ms())
    memory.rebuild()
    memory.add({"type": "fact", "title": "warm"})
    return memory


def _news(seed: int) -> Iterator[JsonObject]:
    """Give records that no log has."""
    for number, record in enumerate(records(10**6, seed=seed + 1)):
        yield {**record, "id": f"new-{number}", "fingerprint": f"new-{number}"}


def _each(things: Sequence[T], *ways: Callable[[T], object]) -> list[float]:
    """Run each way with each thing, in an order that changes, and return the medians in microseconds."""
    found: list[list[float]] = [[] for _ in ways]
    for number, thing in enumerate(things):
        for one in islice(cycle(range(len(ways))), number % len(ways), number % len(ways) + len(ways)):
            start = time.perf_counter()
            ways[one](thing)
            found[one].append(time.perf_counter() - start)
    return [median(each) * 1e6 for each in found]


def _all(log: Log, batches: Sequence[Sequence[bytes]]) -> None:
    for lines in batches:
        log.append(lines)


def _per_second(n: int, work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return n / (time.perf_counter() - start)


def _lines(n: int) -> list[bytes]:
    return [line_of(record, now_ms()) for record in records(n)]


def _write(fd: int, line: bytes, flush_s: float = 0) -> None:
    os.write(fd, line)
    if flush_s:
        time.sleep(flush_s)
    os.fdatasync(fd)


@contextmanager
def _raw() -> Iterator[int]:
    with scratch(DISK) as folder:
        fd = os.open(folder / "raw", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        _write(fd, b"warm\n")
        yield fd
        os.close(fd)


@contextmanager
def _log() -> Iterator[Log]:
    with scratch(DISK) as folder:
        log = Log(MemoryFiles(folder / LOG_FILE))
        log.append(_lines(1))
        yield log
        log.close()


def _together(how: str, seconds: float, flush_s: float = 0) -> tuple[int, int]:
    """Let eight processes append for a while; return how many were acknowledged, and how many are there.

    Where a flush is to take some time, it is that of a file system in memory, and all processes sleep.
    """
    with scratch(None if flush_s else DISK) as folder:
        command = [sys.executable, "-m", "bench.memory_append", how, str(folder), str(seconds), str(flush_s)]
        writers = [
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(WRITERS)
        ]
        for writer in writers:
            if writer.stdout is None or writer.stdout.readline() != "ready\n":
                raise RuntimeError("a writer did not start")
        told = sum(int(writer.communicate()[0]) for writer in _going(writers))
        return told, sum(line.is_served for line in iter_lines(folder / LOG_FILE))


def _going(writers: Sequence["subprocess.Popen[str]"]) -> Sequence["subprocess.Popen[str]"]:
    """Let all begin at once."""
    for writer in writers:
        if writer.stdin is not None:
            writer.stdin.write("go\n")
            writer.stdin.flush()
    return writers


def _lost(seconds: float) -> Counted:
    told, kept = _together("ours", seconds)
    what = f"records lost of those that {WRITERS} processes appended at once"
    return Counted(what, told - kept, Target("value", "=", 0), f"{told:,} acknowledged")


def _calls() -> list[Counted]:
    """Count by strace what the system is asked for by each append."""
    found: list[str] | None = None
    if shutil.which("strace") is not None:
        with scratch(DISK) as folder:
            trace = folder / "trace"
            command = [sys.executable, "-m", "bench.memory_append", "traced", str(folder), str(_TRACED)]
            subprocess.run(["strace", "-f", "-y", "-qq", "-o", str(trace), *command], check=True, capture_output=True)
            found = _between(trace.read_text().splitlines())

    def each(*names: str) -> float | None:
        return None if found is None else sum(any(f"{name}(" in line for name in names) for line in found) / _TRACED

    note = f"{_TRACED} appends by one process, by strace"
    return [
        Counted("writes per append", each("write", "pwrite64", "writev"), Target("value", "=", 1), note),
        Counted("flushes per append", each("fsync", "fdatasync"), Target("value", "=", 1), note),
        Counted("system calls per append", each(""), Target("value", "≤", _ALL_CALLS), note),
    ]


def _between(lines: Sequence[str]) -> list[str]:
    """Return the calls between the marks, without those that only get or give back memory."""
    at = [number for number, line in enumerate(lines) if f"/{_BEGIN}>" in line or f"/{_END}" in line]
    first = max(number for number in at if _BEGIN in lines[number])
    last = min(number for number in at if _END in lines[number])
    return [line for line in lines[first + 1 : last] if not any(name in line for name in ("mmap(", "munmap(", "brk("))]


def _streamed(n: int) -> Counted:
    with scratch(DISK) as folder:
        write_log(folder / LOG_FILE, n, now_ms())
        command = [sys.executable, "-m", "bench.memory_append", "read", str(folder), str(n)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    what = f"megabytes of memory while {n:,} records are read one by one"
    return Counted(what, float(done.stdout), Target("value", "≤", 50), "`iter_records`, the whole process")


def _append_for(folder: Path, seconds: float, append: Callable[[bytes], object]) -> int:
    """Append until the time is over, and return how often."""
    lines = _lines(100)
    (folder / LOG_FILE).touch()
    print("ready", flush=True)
    sys.stdin.readline()
    end, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < end:
        append(lines[done % len(lines)])
        done += 1
    return done


def _flush_inside(folder: Path, flush_s: float) -> Callable[[bytes], None]:
    """The way that is not ours: the lock is kept until all is on the disk."""
    log, lock = (os.open(folder / name, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600) for name in (LOG_FILE, "lock"))

    def append(line: bytes) -> None:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _write(log, line, flush_s)
        fcntl.flock(lock, fcntl.LOCK_UN)

    return append


def _be_traced(folder: Path, n: int) -> None:
    log = Log(MemoryFiles(folder / LOG_FILE))
    lines = _lines(n)
    log.append(lines[:1])
    mark(folder / _BEGIN)
    for line in lines:
        log.append([line])
    mark(folder / _END)


def _main(what: str, folder: Path, how_much: float, flush_s: float = 0) -> None:
    match what:
        case "ours":
            log = Log(MemoryFiles(folder / LOG_FILE))
            slow = failpoints.armed("memory.flush.before", partial(time.sleep, flush_s))
            with slow if flush_s else nullcontext():
                print(_append_for(folder, how_much, lambda line: log.append([line])))
        case "inside":
            print(_append_for(folder, how_much, _flush_inside(folder, flush_s)))
        case "traced":
            _be_traced(folder, int(how_much))
        case "read":
            if sum(1 for _ in iter_records(folder / LOG_FILE)) != how_much:
                raise RuntimeError("not all records were read")
            print(peak_mb())


if __name__ == "__main__":
    _main(sys.argv[1], Path(sys.argv[2]), *map(float, sys.argv[3:]))
