"""Each kind of state store in turn, empty."""

import secrets
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from perdure.store.goals.memory_state_store import InMemoryStateStore
from perdure.store.goals.postgres import PostgresLeases, PostgresStateStore
from perdure.store.goals.sqlite import SqliteLeases, SqliteStateStore
from perdure.store.postgres.database import PostgresDatabase
from perdure.store.sqlite.file_database import SqliteFileDatabase
from perdure.store.target import PostgresTarget, parse_target
from perdure.store.transaction import Transaction
from tests.contracts.histories import BootClock, Stored
from tests.postgres import PostgresServer

SERVER_NOW = "(SELECT now() + shift FROM server_clock)"
"""The clock of the server, which jumps when a test says so."""


@pytest.fixture(scope="session")
def goals_url(postgres: PostgresServer) -> str:
    """One PostgreSQL database for all tests of goals; each finds it empty."""
    return postgres.new_database(f"goals_{secrets.token_hex(6)}")


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path | None:
    """Where the goals are: a URL, a file, or nowhere."""
    match request.param:
        case "memory":
            return None
        case "sqlite":
            return Path(shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "goals.db"))
        case _:
            return str(request.getfixturevalue("goals_url"))


@pytest.fixture
async def stored(place: str | Path | None) -> AsyncIterator[Stored]:
    match place:
        case None:
            dead: set[str] = set()
            clock = BootClock()
            store = InMemoryStateStore(boottime_s=clock.boottime_s, is_dead=dead.__contains__)
            yield Stored(store, store, dead, clock=clock)
        case Path() as path:
            async with in_sqlite(path) as stored:
                yield stored
        case url:
            async with in_postgres(url) as stored:
                yield stored


@asynccontextmanager
async def in_sqlite(path: Path) -> AsyncIterator[Stored]:
    database = await SqliteFileDatabase.open(path, migrate=True, debug=False)
    dead: set[str] = set()
    store = SqliteStateStore(database)
    clock = BootClock()
    leases = SqliteLeases(
        database, boottime_s=clock.boottime_s, is_dead=dead.__contains__, on_release=store.forget_active
    )
    yield Stored(store, leases, dead, database, is_bound_to_boot=True, clock=clock)
    await database.close()


@asynccontextmanager
async def in_postgres(url: str) -> AsyncIterator[Stored]:
    target = parse_target(url)
    assert isinstance(target, PostgresTarget)
    database = await PostgresDatabase.open(target, migrate=True, debug=False)
    await database.write(_empty)
    dead: set[str] = set()
    clock = BootClock()
    leases = PostgresLeases(database, boottime_s=clock.boottime_s, is_dead=dead.__contains__, now=SERVER_NOW)
    yield Stored(PostgresStateStore(database), leases, dead, database, clock=clock)
    await database.close()


def _empty(tx: Transaction) -> None:
    tx.execute("CREATE TABLE IF NOT EXISTS server_clock (shift INTERVAL)")
    tx.execute("DELETE FROM server_clock")
    tx.execute("INSERT INTO server_clock VALUES (INTERVAL '0')")
    tx.execute("UPDATE goals SET deleted_at = 1")  # nothing else lets events go
    for table in ("events", "inbox", "goals", "leases"):
        tx.execute(f"DELETE FROM {table}")
