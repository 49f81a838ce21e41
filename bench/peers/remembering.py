"""What the programs of the memory are asked for, and the record that everyone keeps.

adds     n records by one writer                     -> records a second
lost     four processes add n records each at once   -> how many of those that were acknowledged are not there
refused  the same                                    -> how many were not acknowledged
fill     n records
find     n look-ups of one of them, by fingerprint   -> milliseconds
"""

import json
import os
import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any

from bench.peers.program import WARM, Asked, per_second

WRITERS = 4
FILLED = 1000
_WORDS = (
    *("timeout", "retry", "socket", "parser", "import", "cycle", "flaky", "cache", "lock", "deadlock", "schema"),
    *("migration", "token", "upload", "deploy", "rollback"),
)

Add = Callable[[dict[str, Any]], object]


def record(name: str, number: int) -> dict[str, Any]:
    """Return something to remember, of about 500 bytes as JSON, different for each."""
    chance = random.Random(f"{name} {number}")
    words = chance.choices(_WORDS, k=24)
    return {
        "id": f"{name}-{number}",
        "type": "incident",
        "repo": f"org/repo{chance.randrange(20)}",
        "sha": f"{chance.getrandbits(160):040x}",
        "severity": "high",
        "fingerprint": sha256(f"{name} {number}".encode()).hexdigest()[:32],
        "title": " ".join(words[:6]),
        "summary": " ".join([*words[6:], f"case{number}"]),
        "paths": [f"src/mod_{chance.randrange(2000)}.py"],
    }


def adds(asked: Asked, add: Add) -> float:
    """Add records one by one, after a few that warm it up."""
    for number in range(WARM):
        add(record("warm", number))
    start = time.perf_counter()
    for number in range(asked.n):
        add(record("one", number))
    return per_second(start, asked.n)


def fill(asked: Asked, add: Add) -> None:
    for number in range(asked.n):
        add(record("filled", number))


def find(asked: Asked, look: Callable[[dict[str, Any]], int]) -> float:
    """Look for records by their fingerprint, and return the median in milliseconds; each is found exactly once."""
    each = []
    for number in range(asked.n + WARM):
        wanted = record("filled", number * 37 % FILLED)
        start = time.perf_counter()
        found = look(wanted)
        each.append((time.perf_counter() - start) * 1e3)
        if found != 1:
            raise RuntimeError(f"{found} records were found for one")
    return median(each[WARM:])


def together(asked: Asked, opened: Callable[[], AbstractContextManager[Add]]) -> set[str]:
    """Let four processes add records at once, and return the ids of those that were acknowledged."""
    folder = Path(asked.folder)
    children = []
    for writer in range(WRITERS):
        child = os.fork()
        if child == 0:
            with suppress(BaseException):
                _write(opened, folder / f"told-{writer}", f"w{writer}", asked.n)
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    return {name for path in folder.glob("told-*") for name in json.loads(path.read_text())}


def _write(opened: Callable[[], AbstractContextManager[Add]], told: Path, name: str, n: int) -> None:
    done = []
    with opened() as add:
        for number in range(n):
            one = record(name, number)
            with suppress(Exception):
                add(one)
                done.append(one["id"])
    told.write_text(json.dumps(done))


def lost(told: set[str], kept: set[str]) -> float:
    return len(told - kept)


def refused(asked: Asked, told: set[str]) -> float:
    return WRITERS * asked.n - len(told)
