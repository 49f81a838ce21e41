"""Kill -9 in front of and behind every durable write of the database: the old state or the new one, nothing between."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure import DatabaseClient, failpoints
from perdure.kernel.ports import Leases
from perdure.store.migrations import CHAIN
from perdure.store.transaction import Transaction
from tests import children
from tests.contracts.histories import HELLO, OTHER, WORKER, History, Stored, begin
from tests.crash.size import torture_size
from tests.postgres import PostgresServer
from tests.rows import new_project, project_names
from tests.store.test_migrations import REBUILD, chain_with, filled, open_with


class Died(BaseException):
    """What a process feels when it is killed: nothing of ours may catch it."""


def die() -> None:
    raise Died


async def write(url: str, *names: str) -> None:
    async with await DatabaseClient.create(url) as db:
        for name in names:
            await db.transaction(new_project(name))


async def names_in(url: str) -> list[str]:
    async with await DatabaseClient.create(url) as db:
        assert await db.verify() == []
        return await db.read(project_names)


@pytest.mark.parametrize(("point", "stored"), [("store.commit.before", []), ("store.commit.after", ["a"])])
async def test_a_kill_around_a_commit_leaves_it_absent_or_present(
    database_url: str, point: str, stored: list[str]
) -> None:
    await write(database_url)
    children.run_until(point, write, database_url, "a")
    assert await names_in(database_url) == stored


@pytest.mark.parametrize(("point", "stored"), [("store.commit.before", []), ("store.commit.after", ["a"])])
async def test_an_error_around_a_commit_leaves_the_client_usable(
    database_url: str, point: str, stored: list[str]
) -> None:
    async with await DatabaseClient.create(database_url) as db:
        with failpoints.armed(point, die), pytest.raises(Died):
            await db.transaction(new_project("a"))
        assert await db.read(project_names) == stored
        await db.transaction(new_project("b"))
        assert await db.read(project_names) == [*stored, "b"]


async def append_to_both(url: str) -> None:
    """Move two goals on by one group; one of them takes from its inbox, and a third is new."""
    async with await DatabaseClient.create(url) as db:
        stored = Stored(db.state_store(), leases_of(db), set())
        goals = [await loaded(stored, name) for name in ("a", "b")]
        (row,) = await stored.store.inbox("a")
        are_asked = threading.Event()
        busy = asyncio.ensure_future(db.transaction(lambda _tx: are_asked.wait(10)))
        await asyncio.sleep(0)
        appends = asyncio.gather(
            goals[0].append(HELLO, HELLO, taken=[row.id]), goals[1].append(HELLO), begin(stored, "new")
        )
        await asyncio.sleep(0)
        are_asked.set()
        await asyncio.gather(busy, appends)


async def append_alone(url: str) -> None:
    """Move one goal on, with nobody beside it."""
    async with await DatabaseClient.create(url) as db:
        await (await loaded(Stored(db.state_store(), leases_of(db), set()), "b")).append(HELLO)


async def claim(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        await leases_of(db).claim("a", OTHER)


async def renew(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        await leases_of(db).renew(OTHER, 30)


async def retire(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        await leases_of(db).retire(OTHER)


async def release(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        await leases_of(db).release("a", WORKER, 1)


async def delete_unfinished(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        await db.state_store().delete("a", even_unfinished=True)


def leases_of(db: DatabaseClient) -> Leases:
    return db.leases(boottime_s=lambda: 1_000.0, is_dead=lambda _worker_id: False)


async def loaded(stored: Stored, goal_id: str) -> History:
    return History(stored, goal_id, events=await stored.store.load(goal_id))


async def two_goals(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        stored = Stored(db.state_store(), leases_of(db), set())
        for name in ("a", "b"):
            await begin(stored, name)
        await stored.store.post("a", "signal", {}, key="k")


Goals = dict[str, tuple[int, str | None, int]]


async def goals_in(url: str) -> tuple[Goals, bool]:
    """Each goal's number of events, owner and posts, all of it verified; and whether the other worker is known."""
    async with await DatabaseClient.create(url) as db:
        assert await db.verify() == []
        store = db.state_store()
        found: Goals = {}
        for summary in await store.list_goals():
            events = await store.load(summary.goal_id)
            assert len(events) == summary.last_seq
            found[summary.goal_id] = (len(events), summary.worker, len(await store.inbox(summary.goal_id)))
        return found, bool(await leases_of(db).living([OTHER.id], WORKER))


