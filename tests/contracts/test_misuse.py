"""What a function in a transaction may not do, on every kind of database: it is told, and nothing counts."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, DatabaseClient, Invalid
from perdure.store.transaction import Transaction
from tests.rows import new_project, project_names


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[DatabaseClient]:
    async with await DatabaseClient.create(database_url) as client:
        yield client


async def test_a_refusal_that_was_swallowed_is_never_reported_as_done(db: DatabaseClient) -> None:
    def swallows(tx: Transaction) -> str:
        new_project("a")(tx)
        try:
            new_project("a")(tx)
        except Exception:  # noqa: BLE001 (what a careless caller does)
            return "done"
        return "not reached"

    try:
        said = await db.transaction(swallows)
    except Conflict:
        said = "refused"
    stored = await db.read(project_names)
    assert (said, stored) in (("done", ["a"]), ("refused", []))


async def test_a_transaction_that_ends_itself_is_reported(db: DatabaseClient) -> None:
    def ends_itself(tx: Transaction) -> None:
        new_project("a")(tx)
        tx.connection.rollback()

    with pytest.raises(Exception, match="transaction"):
        await db.transaction(ends_itself)
    assert await db.read(project_names) == []


@pytest.mark.parametrize("kind", ["coroutine", "generator"])
async def test_what_would_do_its_work_later_is_refused(db: DatabaseClient, kind: str) -> None:
    async def later() -> None: ...

    def generator(tx: Transaction) -> Iterator[None]:
        new_project("a")(tx)
        yield

    def lazy(tx: Transaction) -> Any:
        made = later() if kind == "coroutine" else generator(tx)
        if kind == "coroutine":
            asyncio.get_event_loop_policy()
            made.close()  # type: ignore[union-attr]
        return made

    with pytest.raises(TypeError, match="cannot return"):
        await db.transaction(lazy)
    assert await db.read(project_names) == []


async def test_rows_that_were_not_read_do_not_hold_the_state_that_they_saw(db: DatabaseClient) -> None:
    await db.transaction(new_project("a"))
    kept = [await db.read(lambda tx: tx.execute("SELECT * FROM projects")) for _ in range(8)]
    await db.transaction(new_project("b"))
    assert [await db.read(project_names) for _ in range(8)] == [["a", "b"]] * 8
    assert len(kept) == 8


async def test_a_function_that_runs_out_of_items_does_not_hang(db: DatabaseClient) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await db.read(lambda tx: next(iter(tx.execute("SELECT 1 WHERE 1 = 0").all())))


async def test_a_transaction_in_a_transaction_is_reported_instead_of_waiting_for_ever(db: DatabaseClient) -> None:
    with pytest.raises(RuntimeError, match="cannot wait"):
        await db.transaction(lambda _tx: asyncio.run(db.transaction(new_project("a"))))
    with pytest.raises(RuntimeError, match="cannot wait"):
        await db.transaction(lambda _tx: asyncio.run(db.health()))
    assert await db.ping()


async def test_many_new_databases_may_be_made_at_once(tmp_path: Path) -> None:
    """Alembic keeps what it works on in globals; two migrations at once would mix."""
    clients = await asyncio.gather(*[DatabaseClient.create(tmp_path / f"{i}.db") for i in range(6)])
    memories = await asyncio.gather(*[DatabaseClient.create(":memory:") for _ in range(4)])
    for client in (*clients, *memories):
        assert await client.verify() == []
        assert (await client.health()).version == (await client.health()).head
        await client.close()


async def test_a_creation_that_was_cancelled_can_be_repeated_at_once(tmp_path: Path) -> None:
    path = tmp_path / "perdure.db"
    for delay in (0.0, 0.001, 0.005, 0.01, 0.05):
        creation = asyncio.ensure_future(DatabaseClient.create(path))
        await asyncio.wait([creation], timeout=delay)
        creation.cancel()
        await asyncio.gather(creation, return_exceptions=True)
    async with await DatabaseClient.create(path) as db:
        assert await db.verify() == []


async def test_a_client_may_be_closed_from_another_loop(tmp_path: Path) -> None:
    client = await DatabaseClient.create(tmp_path / "perdure.db")
    await asyncio.gather(client.close(), asyncio.to_thread(lambda: asyncio.run(client.close())))
    assert not await client.ping()


async def test_a_nul_in_a_text_is_refused_by_postgresql_in_our_words(postgres: Any) -> None:
    async with await DatabaseClient.create(postgres.new_database("nul")) as db:
        with pytest.raises(Invalid):
            await db.transaction(new_project("a\0b"))
