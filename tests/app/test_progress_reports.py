"""Progress beside the events of a goal: it comes in order, and a slow client costs a bounded amount of memory."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from perdure import NotFound
from perdure.app.change_feed.feed import ChangeFeed
from perdure.app.change_feed.following import follow_updates
from perdure.app.change_feed.progress import MAX_BYTES, PendingProgress, ProgressReport, Update
from perdure.kernel.calls.progress import CallProgress
from perdure.kernel.events import Event, GoalBegun, MindSpec
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.app.feeds import DEADLINE_S, until
from tests.contracts.histories import HELLO, History, Stored, begin, end


@pytest.fixture
async def goal() -> History:
    """A goal with three events."""
    store = InMemoryStateStore()
    return await begin(Stored(store, store, set()), "g", HELLO, HELLO)


@pytest.fixture
async def feed(goal: History) -> AsyncIterator[ChangeFeed]:
    feed = ChangeFeed(goal.stored.store, goal.stored.store, fallback_s=3600)
    yield feed
    await feed.close()


def said(update: Update) -> int | str:
    if isinstance(update, Event):
        return update.seq
    assert isinstance(update, ProgressReport)
    return f"{update.call_id}: {update.text}"


def reported(call_id: str, value: Any) -> CallProgress:
    return CallProgress("g", call_id, value)


async def waits(feed: ChangeFeed) -> None:
    """Wait until the follower has read all events."""
    await until(lambda: bool(feed._of_goal.get("g")) and all(each._has_changes._waiters for each in feed._of_goal["g"]))


async def test_a_report_comes_between_the_events_before_and_after_it(goal: History, feed: ChangeFeed) -> None:
    async with asyncio.timeout(DEADLINE_S), aclosing(follow_updates(feed, "g", 0)) as updates:
        assert [said(each) for each in await anext(updates)] == [1, 2, 3]
        more = asyncio.ensure_future(anext(updates))
        await waits(feed)
        feed.report(reported("a.1", 10))
        assert [said(each) for each in await more] == ["a.1: 10"]
        feed.report(reported("a.1", {"done": 20}))
        await goal.append(HELLO)
        feed.report(reported("b.1", "half"))
        await goal.append(HELLO)
        await asyncio.sleep(0)  # what was signalled is taken by the feed
        assert [said(each) for each in await anext(updates)] == ['a.1: {"done":20}', 4, "b.1: half", 5]
        await end(goal)
        assert [said(each) for page in [page async for page in updates] for each in page] == [6]


async def test_a_follower_that_does_not_read_gets_the_newest_report_of_each_call(feed: ChangeFeed) -> None:
    async with asyncio.timeout(DEADLINE_S), aclosing(follow_updates(feed, "g", 3)) as updates:
        first = asyncio.ensure_future(anext(updates))
        await waits(feed)
        for percent in range(1000):
            feed.report(reported("a.1", percent))
            feed.report(reported("b.1", -percent))
        assert [said(each) for each in await first] == ["a.1: 999", "b.1: -999"]


async def test_progress_of_a_goal_that_is_not_followed_is_dropped(feed: ChangeFeed) -> None:
    async with feed.subscribe("g") as changes:  # it wants no progress
        feed.report(reported("a.1", 1))
        await asyncio.sleep(0)
        assert not changes.progress
    async with asyncio.timeout(DEADLINE_S), aclosing(follow_updates(feed, "g", 3)) as updates:
        coming = asyncio.ensure_future(anext(updates))
        await waits(feed)
        feed.report(CallProgress("another", "a.1", 2))
        feed.report(reported("a.1", 3))
        assert [said(each) for each in await coming] == ["a.1: 3"]


async def test_a_follower_that_gets_progress_all_the_time_learns_that_its_goal_was_deleted(
    goal: History, feed: ChangeFeed
) -> None:
    async with asyncio.timeout(DEADLINE_S), aclosing(follow_updates(feed, "g", 3)) as updates:
        coming = asyncio.ensure_future(anext(updates))
        await waits(feed)
        await goal.stored.store.delete("g", even_unfinished=True)
        feed.report(reported("a.1", 1))
        with pytest.raises(NotFound):
            for percent in range(10):
                await coming
                feed.report(reported("a.1", percent))
                coming = asyncio.ensure_future(anext(updates))


def test_what_waits_for_a_follower_that_reads_nothing_is_bounded() -> None:
    pending, text = PendingProgress(), "x" * 60_000
    for number in range(100):
        pending.put(ProgressReport(f"call-{number}", text, 1))
    taken = pending.take()
    assert [each.call_id for each in taken] == [f"call-{number}" for number in range(96, 100)]
    assert sum(len(each.text) for each in taken) <= MAX_BYTES
    assert not pending
    assert not pending.take()


def test_reports_that_are_taken_make_room_for_others() -> None:
    pending = PendingProgress()
    for turn in range(10):
        pending.put(ProgressReport("a.1", "x" * MAX_BYTES, turn))
        pending.put(ProgressReport("a.1", "y" * MAX_BYTES, turn))
        (report,) = pending.take() if turn % 2 else reports_among(pending, [])
        assert report.text[0] == "y"


def reports_among(pending: PendingProgress, page: Sequence[Event]) -> Sequence[ProgressReport]:
    """Take what waits by way of a page that ends behind it."""
    found = [each for each in pending.among([*page, *_events(20)]) if isinstance(each, ProgressReport)]
    assert not pending
    return found


def _events(count: int) -> Sequence[Event]:
    store = InMemoryStateStore()
    goal = History(Stored(store, store, set()), "g")
    return goal.next(GoalBegun("echo", MindSpec("command")), *[HELLO] * (count - 1))
