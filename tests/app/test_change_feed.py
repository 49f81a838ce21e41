"""The change feed: every change is told once, whoever made it; followers share what is read, and nothing is left."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure import NotFound, Unavailable
from perdure.app.change_feed.feed import ChangeFeed
from perdure.app.change_feed.following import follow_pages
from perdure.app.change_feed.subscription import MAX_PENDING
from perdure.kernel.events import Event
from perdure.kernel.ports import ChangedGoals, ChangeListener
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.app.feeds import DEADLINE_S, NEVER_S, append_in_child, hears, opened, until, watching_threads
from tests.children import run
from tests.contracts.histories import HELLO, Stored, begin, end
from tests.contracts.test_changes import Writer

FOLLOWERS = 50
LOADS = "FROM events WHERE goal_no"


def loads(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The statements that have read the events of a goal."""
    return [text for record in caplog.records if LOADS in (text := record.getMessage()) and "payload, hash" in text]


async def test_a_change_of_another_process_is_notified_without_polling(own_url: str) -> None:
    async with opened(own_url) as at, at.feed.subscribe() as changes:
        await asyncio.to_thread(run, append_in_child, own_url, "elsewhere")
        await hears(changes, "elsewhere")


async def test_two_processes_that_write_at_once_are_both_heard(own_url: str) -> None:
    async with opened(own_url) as at, at.feed.subscribe() as changes:
        here = [begin(at.beside, f"here-{n}", HELLO) for n in range(10)]
        child = asyncio.to_thread(run, append_in_child, own_url, "elsewhere")
        await asyncio.gather(child, *here)
        await hears(changes, "elsewhere", *(f"here-{n}" for n in range(10)))


class Unsignalled(InMemoryStateStore):
    """A store whose signals are all lost."""

    def watch(self, listener: ChangeListener) -> Callable[[], None]:
        super().watch(listener)()
        return lambda: None


async def test_a_change_is_found_by_polling_when_no_signal_comes() -> None:
    store = Unsignalled()
    feed = ChangeFeed(store, store, fallback_s=0.01)
    async with feed.subscribe() as changes:
        await begin(Stored(store, store, set()), "a")
        await hears(changes, "a")
    await feed.close()


class Away(Unsignalled):
    """A store without signals, which cannot be read at times."""

    is_away = False

    async def changes(self, after: Any | None) -> ChangedGoals:
        if self.is_away:
            raise Unavailable("The database is away.")
        return await super().changes(after)


async def test_nothing_is_missed_while_the_store_cannot_be_read() -> None:
    store = Away()
    stored, feed = Stored(store, store, set()), ChangeFeed(store, store, fallback_s=0.01)
    async with feed.subscribe() as changes:
        store.is_away = True
        await begin(stored, "a")
        await until(lambda: feed.failure is not None)
        store.is_away = False
        await hears(changes, "a")
        assert (feed.failure, changes.has_missed) == (None, False)
    await feed.close()


async def test_a_subscription_that_begins_while_the_store_is_away_is_notified_that_it_has_missed_changes() -> None:
    store = Away()
    store.is_away = True
    feed = ChangeFeed(store, store, fallback_s=0.01)
    async with feed.subscribe() as changes:
        store.is_away = False
        await until(lambda: changes.has_missed)
        await begin(Stored(store, store, set()), "a")
        await hears(changes, "a")
    await feed.close()


async def test_followers_end_when_the_store_cannot_be_read_any_more() -> None:
    store = Away()
    feed = ChangeFeed(store, store, fallback_s=0.01)
    await begin(Stored(store, store, set()), "g")
    following = follow_pages(feed, "g", 1)
    waiting = asyncio.ensure_future(anext(following))
    await until(lambda: waiting_for(feed, "g") == 1)
    store.is_away = True
    assert await asyncio.wait_for(waiting, DEADLINE_S) == ()
    with pytest.raises(Unavailable, match="away"):
        await anext(following)
    await feed.close()


async def test_an_event_that_is_committed_after_higher_numbers_is_reported(own_postgresql: str) -> None:
    async with (
        opened(own_postgresql) as at,
        Writer.open(at.beside, own_postgresql) as writer,
        at.feed.subscribe() as changes,
    ):
        async with writer.before_commit("late"):
            await at.begin_beside("early", 300)
            await hears(changes, "early")
        await hears(changes, "late")


