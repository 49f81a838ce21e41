"""The contract of `Changes`: the same in memory, on SQLite and on PostgreSQL."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import psycopg
import pytest

from perdure.kernel.events import Event
from perdure.store.database import Database
from perdure.store.goals.postgres import PostgresStateStore
from perdure.store.postgres.database import PostgresDatabase
from perdure.store.raw import RawDatabase, RawTransaction
from perdure.store.target import PostgresTarget, parse_target
from tests.contracts.conftest import in_sqlite
from tests.contracts.histories import HELLO, Stored, begin, end, said


async def test_changes_name_the_goals_that_have_got_events_and_their_last_seq(stored: Stored) -> None:
    first = await begin(stored, "a")
    begun = await stored.store.changes(None)
    assert begun.goals == {}
    assert (await stored.store.changes(begun.mark)).goals == {}
    await first.append(HELLO, HELLO)
    await begin(stored, "b")
    found = await stored.store.changes(begun.mark)
    assert found.goals == {"a": 3, "b": 1}
    assert found.mark > begun.mark
    assert (await stored.store.changes(found.mark)).mark == found.mark


async def test_each_change_is_returned_by_the_first_call_after_it_and_by_no_later_one(stored: Stored) -> None:
    goals = [await begin(stored, name) for name in "abc"]
    mark = (await stored.store.changes(None)).mark
    for turn, goal in enumerate((*goals, *goals[:2]), 1):
        await goal.append(HELLO)
        found = await stored.store.changes(mark)
        assert found.goals == {goal.goal_id: len(goal.events)}, turn
        assert not found.is_reset
        mark = found.mark


async def test_a_call_that_is_repeated_with_an_older_mark_returns_the_same_again(stored: Stored) -> None:
    mark = (await stored.store.changes(None)).mark
    await begin(stored, "a", HELLO)
    assert (await stored.store.changes(mark)).goals == (await stored.store.changes(mark)).goals == {"a": 2}


async def test_a_deleted_goal_is_not_returned_and_the_changes_of_others_are(stored: Stored) -> None:
    first, second = await begin(stored, "a"), await begin(stored, "b")
    await end(first)
    await second.append(HELLO)
    mark = (await stored.store.changes(None)).mark
    await stored.store.delete("a")
    await second.append(HELLO)
    found = await stored.store.changes(mark)
    assert (found.goals, found.is_reset) == ({"b": 3}, False)


class HeldDatabase:
    """A database whose appends wait between their statements and their commit until they are let through."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.has_inserted, self.may_commit = threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    async def submit(self, item_writer: Any, item: Any, *, expects_no_other: bool = False) -> Any:  # noqa: ARG002 (as RawDatabase)
        def held(raw: RawTransaction) -> Any:
            (answer,) = item_writer.apply(raw, [item])
            self.has_inserted.set()
            assert self.may_commit.wait(30)
            return answer

        return await self._database.write_raw(held)