BEFORE: tuple[Goals, bool] = ({"a": (1, "w1", 1), "b": (1, "w1", 0)}, False)
CHANGES: list[tuple[str, Callable[[str], Coroutine[Any, Any, None]], tuple[Goals, bool]]] = [
    ("store.append", append_to_both, ({"a": (3, "w1", 0), "b": (2, "w1", 0), "new": (1, "w1", 0)}, False)),
    ("store.append", append_alone, ({"a": (1, "w1", 1), "b": (2, "w1", 0)}, False)),
    ("store.claim", claim, ({"a": (1, "w2", 1), "b": (1, "w1", 0)}, False)),
    ("store.renew", renew, ({"a": (1, "w1", 1), "b": (1, "w1", 0)}, True)),
    ("store.release", release, ({"a": (1, None, 1), "b": (1, "w1", 0)}, False)),
    ("store.commit", delete_unfinished, ({"b": (1, "w1", 0)}, False)),
]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize(("place", "change", "changed"), CHANGES, ids=[change.__name__ for _, change, _ in CHANGES])
async def test_a_kill_around_a_change_of_goals_leaves_it_wholly_absent_or_wholly_present(
    database_url: str,
    place: str,
    change: Callable[[str], Coroutine[Any, Any, None]],
    changed: tuple[Goals, bool],
    moment: str,
) -> None:
    await two_goals(database_url)
    children.run_until(f"{place}.{moment}", change, database_url)
    assert await goals_in(database_url) == (BEFORE if moment == "before" else changed)


@pytest.mark.parametrize("point", ["store.retire.before", "store.retire.after"])
async def test_a_kill_around_the_end_of_a_worker_leaves_its_lease_or_none(database_url: str, point: str) -> None:
    await two_goals(database_url)
    await renew(database_url)
    children.run_until(point, retire, database_url)
    assert await goals_in(database_url) == (BEFORE[0], point == "store.retire.before")


@pytest.mark.parametrize("point", ["store.append.before", "store.append.after"])
async def test_an_error_around_a_group_leaves_the_client_usable(database_url: str, point: str) -> None:
    await two_goals(database_url)
    async with await DatabaseClient.create(database_url) as db:
        stored = Stored(db.state_store(), leases_of(db), set())
        with failpoints.armed(point, die):
            for name in ("a", "b"):
                with pytest.raises(Died):
                    await (await loaded(stored, name)).append(HELLO)
        for name in ("a", "b"):
            goal = await loaded(stored, name)
            assert len(goal.events) == (1 if point == "store.append.before" else 2)
            await goal.append(HELLO)


@pytest.mark.parametrize("point", ["store.create.before", "store.create.after", "store.migrate.commit.before"])
async def test_a_kill_while_a_new_file_is_made_leaves_none_or_a_whole_one(sqlite_path: Path, point: str) -> None:
    children.run_until(point, write, str(sqlite_path))
    if sqlite_path.exists():
        with closing(sqlite3.connect(sqlite_path)) as plain:
            assert plain.execute("PRAGMA user_version").fetchone() == (CHAIN.head,)
    await write(str(sqlite_path), "a")
    assert await names_in(str(sqlite_path)) == ["a"]
    assert sorted(path.name for path in sqlite_path.parent.iterdir()) == ["perdure.db", "perdure.db.lock"]


async def migrate_to_two(url: str, folder: Path) -> None:
    await (await open_with(url, chain_with(folder, REBUILD))).close()


@pytest.mark.parametrize(
    ("point", "version"), [("store.migrate.commit.before", CHAIN.head), ("store.migrate.commit.after", CHAIN.head + 1)]
)
async def test_a_kill_in_a_migration_leaves_the_old_or_the_new_schema(
    database_url: str, tmp_path: Path, point: str, version: int
) -> None:
    await filled(database_url)
    chains = tmp_path / "chains"
    chains.mkdir()
    children.run_until(point, migrate_to_two, database_url, chains)
    assert version_in(database_url) == version
    database = await open_with(database_url, chain_with(chains, REBUILD))
    assert (await database.health()).version == CHAIN.head + 1
    assert await database.read(project_names) == ["a"]
    await database.close()


