"""How to measure on a machine that others use too: floor and ours in turn, medians, folders that go away."""

import gc
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

TMPFS = Path("/dev/shm")
DISK = Path(tempfile.gettempdir())

T = TypeVar("T")


def in_turn(*ways: Callable[[], T], repeats: int) -> list[list[T]]:
    """Go round all ways so many times, and return what each gave."""
    found: list[list[T]] = [[] for _ in ways]
    for _ in range(repeats):
        for way, values in zip(ways, found, strict=True):
            gc.collect()
            values.append(way())
    return found


def medians(*ways: Callable[[], float], repeats: int) -> list[float]:
    """Go round all ways so many times, and return the median of each."""
    return [statistics.median(values) for values in in_turn(*ways, repeats=repeats)]


@contextmanager
def scratch(parent: Path | None = None) -> Iterator[Path]:
    """Give a folder that is gone afterwards; memory where there is a file system in it, unless a place is named."""
    if parent is None:
        parent = TMPFS if TMPFS.is_dir() else DISK
    with tempfile.TemporaryDirectory(prefix="perdure-bench-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@dataclass(frozen=True)
class Steps:
    """What a run of many steps took: all together, and each."""

    seconds: float
    each_s: Sequence[float]

    @property
    def per_second(self) -> float:
        return len(self.each_s) / self.seconds

    @property
    def mean_us(self) -> float:
        return self.seconds / len(self.each_s) * 1e6

    @property
    def p99_ms(self) -> float:
        ordered = sorted(self.each_s)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))] * 1e3


def perdure() -> list[str]:
    """The program as it was installed beside this Python."""
    return [str(Path(sys.executable).parent / "perdure")]


def process_s(command: Sequence[str], cache: Path, *, exit_code: int = 0) -> float:
    """Start a program, wait for its end, and return how long that took.

    What Python compiles is kept in a folder, as it is wherever a program is installed, whatever our environment says.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(cache)
    start = time.perf_counter()
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    spent = time.perf_counter() - start
    if done.returncode != exit_code:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return spent


def mark(path: Path) -> None:
    """Leave a line in the trace of this process."""
    fd = os.open(path, os.O_CREAT | os.O_WRONLY)
    os.fsync(fd)
    os.close(fd)


def peak_mb() -> float:
    """Return how many megabytes this process has had at most; what its parent had before is not counted."""
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(found[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)
