"""What child processes do with a memory, until they end or are killed."""

import errno
import hashlib
import os
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from perdure import Perdure
from perdure.errors import Conflict, Damaged, PerdureError
from perdure.failpoints import armed
from perdure.kernel.ports import Once
from perdure.memory import compaction
from perdure.memory.lines import line_of
from perdure.memory.lock import LogLock
from perdure.memory.log import Log, append_record, now_ms
from perdure.memory.memory import Memory
from perdure.memory.normalise import moment
from perdure.memory.places import LOG_FILE, Places

DAY_MS = 24 * 60 * 60 * 1000
NOW_MS = 1_750_000_000_000
NOBODY = 65534


@contextmanager
def opened(folder: Path) -> Iterator[Memory]:
    memory = Memory(folder)
    try:
        yield memory
    finally:
        memory.close()


def failing(number: int) -> Callable[[], None]:
    """What a fail-point does that stands for a call which fails with this error."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


def old_and_new(count: int, *, pad: int = 0) -> bytes:
    """The lines of a log of which every other record is old, seen from NOW_MS; every fourth is pinned."""
    lines = []
    for number in range(count):
        age_days = 400 + number if number % 2 else number % 90
        record = record_of(f"r{number}", pad=pad, age_days=age_days, pinned=number % 4 == 3)
        lines.append(line_of(record, NOW_MS))
    return b"".join(lines)


def record_of(name: str, *, pad: int = 0, age_days: int = 0, pinned: bool = False) -> dict[str, Any]:
    metadata = {"pinned": pinned, "pad": name[-1] * pad}
    return {"id": name, "type": "lesson", "timestamp": stamp(age_days), "title": name, "metadata": metadata}


def stamp(age_days: int) -> str:
    return moment((NOW_MS - age_days * DAY_MS) / 1000)


async def add(folder: Path, name: str) -> None:
    with opened(folder) as memory:
        memory.add(record_of(name), dedupe=False)


async def add_with_a_failing_flush(folder: Path, name: str) -> None:
    with opened(folder) as memory, armed("memory.flush.before", failing(errno.EIO)):
        memory.add(record_of(name), dedupe=False)


async def compact(folder: Path) -> None:
    with opened(folder) as memory:
        memory.compact(now_ms=NOW_MS)


async def rebuild(folder: Path) -> None:
    with opened(folder) as memory:
        memory.rebuild()


async def repair(folder: Path) -> None:
    with opened(folder) as memory:
        memory.repair()


async def accept(folder: Path, record_id: str) -> None:
    with opened(folder) as memory:
        memory.repair(accept=record_id)


async def clear(folder: Path) -> None:
    with opened(folder) as memory:
        memory.verify(clear=True)


async def forget(folder: Path, record_id: str) -> None:
    with opened(folder) as memory:
        memory.forget(record_id)


async def write_on(folder: Path, name: str, pad: int, pipe: Connection) -> None:
    """Add one record after the other, half of them old, and tell each name when it is stored."""
    with opened(folder) as memory:
        number = 0
        while True:
            number += 1
            record = record_of(f"{name}-{number}", pad=random.randrange(pad + 1), age_days=400 * (number % 2))
            memory.add(record, dedupe=False)
            pipe.send((record["id"], record))


async def rewrite_on(folder: Path, pipe: Connection) -> None:
    """Compact, repair and forget one after the other, and tell of each."""
    with opened(folder) as memory:
        number = 0
        while True:
            number += 1
            name = f"secret-{os.getpid()}-{number}"
            memory.add(record_of(name, age_days=500), dedupe=False)
            try:
                pipe.send(memory.compact(now_ms=NOW_MS) and None)
                memory.repair()
                memory.forget(name)
            except Conflict:
                continue


async def add_at_once(folder: Path, key: str, barrier: Barrier, pipe: Connection) -> None:
    with opened(folder) as memory:
        barrier.wait()
        pipe.send(memory.add({"type": "incident", "fingerprint": key}))


async def compact_at_once(folder: Path, barrier: Barrier, pipe: Connection) -> None:
    with opened(folder) as memory:
        barrier.wait()
        try:
            pipe.send(memory.compact(now_ms=NOW_MS)["archived"])
        except Conflict:
            pipe.send("conflict")


async def fill_up(folder: Path, limit: int, pipe: Connection) -> None:
    """Add until the file may not grow any more, then make room and add again; tell what was stored."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(folder) as memory:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        number = 0
        try:
            while True:
                number += 1
                record = record_of(f"r{number}", pad=700)
                memory.add(record, dedupe=False)
                pipe.send(record["id"])
        except PerdureError as error:
            pipe.send(error.code)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        memory.add(record_of("room again"), dedupe=False)


async def compact_without_room(folder: Path, pipe: Connection) -> None:
    with opened(folder) as memory:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (3000, hard))
        try:
            memory.compact(now_ms=NOW_MS)
        except PerdureError as error:
            pipe.send(error.code)


async def append_as_somebody_else(folder: Path, pipe: Connection) -> None:
    """Try to append where one may not write; root may everywhere, so it becomes nobody."""
    os.chdir(folder)
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    try:
        append_record("memory.jsonl", {"title": "not allowed"})
    except PerdureError as error:
        pipe.send((error.code, str(error)))


async def forget_as_somebody_else(folder: Path, record_id: str, pipe: Connection) -> None:
    os.chdir(folder)
    os.seteuid(NOBODY)
    try:
        compaction.forget(Log(Places(Path(LOG_FILE))), record_id)
    except PerdureError as error:
        pipe.send((error.code, str(error)))


async def hold_the_lock(folder: Path, pipe: Connection) -> None:
    """Take the lock and wait to be killed."""
    with LogLock(Places(folder / LOG_FILE).lock):
        pipe.send(os.getpid())
        pipe.recv()


async def append_when_told(folder: Path, pipe: Connection) -> None:
    """Append, tell how that went, and do so once more when told."""
    with opened(folder) as memory:
        for _ in range(2):
            try:
                pipe.send(memory.add({"type": "lesson", "title": str(now_ms())}, dedupe=False)["added"])
            except Damaged as error:
                pipe.send(error.code)
            pipe.recv()


async def add_once(home: Path, record: dict[str, Any], key: str) -> None:
    """Add a record under a key, in a home with a database."""
    async with Perdure.open(home) as p:
        await p.memory.add_once(record, once_of(record, key))


def once_of(record: dict[str, Any], key: str) -> Once:
    return Once(key, "POST /memory/records", hashlib.sha256(repr(record).encode()).digest())