async def test_followers_at_one_position_cost_one_read_for_a_change(
    own_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(own_url, debug=True) as at:
        goal = await at.begin_beside("g", 2)
        followers = [follow_pages(at.feed, "g", 3) for _ in range(FOLLOWERS)]
        pages = asyncio.gather(*(anext(each) for each in followers))
        await until(lambda: waiting_for(at.feed, "g") == FOLLOWERS)
        with caplog.at_level(logging.INFO, logger="perdure.store.sql"):
            await goal.append(HELLO)
            read = await asyncio.wait_for(pages, DEADLINE_S)
        assert [[event.seq for event in page] for page in read] == [[4]] * FOLLOWERS
        assert len(loads(caplog)) == 1
        await close_all(followers)


async def test_events_of_this_process_are_given_to_followers_without_a_read(
    own_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(own_url, debug=True) as at:
        goal = await begin(Stored(at.store, at.beside.leases, set()), "g")
        followers = [follow_pages(at.feed, "g", 1) for _ in range(FOLLOWERS)]
        pages = asyncio.gather(*(anext(each) for each in followers))
        await until(lambda: waiting_for(at.feed, "g") == FOLLOWERS)
        with caplog.at_level(logging.INFO, logger="perdure.store.sql"):
            await goal.append(HELLO, HELLO)
            read = await asyncio.wait_for(pages, DEADLINE_S)
        assert [[event.seq for event in page] for page in read] == [[2, 3]] * FOLLOWERS
        assert loads(caplog) == []
        await close_all(followers)


def waiting_for(feed: ChangeFeed, goal_id: str) -> int:
    """Count the followers of a goal that have read all and wait."""
    return sum(len(each._has_changes._waiters) for each in feed._of_goal.get(goal_id, ()))


async def close_all(followers: Sequence[AsyncGenerator[Sequence[Event], None]]) -> None:
    for each in followers:
        await each.aclose()


async def test_followers_read_everything_once_and_in_order_wherever_they_begin(own_url: str) -> None:
    async with opened(own_url) as at:
        here = Stored(at.store, at.beside.leases, set())
        goal = await begin(here, "g", *[HELLO] * 20)
        starts = (0, 1, 10, 21)
        seen = [asyncio.create_task(seqs(at.feed, after)) for after in starts]
        for turn in range(30):
            goal.stored = here if turn % 2 else at.beside
            await goal.append(*[HELLO] * (turn % 3 + 1))
        await end(goal)
        last = len(goal.events)
        assert await asyncio.gather(*seen) == [list(range(after + 1, last + 1)) for after in starts]


async def seqs(feed: ChangeFeed, after: int) -> list[int]:
    async with asyncio.timeout(DEADLINE_S), aclosing(follow_pages(feed, "g", after)) as pages:
        return [event.seq async for page in pages for event in page]


async def test_without_a_subscriber_nothing_watches_or_polls(own_url: str) -> None:
    async with opened(own_url, fallback_s=0.01) as at:
        assert (watching_threads(), at.feed._reading) == ([], None)
        for _ in range(3):
            async with at.feed.subscribe("g"):
                assert len(watching_threads()) >= 1
            assert at.feed._reading is None
        await until(lambda: watching_threads() == [])


async def test_a_feed_that_is_closed_leaves_no_task_and_no_thread(own_url: str) -> None:
    tasks = asyncio.all_tasks()
    async with opened(own_url) as at, at.feed.subscribe() as changes:
        waiting = asyncio.create_task(changes.wait(NEVER_S))
        await at.begin_beside("g")
        await at.feed.close()
        with pytest.raises(Unavailable, match="closed"):
            while True:
                await waiting
                waiting = asyncio.create_task(changes.wait(NEVER_S))
        with pytest.raises(Unavailable, match="closed"):
            async with at.feed.subscribe():
                pass
    assert asyncio.all_tasks() == tasks
    assert watching_threads() == []


async def test_a_connection_that_listens_and_is_ended_is_replaced_and_nothing_is_missed(own_postgresql: str) -> None:
    async with opened(own_postgresql) as at, at.feed.subscribe() as changes:
        await at.begin_beside("before")
        await hears(changes, "before")
        assert end_listeners(own_postgresql) == 1
        await at.begin_beside("meanwhile")
        await hears(changes, "meanwhile")
        await until(lambda: count_listeners(own_postgresql) == 1)
        await at.begin_beside("after")
        await hears(changes, "after")


_LISTENING = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"


def end_listeners(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        return len(connection.execute(f"SELECT pg_terminate_backend(pid, 10000) {_LISTENING}".encode()).fetchall())


def count_listeners(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(f"SELECT count(*) {_LISTENING}".encode()).fetchone()
        return int(row[0]) if row else 0


@pytest.mark.parametrize("backend", ["sqlite"])
async def test_subscribers_of_a_file_that_was_replaced_learn_that_they_have_missed_changes(
    own_url: str, tmp_path: Path
) -> None:
    async with opened(own_url) as at, at.feed.subscribe() as changes:
        await at.begin_beside("a")
        await hears(changes, "a")
        copy, place = tmp_path / "restored.db", Path(own_url)
        copy.write_bytes(place.read_bytes())  # without its log, so without goals
        for side in ("-wal", "-shm"):
            place.with_name(place.name + side).unlink()
        copy.replace(place)
        await until(lambda: changes.has_missed)
        await at.begin_beside("b")
        await hears(changes, "b")


async def test_a_subscriber_that_does_not_read_is_notified_that_it_has_missed_changes() -> None:
    store = InMemoryStateStore()
    feed = ChangeFeed(store, store)
    async with feed.subscribe() as changes:
        for number in range(MAX_PENDING + 1):
            feed._notify(f"goal-{number}", 1)
        assert changes.has_missed
        assert len(await changes.wait(0)) == MAX_PENDING
    await feed.close()


async def test_a_goal_that_is_deleted_here_ends_its_followers(own_url: str) -> None:
    async with opened(own_url) as at:
        await begin(Stored(at.store, at.beside.leases, set()), "g")
        following = follow_pages(at.feed, "g", 1)
        waiting = asyncio.ensure_future(anext(following))
        await until(lambda: waiting_for(at.feed, "g") == 1)
        await at.store.delete("g", even_unfinished=True)
        assert await asyncio.wait_for(waiting, DEADLINE_S) == ()
        with pytest.raises(NotFound):
            await anext(following)