def version_in(url: str) -> int:
    if url.startswith("postgresql"):
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    else:
        with closing(sqlite3.connect(url)) as plain:
            row = plain.execute("PRAGMA user_version").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    "point", ["store.migrate.copy.before", "store.migrate.copy.after", "store.backup.before", "store.backup.after"]
)
async def test_a_kill_around_the_copy_before_a_migration_leaves_the_old_schema(
    sqlite_path: Path, tmp_path: Path, point: str
) -> None:
    await filled(str(sqlite_path))
    chains = tmp_path / "chains"
    chains.mkdir()
    children.run_until(point, migrate_to_two, str(sqlite_path), chains)
    assert version_in(str(sqlite_path)) == CHAIN.head
    for copy in sqlite_path.parent.glob("perdure.db.before-*"):
        assert version_in(str(copy)) == CHAIN.head
    await migrate_to_two(str(sqlite_path), chains)
    assert version_in(str(sqlite_path)) == CHAIN.head + 1


async def test_a_kill_in_the_first_migration_of_postgresql_is_made_good_by_the_next_start(
    postgres_url: str,
) -> None:
    children.run_until("store.migrate.commit.before", write, postgres_url)
    assert await names_in(postgres_url) == []


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    return postgres.new_database("crash_first_migration")


async def write_many(url: str, prefix: str, count: int) -> None:
    async with await DatabaseClient.create(url) as db:
        for i in range(count):
            await db.transaction(new_project(f"{prefix}-{i}"))


@pytest.mark.torture
async def test_two_processes_that_write_at_once_lose_nothing_and_see_no_lock_error(database_url: str) -> None:
    count = torture_size(small=300)
    writers = [children.start(write_many, database_url, prefix, count) for prefix in ("one", "two")]
    assert [children.end_of(writer) for writer in writers] == [0, 0]
    assert len(await names_in(database_url)) == 2 * count


async def write_and_tell(url: str, prefix: str, pipe: Connection) -> None:
    """Write until killed, and tell of each row only when it is durable."""
    async with await DatabaseClient.create(url) as db:
        for i in range(1_000_000):
            await db.transaction(new_project(f"{prefix}-{i}"))
            pipe.send(f"{prefix}-{i}")


@pytest.mark.torture
async def test_whatever_was_acknowledged_survives_kills_at_random_moments(database_url: str) -> None:
    acknowledged: set[str] = set()
    for cycle in range(torture_size(small=15)):
        ours, theirs = children.context().Pipe(duplex=False)
        child = children.start(write_and_tell, database_url, f"c{cycle}", theirs)
        theirs.close()
        for _ in range(cycle % 7 + 1):
            acknowledged.add(ours.recv())
        child.kill()
        children.end_of(child)
        acknowledged.update(_rest_of(ours))
    stored = set(await names_in(database_url))
    assert acknowledged <= stored
    assert len(stored - acknowledged) <= torture_size(small=15), "at most the one in flight per kill"


def _rest_of(pipe: Connection) -> Iterator[str]:
    try:
        while True:
            yield pipe.recv()
    except (EOFError, OSError):
        pipe.close()


async def checkpoint_all_the_time(url: str, count: int) -> None:
    """Write large rows, so that checkpoints come often."""
    async with await DatabaseClient.create(url) as db:
        for i in range(count):
            await db.transaction(_large(i))


def _large(i: int) -> Callable[[Transaction], None]:
    def run(tx: Transaction) -> None:
        tx.execute("DELETE FROM projects WHERE name LIKE 'large%'")
        for j in range(20):
            new_project(f"large-{id(tx)}-{i}-{j}-" + "x" * 20_000)(tx)

    return run


@pytest.mark.torture
async def test_several_processes_that_write_and_checkpoint_do_not_damage_the_file(sqlite_path: Path) -> None:
    await write(str(sqlite_path))
    count = torture_size(small=40)
    writers = [children.start(checkpoint_all_the_time, str(sqlite_path), count) for _ in range(3)]
    while any(writer.is_alive() for writer in writers):
        async with await DatabaseClient.create(sqlite_path) as db:
            await db.read(project_names)
        await asyncio.sleep(0)
    assert [children.end_of(writer) for writer in writers] == [0, 0, 0]
    await names_in(str(sqlite_path))
