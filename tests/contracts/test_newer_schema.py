"""A database that a newer program has migrated: whoever has it open can read it, and writes nothing into it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict
from perdure.kernel.ports import Leases
from perdure.store.database import Database
from perdure.store.goals.postgres import PostgresLeases, PostgresStateStore
from perdure.store.goals.sqlite import SqliteLeases, SqliteStateStore
from perdure.store.migrations import CHAIN
from perdure.store.sqlite.file_database import SqliteFileDatabase
from perdure.store.transaction import Transaction
from tests.contracts.histories import HELLO, WORKER, BootClock, History, Stored, begin
from tests.rows import new_project, project_names
from tests.store.test_migrations import ADD, chain_with, open_with

NEWER = f"{CHAIN.head + 1:04d}"


@pytest.fixture
async def older(database_url: str) -> AsyncIterator[Stored]:
    """A database that is open since before the migration, with a goal in it."""
    database = await open_with(database_url)
    stored = stored_in(database)
    await begin(stored, "g", HELLO)
    await stored.leases.renew(WORKER, 30)
    yield stored
    await database.close()


def stored_in(database: Database) -> Stored:
    clock = BootClock()
    if isinstance(database, SqliteFileDatabase):
        leases: Leases = SqliteLeases(database, boottime_s=clock.boottime_s)
        return Stored(SqliteStateStore(database), leases, set(), database)
    return Stored(PostgresStateStore(database), PostgresLeases(database, boottime_s=clock.boottime_s), set(), database)


async def migrate(url: str, folder: Path) -> None:
    """Be the newer program."""
    chains = folder / "chains"
    chains.mkdir()
    await (await open_with(url, chain_with(chains, ADD))).close()


async def append(stored: Stored) -> None:
    await History(stored, "g", events=await stored.store.load("g")).append(HELLO)


async def begin_another(stored: Stored) -> None:
    await begin(stored, "another")


async def post(stored: Stored) -> None:
    await stored.store.post("g", "signal", {}, key="k")


async def renew(stored: Stored) -> None:
    await stored.leases.renew(WORKER, 30)


async def retire(stored: Stored) -> None:
    await stored.leases.retire(WORKER)


async def claim(stored: Stored) -> None:
    await stored.leases.claim("g", WORKER)


async def release(stored: Stored) -> None:
    await stored.leases.release("g", WORKER, 1)


async def write(stored: Stored) -> None:
    assert stored.database is not None
    await stored.database.write(new_project("b"))


WRITES = [append, begin_another, post, renew, retire, claim, release, write]


async def test_a_process_of_an_older_version_writes_nothing_after_the_migration_and_can_still_read(
    older: Stored, database_url: str, tmp_path: Path
) -> None:
    await append(older)  # what a process has learnt of a goal is not what it goes by
    assert older.database is not None
    await older.database.write(new_project("a"))
    await migrate(database_url, tmp_path)
    before = await rows_in(older.database)
    for change in WRITES:
        with pytest.raises(Conflict, match=f"was migrated to version {NEWER} by a newer Perdure.*Restart this process"):
            await change(older)
        assert await rows_in(older.database) == before, change.__name__
    assert len(await older.store.load("g")) == 3


async def rows_in(database: Database) -> list[Any]:
    tables = ("goals", "events", "inbox", "leases")

    def read(tx: Transaction) -> list[Any]:
        return [*[tx.execute(f"SELECT * FROM {table}").all() for table in tables], project_names(tx)]

    return await database.read(read)


async def test_a_process_continues_writing_a_database_that_was_not_migrated(older: Stored) -> None:
    for change in WRITES:
        await change(older)
