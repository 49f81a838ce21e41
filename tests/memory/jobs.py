"""What child processes do with a memory, until they end or are killed."""

import asyncio
import errno
import hashlib
import os
import random
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import orjson

from perdure import Perdure
from perdure.errors import Conflict, Damaged, NotFound, PerdureError
from perdure.failpoints import armed
from perdure.kernel.ports import IdempotentCall
from perdure.memory.append import append_record
from perdure.memory.log import compaction
from perdure.memory.log.lines import line_of
from perdure.memory.log.lock import LogLock
from perdure.memory.log.log import Log, now_ms
from perdure.memory.memory import Memory
from perdure.memory.normalise import moment
from perdure.memory.paths import LOG_FILE, MemoryFiles

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


async def import_tombstone(folder: Path, record_id: str) -> None:
    with opened(folder) as memory:
        memory.import_lines([tombstone_of(record_id)])


def tombstone_of(record_id: str) -> bytes:
    """What another log says of a record that was forgotten there."""
    return line_of({"id": f"no-{record_id}", "type": "_tombstone", "target": record_id}, NOW_MS)


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
        compaction.forget(Log(MemoryFiles(Path(LOG_FILE))), record_id)
    except PerdureError as error:
        pipe.send((error.code, str(error)))


async def hold_the_lock(folder: Path, pipe: Connection) -> None:
    """Take the lock and wait to be killed."""
    with LogLock(MemoryFiles(folder / LOG_FILE).lock):
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


def once_of(record: dict[str, Any], key: str) -> IdempotentCall:
    return IdempotentCall(key, "POST /memory/records", hashlib.sha256(repr(record).encode()).digest())


async def add_under_one_id(folder: Path, rival: int, rounds: int, barrier: Barrier, pipe: Connection) -> None:
    """Race with others for one id in each round: by `add`, by `append_record` or by an import."""
    with opened(folder) as memory:
        for number in range(rounds):
            record = {**record_of(f"r{number}", age_days=400 * (number % 2)), "title": str(rival)}
            barrier.wait()
            pipe.send((record["id"], rival, _taken(memory, record, rival % 3)))


def _taken(memory: Memory, record: dict[str, Any], way: int) -> str:
    if way == 0:
        answer = memory.import_lines([orjson.dumps(record)])
        return "added" if answer["added"] else "conflict" if answer["conflicts"] else "skipped"
    try:
        if way == 1:
            append_record(memory.files.log, record)
        else:
            memory.add(record, dedupe=False)
    except Conflict:
        return "conflict"
    return "added"


async def compact_on(folder: Path, rounds: int, barrier: Barrier) -> None:
    """Move old records into the archive while others add."""
    with opened(folder) as memory:
        for _ in range(rounds):
            barrier.wait()
            try:
                memory.compact(now_ms=NOW_MS)
            except Conflict:
                continue


def overwrite(index: Path, chance: random.Random) -> None:
    """Write random bytes at a random place."""
    with index.open("r+b") as file:
        file.seek(chance.randrange(index.stat().st_size))
        file.write(chance.randbytes(chance.choice([1, 2, 16, 512, 4096])))


def zero(index: Path, chance: random.Random) -> None:
    with index.open("r+b") as file:
        file.seek(chance.randrange(index.stat().st_size))
        file.write(bytes(chance.choice([64, 4096, 20_000])))


def cut(index: Path, chance: random.Random) -> None:
    os.truncate(index, chance.randrange(index.stat().st_size))


def keep_the_header(index: Path, chance: random.Random) -> None:
    """Leave the first 100 bytes, which is what SQLite knows a database by."""
    with index.open("r+b") as file:
        file.seek(100)
        file.write(chance.randbytes(index.stat().st_size - 100))


def put_garbage(index: Path, chance: random.Random) -> None:
    other = index.with_name("other")
    other.write_bytes(chance.randbytes(20_000))
    other.replace(index)


def put_another_database(index: Path, chance: random.Random) -> None:
    other = index.with_name(f"other-{chance.random()}")
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE noted (device, inode)")
    connection.execute("INSERT INTO noted VALUES (1, 2)")
    connection.execute(f"PRAGMA application_id = {0x50524D58 * chance.randrange(2)}")
    connection.execute("PRAGMA user_version = 3")
    connection.commit()
    connection.close()
    other.replace(index)


def delete(index: Path, _: random.Random) -> None:
    index.unlink()


DAMAGES = [overwrite, zero, cut, keep_the_header, put_garbage, put_another_database, delete]


async def damage_on(folder: Path, barrier: Barrier) -> None:
    """Damage the index again and again, until killed."""
    index = MemoryFiles(folder / LOG_FILE).index
    chance = random.Random(1)
    barrier.wait()
    while True:
        with suppress(OSError, ValueError):
            chance.choice(DAMAGES)(index, chance)
        await asyncio.sleep(chance.random() / 100)


async def look_and_append(folder: Path, name: str, rounds: int, barrier: Barrier, pipe: Connection) -> None:
    """Append and look up; every error but one of ours ends the child, and with it the test."""
    with opened(folder) as memory:
        barrier.wait()
        for number in range(rounds):
            record = record_of(f"{name}-{number}")
            assert memory.add(record)["added"]
            pipe.send(record["id"])
            memory.search("retry")
            memory.related(paths=["src"])
            memory.status()
            with suppress(NotFound):
                memory.get(record["id"])