@dataclass
class Writer:
    """A second process that writes the same PostgreSQL database, and commits when the test says so."""

    stored: Stored
    held: HeldDatabase

    @classmethod
    @asynccontextmanager
    async def open(cls, stored: Stored, url: str) -> AsyncIterator["Writer"]:
        target = parse_target(url)
        assert isinstance(target, PostgresTarget)
        database = await PostgresDatabase.open(target, migrate=False, debug=False)
        held = HeldDatabase(database)
        store = PostgresStateStore(cast("RawDatabase", held))
        try:
            yield cls(replace(stored, store=store), held)
        finally:
            held.may_commit.set()
            await database.close()

    @asynccontextmanager
    async def before_commit(self, goal_id: str) -> AsyncIterator[None]:
        """Begin a goal, and run the block while its events have their numbers and are not committed."""
        appending = asyncio.create_task(begin(self.stored, goal_id, HELLO))
        assert await asyncio.to_thread(self.held.has_inserted.wait, 30)
        try:
            yield
        finally:
            self.held.may_commit.set()
            await appending
            self.held.has_inserted.clear()
            self.held.may_commit.clear()


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
class TestLateNumbers:
    """On PostgreSQL, an event may be committed after others with higher numbers; elsewhere that cannot be."""

    @pytest.mark.parametrize("count", [1, 300, 2_000])
    async def test_a_lower_number_that_is_committed_after_higher_ones_is_returned(
        self, stored: Stored, goals_url: str, count: int
    ) -> None:
        async with Writer.open(stored, goals_url) as writer:
            mark = (await stored.store.changes(None)).mark
            async with writer.before_commit("late"):
                await begin(stored, "early", *[HELLO] * count)
                found = await stored.store.changes(mark)
                assert found.goals == {"early": count + 1}
            late = await stored.store.changes(found.mark)
            assert late.goals == {"late": 2}
            assert (await stored.store.changes(late.mark)).goals == {}

    async def test_a_transaction_that_ran_before_the_first_mark_is_returned(
        self, stored: Stored, goals_url: str
    ) -> None:
        await begin(stored, "before")
        async with Writer.open(stored, goals_url) as writer, writer.before_commit("late"):
            await begin(stored, "early", *[HELLO] * 300)
            mark = (await stored.store.changes(None)).mark
        assert (await stored.store.changes(mark)).goals == {"late": 2}

    async def test_a_transaction_that_is_seen_running_for_many_calls_is_returned_once_when_it_ends(
        self, stored: Stored, goals_url: str
    ) -> None:
        mark = (await stored.store.changes(None)).mark
        async with Writer.open(stored, goals_url) as writer:
            async with writer.before_commit("late"):
                for number in range(5):
                    await begin(stored, f"early-{number}")
                    found = await stored.store.changes(mark)
                    assert found.goals == {f"early-{number}": 1}
                    mark = found.mark
            found = await stored.store.changes(mark)
            assert found.goals == {"late": 2}
            assert (await stored.store.changes(found.mark)).goals == {}

    async def test_a_transaction_of_another_program_that_keeps_running_changes_nothing(
        self, stored: Stored, goals_url: str
    ) -> None:
        mark = (await stored.store.changes(None)).mark
        with psycopg.connect(goals_url) as other:
            assert other.execute("SELECT txid_current()").fetchone()
            for number in range(3):
                await begin(stored, f"goal-{number}")
                found = await stored.store.changes(mark)
                assert found.goals == {f"goal-{number}": 1}
                mark = found.mark
        assert (await stored.store.changes(mark)).goals == {}


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_no_change_of_two_writers_of_one_file_is_left_out(stored: Stored, place: Path) -> None:
    mark, seen = (await stored.store.changes(None)).mark, dict[str, int]()
    async with in_sqlite(place) as beside:
        for number in range(20):
            both = (begin(stored, f"a-{number}", *[HELLO] * 20), begin(beside, f"b-{number}", *[HELLO] * 20))
            await asyncio.gather(*both)
            found = await stored.store.changes(mark)
            mark, seen = found.mark, seen | dict(found.goals)
    assert seen == {f"{name}-{number}": 21 for name in "ab" for number in range(20)}


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
async def test_a_file_that_was_replaced_by_an_earlier_state_is_a_reset(
    stored: Stored, place: Path, tmp_path: Path
) -> None:
    goal = await begin(stored, "a")
    assert stored.database is not None
    await stored.database.backup(tmp_path / "earlier.db")
    await goal.append(HELLO)
    mark = (await stored.store.changes(None)).mark
    for side in ("-wal", "-shm"):
        place.with_name(place.name + side).unlink()
    (tmp_path / "earlier.db").replace(place)
    await begin(stored, "b", *[HELLO] * 5)
    found = await stored.store.changes(mark)
    assert (found.goals, found.is_reset) == ({}, True)
    await begin(stored, "c")
    assert (await stored.store.changes(found.mark)).goals == {"c": 1}


async def test_listeners_hear_of_what_this_store_appends_and_deletes(stored: Stored) -> None:
    heard: list[tuple[str, list[int]]] = []

    def listen(goal_id: str | None, events: Sequence[Event]) -> None:
        if goal_id is not None:
            heard.append((goal_id, said(events)))

    stop = stored.store.watch(listen)
    goal = await begin(stored, "a", HELLO)
    await end(goal)
    await stored.store.delete("a")
    stop()
    await begin(stored, "b")
    assert heard == [("a", [1, 2]), ("a", [3]), ("a", [])]
