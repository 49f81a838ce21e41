"""What happens when PostgreSQL is not there, does not let us in, or goes away."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from perdure import Conflict, DatabaseClient, Denied, Invalid, Unavailable, failpoints
from perdure.store.raw import RawTransaction
from perdure.store.transaction import Transaction
from tests.children import python
from tests.contracts.histories import HELLO, Stored, begin
from tests.postgres import PostgresServer
from tests.rows import new_project, project_names


@pytest.fixture
def url(postgres: PostgresServer, tmp_path: Path) -> str:
    return postgres.new_database(f"pg_{tmp_path.name[-50:].lower()}")


@pytest.mark.parametrize(
    "target",
    [
        "postgresql://user:hunter2@127.0.0.1:1/x",
        "postgresql://user:hunter2@/x?host=/nowhere",
        "postgres://u:hunter2@h.invalid/x",
    ],
)
async def test_a_server_that_does_not_answer_is_reported_without_the_password(target: str) -> None:
    with pytest.raises(Unavailable) as failure:
        await DatabaseClient.create(target)
    assert "hunter2" not in str(failure.value)


async def test_a_database_that_is_not_there_is_reported(postgres: PostgresServer) -> None:
    with pytest.raises(Unavailable, match="nothing_here"):
        await DatabaseClient.create(postgres.url("nothing_here"))


async def test_a_role_that_is_not_known_is_denied(postgres: PostgresServer) -> None:
    with pytest.raises(Denied, match="nobody"):
        await DatabaseClient.create(postgres.url().replace("postgres@", "nobody@"))


async def test_a_url_that_libpq_cannot_read_is_invalid() -> None:
    with pytest.raises(Invalid):
        await DatabaseClient.create("postgresql://host/db?no_such_option=hunter2")


async def test_a_broken_connection_is_replaced_before_it_is_used(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        await db.transaction(new_project("a"))
        assert await db.read(project_names) == ["a"]
        end_connections(url)
        await db.transaction(new_project("b"))
        assert await db.read(project_names) == ["a", "b"]


def end_connections(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"  # waits until they have ended
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


async def test_a_connection_that_breaks_inside_a_transaction_undoes_it(url: str) -> None:
    async with await DatabaseClient.create(url) as db:

        def loses_its_connection(tx: Transaction) -> None:
            new_project("a")(tx)
            end_connections(url)
            new_project("b")(tx)

        with pytest.raises(Unavailable):
            await db.transaction(loses_its_connection)
        assert await db.read(project_names) == []


async def test_a_connection_that_breaks_during_the_commit_leaves_the_outcome_open(url: str) -> None:
    async with await DatabaseClient.create(url) as db:

        def loses_its_connection(tx: Transaction) -> None:
            new_project("a")(tx)
            end_connections(url)

        with pytest.raises(Unavailable, match="is unknown"):
            await db.transaction(loses_its_connection)
        assert await db.ping()


async def test_a_broken_connection_is_replaced_before_the_next_group(url: str) -> None:
    async with await DatabaseClient.create(url) as db:
        goal = await begin(stored_in(db))
        end_connections(url)
        await goal.append(HELLO)
        assert await db.state_store().load("g") == goal.events


@pytest.mark.parametrize("changes", ["one goal", "a new goal too"])
async def test_a_connection_that_breaks_under_a_group_is_reported_to_all_and_nothing_is_retried(
    url: str, changes: str
) -> None:
    async with await DatabaseClient.create(url) as db:
        stored = stored_in(db)
        goal = await begin(stored)
        others = [begin(stored, "new")] if changes == "a new goal too" else []
        breaks = failpoints.armed("store.append.before", lambda: end_connections(url))
        with breaks:
            done = await asyncio.gather(goal.append(HELLO), *others, return_exceptions=True)
        assert [type(result) for result in done] == [Unavailable] * len(done)
        assert all("is unknown" in str(result) for result in done)
        assert await db.state_store().load("g") == goal.events
        await goal.append(HELLO)


async def test_a_renewal_is_not_flushed_and_everything_else_is(url: str) -> None:
    def level(raw: RawTransaction) -> object:
        return raw.first("SHOW synchronous_commit")

    database = (await DatabaseClient.create(url))._database
    assert await database.write_raw(level, flush=False) == ("off",)
    assert await database.write_raw(level) == ("on",)
    await database.close()


def stored_in(db: DatabaseClient) -> Stored:
    return Stored(db.state_store(), db.leases(boottime_s=lambda: 0.0, is_dead=lambda _worker_id: False), set())


async def test_a_deadlock_is_a_conflict(url: str) -> None:
    async with await DatabaseClient.create(url) as one, await DatabaseClient.create(url) as two:
        await one.transaction(new_project("a"))
        await one.transaction(new_project("b"))
        results = await _both_ways(one, two)
    assert [type(result) for result in results if result is not None] == [Conflict]


async def _both_ways(one: DatabaseClient, two: DatabaseClient) -> tuple[BaseException | None, ...]:
    meet = threading.Barrier(2)

    def touch(first: str, second: str) -> Callable[[Transaction], None]:
        def run(tx: Transaction) -> None:
            tx.execute("UPDATE projects SET updated_at = 2 WHERE id = :id", {"id": first})
            meet.wait(10)
            tx.execute("UPDATE projects SET updated_at = 3 WHERE id = :id", {"id": second})

        return run

    return await asyncio.gather(
        one.transaction(touch("a", "b")),
        two.transaction(touch("b", "a")),
        return_exceptions=True,
    )


async def test_commits_wait_for_the_disk_also_where_the_server_does_not(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database()); END $$"
        )
    async with await DatabaseClient.create(url) as db:
        assert await db.transaction(lambda tx: tx.scalar("SHOW synchronous_commit")) == "on"
        assert (await db.health()).facts["synchronous_commit"] == "on"


async def test_tables_live_in_the_schema_that_the_url_names(postgres: PostgresServer) -> None:
    url = postgres.new_database("own_schema")
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA mine")
    async with await DatabaseClient.create(f"{url}&options=-csearch_path%3Dmine") as db:
        assert "projects" in await db.tables()
        assert (await db.health()).facts["schema"] == "mine"
        assert await db.verify() == []
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone() == (0,)


def test_without_the_driver_the_message_says_what_to_install() -> None:
    program = (
        "import asyncio, sys\n"
        "sys.modules['psycopg'] = None\n"
        "from perdure import DatabaseClient, Unavailable\n"
        "try:\n"
        "    asyncio.run(DatabaseClient.create('postgresql://localhost/x'))\n"
        "except Unavailable as error:\n"
        "    print(error)\n"
    )
    assert "-m pip install 'psycopg[binary]" in python(program)
