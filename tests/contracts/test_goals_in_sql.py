"""What the two SQL stores promise beyond the ports: how goals lie in the tables, and what several processes see."""

import asyncio
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from perdure import Damaged
from perdure.kernel.events import SCHEMA_VERSION
from perdure.kernel.ports import GoalStore
from perdure.store.database import Database
from perdure.store.goals.postgres import PostgresStateStore
from perdure.store.goals.sqlite import SqliteStateStore
from perdure.store.postgres.database import PostgresDatabase
from perdure.store.sqlite.file_database import SqliteFileDatabase
from perdure.store.target import PostgresTarget, parse_target
from perdure.store.transaction import Transaction
from tests.contracts.histories import HELLO, Stored, begin, end

in_sql = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture
def database(stored: Stored) -> Database:
    assert stored.database is not None
    return stored.database


async def rows(database: Database, query: str) -> list[tuple[Any, ...]]:
    return await database.read(lambda tx: [tuple(row) for row in tx.execute(query)])


async def change(database: Database, *statements: str) -> None:
    """Change rows by hand, as somebody would who has switched off what keeps events as they are."""
    is_sqlite = isinstance(database, SqliteFileDatabase)
    switch = "DROP TRIGGER {}" if is_sqlite else "ALTER TABLE events DISABLE TRIGGER {}"
    restore = () if is_sqlite else ("ALTER TABLE events ENABLE TRIGGER ALL",)
    off = [switch.format(trigger) for trigger in ("events_are_never_changed", "events_go_with_their_goal")]

    def switch_off_and_change(tx: Transaction) -> None:
        for statement in (*off, *statements, *restore):
            tx.execute(statement)

    await database.write(switch_off_and_change)


@in_sql
async def test_ids_and_hashes_are_bytes_and_payloads_the_text_that_was_written(
    stored: Stored, database: Database
) -> None:
    goal = await begin(stored, text="grüße 🦀")
    (event,) = goal.events
    found = await rows(database, "SELECT id, hash, payload, type, v, key FROM events")
    assert found == [(UUID(event.id).bytes, event.hash, event.payload, "goal", SCHEMA_VERSION, None)]
    assert await rows(database, "SELECT last_seq, last_hash FROM goals") == [(1, event.hash)]


@in_sql
async def test_the_events_of_a_deleted_goal_are_gone_and_a_tombstone_stays(stored: Stored, database: Database) -> None:
    goal = await begin(stored, text="a secret")
    await stored.store.post("g", "signal", {}, key="k")
    await end(goal)
    await stored.store.delete("g")
    assert await rows(database, "SELECT * FROM events") == await rows(database, "SELECT * FROM inbox") == []
    assert await rows(database, "SELECT id, text, deleted_at IS NULL FROM goals") == [("g", "", False)]


@in_sql
async def test_a_damaged_payload_does_not_break_the_list(stored: Stored, database: Database) -> None:
    await begin(stored)
    await change(database, "UPDATE events SET payload = '{damaged'")
    assert [summary.goal_id for summary in await stored.store.list_goals()] == ["g"]
    assert [event.payload for event in await stored.store.load("g")] == ["{damaged"]


@in_sql
async def test_a_history_whose_tail_was_cut_or_changed_is_damaged(stored: Stored, database: Database) -> None:
    goal = await begin(stored, "cut", HELLO)
    await begin(stored, "changed", HELLO)
    await change(
        database,
        "DELETE FROM events WHERE seq = 2 AND goal_no = (SELECT goal_no FROM goals WHERE id = 'cut')",
        "UPDATE goals SET last_hash = (SELECT min(hash) FROM events WHERE seq = 1) WHERE id = 'changed'",
    )
    with pytest.raises(Damaged, match="Event 2 of cut is missing"):
        await stored.store.load("cut")
    with pytest.raises(Damaged, match="Event 2 of changed was changed"):
        await stored.store.load("changed")
    assert await stored.store.load("cut", after=2) == goal.events[2:]


@in_sql
async def test_of_two_processes_one_appends_and_one_claims(stored: Stored, place: Any) -> None:
    another = await opened(str(place))
    try:
        goal = await begin(stored)
        theirs = state_store_in(another)
        attempts = [stored, replace(stored, store=theirs)] * 4
        done = await asyncio.gather(
            *[replace(goal, stored=attempt).store(goal.next(HELLO)) for attempt in attempts], return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in done) == ["Appended", *["Conflict"] * 7]
        assert [event.seq for event in await theirs.load("g")] == [1, 2]
    finally:
        await another.close()


def state_store_in(database: Database) -> GoalStore:
    is_sqlite = isinstance(database, SqliteFileDatabase)
    return SqliteStateStore(database) if is_sqlite else PostgresStateStore(database)


async def opened(place: str) -> Database:
    target = parse_target(place)
    if isinstance(target, PostgresTarget):
        return await PostgresDatabase.open(target, migrate=False, debug=False)
    assert target.path is not None
    return await SqliteFileDatabase.open(target.path, migrate=False, debug=False)
