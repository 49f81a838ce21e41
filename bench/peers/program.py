"""What every one of these programs is asked for, and how it answers.

`python -m bench.peers.WHO WORK --folder FOLDER --url URL --n N --variant NAME` does one work and prints one line of
JSON. The works, all with the same step:

steps    n steps of one goal                         -> microseconds a step
many     64 goals of n steps each, all at once       -> steps a second
prepare  n steps of one goal that is then killed
resume   goes on with it                             -> milliseconds since the process was started, first new step kept
fill     n goals that have ended
list     the 50 newest of them                       -> milliseconds
cold     the first step of a new goal                -> milliseconds since the process was started, step kept

What only the answer needs is imported after the work: `importlib.metadata` takes longer than some of what is timed.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

GOALS = 64
PAGE = 50
WARM = 5
BEGAN = "PERDURE_BENCH_BEGAN"
"""The environment variable with the moment at which the process was started, on the monotonic clock."""
LISTS = 15
_LISTS_MS = 2000


@dataclass(frozen=True)
class Asked:
    """What is to be done, and where: a folder, and the URL of a PostgreSQL database if it is to be kept there."""

    folder: str
    url: str | None
    n: int
    variant: str


Work = Callable[[Asked], float | None]


def run(known: Mapping[str, Work], package: str) -> None:
    """Do what the command line asks for; nothing is said by a work that has said it already, or that only prepares."""
    works(known, lambda: _version(package))


def works(known: Mapping[str, Work], package_version: Callable[[], str]) -> None:
    """Do what the command line asks for, as something of a version."""
    parser = argparse.ArgumentParser()
    parser.add_argument("work", choices=known)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--url")
    parser.add_argument("--n", type=int, default=1)
    parser.add_argument("--variant", default="")
    given = parser.parse_args()
    value = known[given.work](Asked(given.folder, given.url, given.n, given.variant))
    tell_version(package_version(), value)
    os._exit(0)  # what is left of threads has nothing more to do


def tell(package: str, value: float | None) -> None:
    """Answer; a package may be followed by others that belong to it."""
    tell_version(_version(package), value)


def tell_version(known: str, value: float | None) -> None:
    """Answer, as something of a version."""
    print(json.dumps({"value": value, "version": known}), flush=True)


def _version(package: str) -> str:
    from importlib.metadata import version

    first, *more = package.split() or [""]
    known = version(first) if first else ""
    if more:
        known += f" ({', '.join(f'{name} {version(name)}' for name in more)})"
    return known


def tell_and_die(package: str, value: float | None) -> None:
    """Answer and be gone at once, in the middle of everything."""
    tell(package, value)
    os._exit(0)


def since_start_ms() -> float:
    return (time.monotonic() - float(os.environ[BEGAN])) * 1e3


def us_each(start: float, n: int) -> float:
    """Return the microseconds that each of n took since a moment."""
    return (time.perf_counter() - start) / n * 1e6


def per_second(start: float, n: int) -> float:
    """Return how many of n there were in a second since a moment."""
    return n / (time.perf_counter() - start)


def list_ms(page: Callable[[], int]) -> float:
    """List again and again, and return the median; the first time is not counted."""
    from statistics import median

    page()
    each: list[float] = []
    while len(each) < LISTS and sum(each) < _LISTS_MS:
        start = time.perf_counter()
        found = page()
        each.append((time.perf_counter() - start) * 1e3)
        require_page(found)
    return median(each)


def require_page(found: int) -> None:
    """Refuse a list that is not as long as it was to be."""
    if found != PAGE:
        raise RuntimeError(f"a page of {PAGE} has {found}")


class NewSteps:
    """Counts the steps that are run anew: when the second begins, the first is kept."""

    def __init__(self) -> None:
        self.dies_at: int | None = None
        self.tells_at: int | None = None
        self._count = 0

    def begins(self, package: str, number: int) -> None:
        """Die or answer, if this is the step to do so."""
        self._count += 1
        if number == self.dies_at:
            tell_and_die(package, None)
        if self._count == self.tells_at:
            tell_and_die(package, since_start_ms())
