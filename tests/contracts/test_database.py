"""The contract of `DatabaseClient` and of the `Database` port behind it, on every kind of database."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from perdure import Conflict, DatabaseClient, Denied, Invalid, Unavailable
from perdure.store.migrations import CHAIN
from perdure.store.transaction import Transaction
from tests.rows import new_project, project_names
from tests.sql import insert


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    match kind:
        case "sqlite":
            return str(tmp_path / "perdure.db")
        case "memory":
            return ":memory:"
        case _:
            return str(request.getfixturevalue("own_postgresql"))


@pytest.fixture
async def db(url: str) -> AsyncIterator[DatabaseClient]:
    async with await DatabaseClient.create(url) as client:
        yield client


async def test_what_a_transaction_wrote_is_read_afterwards(db: DatabaseClient) -> None:
    assert await db.transaction(new_project("a")) == "a"
    assert await db.read(project_names) == ["a"]


async def test_an_error_in_the_function_undoes_all_of_it_and_passes_through(db: DatabaseClient) -> None:
    class MyError(Exception):
        pass

    def fails(tx: Transaction) -> None:
        new_project("a")(tx)
        raise MyError

    with pytest.raises(MyError):
        await db.transaction(fails)
    assert await db.read(project_names) == []


async def test_a_nested_block_is_undone_alone(db: DatabaseClient) -> None:
    def outer(tx: Transaction) -> None:
        new_project("kept")(tx)
        with pytest.raises(ZeroDivisionError), tx.nested():
            new_project("undone")(tx)
            _ = 1 // 0
        with tx.nested():
            new_project("kept too")(tx)

    await db.transaction(outer)
    assert await db.read(project_names) == ["kept", "kept too"]


async def test_a_refused_statement_in_a_nested_block_leaves_the_transaction_usable(db: DatabaseClient) -> None:
    def outer(tx: Transaction) -> None:
        new_project("a")(tx)
        with pytest.raises(Exception, match="(?i)unique|duplicate"), tx.nested():
            new_project("a")(tx)
        new_project("b")(tx)

    await db.transaction(outer)
    assert await db.read(project_names) == ["a", "b"]


async def test_writes_happen_in_the_order_they_were_asked_for(db: DatabaseClient) -> None:
    order: list[int] = []

    def note(i: int) -> Callable[[Transaction], None]:
        return lambda _tx: order.append(i)

    await asyncio.gather(*[db.transaction(note(i)) for i in range(100)])
    assert order == list(range(100))


async def test_a_coroutine_function_is_refused_because_nothing_may_await_in_a_transaction(db: DatabaseClient) -> None:
    async def wrong(_tx: Transaction) -> None:
        pass

    with pytest.raises(TypeError, match="plain function"):
        await db.transaction(wrong)  # type: ignore[unused-coroutine]
    with pytest.raises(TypeError, match="plain function"):
        await db.read(wrong)  # type: ignore[unused-coroutine]


async def test_reading_cannot_write(db: DatabaseClient) -> None:
    with pytest.raises(Denied):
        await db.read(new_project("a"))
    await db.transaction(new_project("b"))
    assert await db.read(project_names) == ["b"]


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        (insert("projects", {"id": "a"}), Invalid),
        ("UPDATE projects SET mode = 'wrong' WHERE id = :id", Invalid),
        ("INSERT INTO projects SELECT * FROM projects WHERE id = :id", Conflict),
        (
            "INSERT INTO features (id, project_id, name, created_at, updated_at) VALUES (:id, 'none', 'f', 1, 1)",
            Conflict,
        ),
    ],
    ids=["not null", "check", "unique", "foreign key"],
)
async def test_a_broken_rule_is_reported_in_our_words(
    db: DatabaseClient, statement: str, error: type[Exception]
) -> None:
    await db.transaction(new_project("a"))
    with pytest.raises(error):
        await db.transaction(lambda tx: tx.execute(statement, {"id": "a"}))
    assert await db.read(project_names) == ["a"]


async def test_tables_are_sorted_and_without_bookkeeping(db: DatabaseClient) -> None:
    tables = await db.tables()
    assert tables == sorted(tables)
    assert "alembic_version" not in tables
    assert {"projects", "features", "sub_features", "tasks", "agents"} < set(tables)
    assert {"checkpoints", "requirements", "metrics", "sessions"} < set(tables)


async def test_rows_are_counted(db: DatabaseClient) -> None:
    await db.transaction(new_project("a"))
    counts = await db.count_rows()
    assert counts["projects"] == 1
    assert counts["tasks"] == 0


async def test_without_migrating_there_are_no_tables(kind: str, url: str, request: pytest.FixtureRequest) -> None:
    if kind == "postgresql":
        url = request.getfixturevalue("postgres").new_database("not_migrated")
    async with await DatabaseClient.create(url, migrate=False) as client:
        assert await client.tables() == []
        assert (await client.health()).version == 0


async def test_health_tells_version_and_location_without_a_secret(db: DatabaseClient, url: str) -> None:
    health = await db.health()
    assert health.version == health.head == CHAIN.head
    assert health.location == url
    assert health.facts["size_bytes"]


async def test_a_new_database_verifies(db: DatabaseClient) -> None:
    assert await db.verify() == []


async def test_verify_names_what_is_missing(db: DatabaseClient) -> None:
    def sabotage(tx: Transaction) -> None:
        tx.execute("DROP INDEX idx_tasks_status")
        tx.execute("DROP VIEW task_list")
        tx.execute("DROP TABLE builder_memory")

    await db.transaction(sabotage)
    assert await db.verify() == [
        "the view task_list is missing",
        "the table builder_memory is missing",
        "the index idx_tasks_status is missing",
    ]


async def test_an_older_schema_is_not_damage(url: str) -> None:
    async with await DatabaseClient.create(url, migrate=False) as client:
        assert await client.verify() == []


async def test_ping_is_true_while_open_and_false_afterwards(db: DatabaseClient) -> None:
    assert await db.ping()
    await db.close()
    assert not await db.ping()


async def test_close_may_be_called_by_anyone_at_any_time(db: DatabaseClient) -> None:
    await asyncio.gather(db.close(), db.close(), db.close())
    await db.close()


async def test_what_was_asked_for_before_close_is_done(url: str) -> None:
    db = await DatabaseClient.create(url)
    waiting = [asyncio.ensure_future(db.transaction(new_project(str(i)))) for i in range(20)]
    await asyncio.sleep(0)
    await db.close()
    assert await asyncio.gather(*waiting) == [str(i) for i in range(20)]


async def test_a_closed_client_says_so(db: DatabaseClient, tmp_path: Path) -> None:
    await db.close()
    for call in (db.transaction(project_names), db.read(project_names), db.health(), db.verify(), db.tables()):
        with pytest.raises(Unavailable, match="closed"):
            await call
    with pytest.raises(Unavailable, match="closed"):
        await db.backup(tmp_path / "backup")


async def test_a_cancelled_wait_leaves_the_client_usable(db: DatabaseClient) -> None:
    begun, resume_run = threading.Event(), threading.Event()

    def slow(_tx: Transaction) -> None:
        begun.set()
        resume_run.wait(10)

    task = asyncio.ensure_future(db.transaction(slow))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    resume_run.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    await db.transaction(new_project("a"))
    assert await db.read(project_names) == ["a"]


async def test_debug_logs_statements_without_their_values(url: str, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("perdure").propagate = True
    async with await DatabaseClient.create(url, debug=True) as client:
        with caplog.at_level(logging.INFO, logger="perdure.store.sql"):
            await client.transaction(new_project("a secret name"))
            await client.read(project_names)
    assert "INSERT INTO projects" in caplog.text
    assert "SELECT name FROM projects" in caplog.text
    assert "a secret name" not in caplog.text


async def test_a_backup_refuses_to_replace_a_file(db: DatabaseClient, tmp_path: Path) -> None:
    target = tmp_path / "backup"
    target.write_text("mine")
    with pytest.raises(Conflict):
        await db.backup(target)
    assert target.read_text() == "mine"
    assert [path.name for path in tmp_path.glob(".backup*")] == []
