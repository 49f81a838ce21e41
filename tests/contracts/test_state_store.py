"""The contract of `StateStore`: the same in memory, on SQLite and on PostgreSQL."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from perdure import Conflict, Invalid, NotFound, PerdureError
from perdure.kernel.events import (
    ForkedFrom,
    GoalBegun,
    Message,
    MindSpec,
    Termination,
    Wait,
    size_of,
)
from perdure.kernel.ports import Appended, GoalFilter
from perdure.text.moments import iso
from tests.contracts.histories import HELLO, NOW, OTHER, WORKER, History, Stored, begin, end, said


async def test_what_was_appended_is_loaded_as_it_was(stored: Stored) -> None:
    goal = await begin(stored, "g", Message('ünï "\\u0000" 🦀\n'), text="grüße")
    await goal.append(HELLO, HELLO)
    assert await stored.store.load("g") == goal.events
    assert said(goal.events) == [1, 2, 3, 4]
    assert await stored.store.load("g", after=2) == goal.events[2:]
    assert await stored.store.load("g", after=4) == []
    assert await stored.store.load("g", upto=1) == goal.events[:1]
    assert await stored.store.load("g", after=1, upto=3) == goal.events[1:3]
    assert await stored.store.load("g", upto=9) == goal.events


async def test_events_are_ordered_by_seq_even_if_the_clock_goes_backwards(stored: Stored) -> None:
    goal = await begin(stored)
    for moment in (NOW + 5, NOW - 5, NOW):
        await goal.append(HELLO, timestamp_us=moment)
    loaded = await stored.store.load("g")
    assert said(loaded) == [1, 2, 3, 4]
    assert [event.timestamp_us for event in loaded] == [NOW, NOW + 5, NOW - 5, NOW]


async def test_an_append_says_where_the_goal_is(stored: Stored) -> None:
    goal = await begin(stored)
    assert await goal.append(HELLO, HELLO) == Appended(3, inbox_waiting=False)


async def test_an_append_at_another_seq_is_a_conflict(stored: Stored) -> None:
    goal = await begin(stored)
    late = goal.next(HELLO)
    await goal.append(HELLO)
    with pytest.raises(Conflict, match="is at event 2"):
        await goal.store(late, expected_seq=1, summary=goal.summary(()))
    assert await stored.store.load("g") == goal.events


async def test_events_that_leave_a_gap_are_a_conflict(stored: Stored) -> None:
    goal = await begin(stored)
    with pytest.raises(Conflict, match="gap"):
        await goal.store(goal.next(HELLO, HELLO)[1:], summary=goal.summary(()))
    assert await stored.store.load("g") == goal.events


async def test_events_of_another_goal_are_refused(stored: Stored) -> None:
    goal, other = await begin(stored), await begin(stored, "other")
    with pytest.raises(Invalid, match="another goal"):
        await goal.store(other.next(HELLO), summary=goal.summary(()))


async def test_an_append_of_another_epoch_is_a_conflict(stored: Stored) -> None:
    goal = await begin(stored)
    with pytest.raises(Conflict, match="another owner"):
        await goal.append(HELLO, epoch=2)
    assert await stored.store.load("g") == goal.events


async def test_of_two_appends_at_once_one_is_stored(stored: Stored) -> None:
    goal = await begin(stored)
    attempts = [goal.store(goal.next(HELLO)) for _ in range(8)]
    done = await asyncio.gather(*attempts, return_exceptions=True)
    assert sorted(type(result).__name__ for result in done) == ["Appended", *["Conflict"] * 7]
    assert said(await stored.store.load("g")) == [1, 2]


async def test_the_same_key_with_the_same_events_has_the_first_answer_also_later(stored: Stored) -> None:
    goal = await begin(stored, key="begin")
    events = goal.next(HELLO, HELLO)
    first = await goal.store(events, key="k")
    before, goal.events = goal.events, goal.events + events
    await goal.append(HELLO)
    again = {"expected_seq": 1, "summary": goal.summary(()), "key": "k"}
    assert await goal.store(events, **again) == first
    assert await goal.store(events, **(again | {"expected_seq": 9, "epoch": 9})) == first
    assert await goal.store(before, expected_seq=0, summary=goal.summary(()), key="begin") == Appended(1, False)
    assert await stored.store.load("g") == goal.events


async def test_the_same_key_with_other_events_is_a_conflict(stored: Stored) -> None:
    goal = await begin(stored)
    await goal.append(HELLO, key="k")
    with pytest.raises(Conflict, match="other events"):
        await goal.append(HELLO, key="k")
    with pytest.raises(Conflict, match="other events"):
        await goal.append(HELLO, key="k", expected_seq=1)
    assert await stored.store.load("g") == goal.events


async def test_two_goals_may_use_the_same_key(stored: Stored) -> None:
    for goal_id in ("a", "b"):
        goal = await begin(stored, goal_id)
        await goal.append(HELLO, key="k")
        assert await stored.store.load(goal_id) == goal.events


async def test_a_new_goal_is_owned_by_its_worker_at_epoch_1(stored: Stored) -> None:
    goal = await begin(stored)
    assert (await stored.store.find("g")).worker == WORKER.id
    await goal.append(HELLO, epoch=1)


async def test_a_second_goal_of_the_same_id_is_a_conflict(stored: Stored) -> None:
    goal = await begin(stored)
    with pytest.raises(Conflict, match="already"):
        await begin(stored)
    assert await stored.store.load("g") == goal.events


async def test_an_append_to_an_unknown_goal_is_not_found(stored: Stored) -> None:
    known = await begin(stored)
    unknown = History(stored, "unknown")
    with pytest.raises(NotFound):
        await unknown.store(unknown.next(HELLO), summary=known.summary(()))
    with pytest.raises(NotFound):
        await stored.store.load("unknown")


async def test_nothing_follows_the_end(stored: Stored) -> None:
    for goal_id, reason in (("a", "done"), ("b", "failed")):
        goal = await begin(stored, goal_id)
        await goal.append(Termination(reason))  # type: ignore[arg-type]
        with pytest.raises(Conflict, match="ended"):
            await goal.store(goal.next(HELLO), summary=goal.summary(()))
        assert await stored.store.load(goal_id) == goal.events


async def test_goals_do_not_touch_each_other(stored: Stored) -> None:
    goals = [await begin(stored, f"g{number}") for number in range(3)]
    await asyncio.gather(*[goal.append(HELLO) for goal in goals for _ in range(1)])
    with pytest.raises(Conflict):
        await goals[0].append(HELLO, epoch=7)
    await end(goals[1])
    for goal in goals:
        assert await stored.store.load(goal.goal_id) == goal.events


async def test_a_goal_is_kept_when_more_waits_in_its_inbox_unless_it_has_ended(stored: Stored) -> None:
    """Who posts sees a live owner and leaves it to that one, so the owner must not go without it."""
    goal = await begin(stored)
    for key in ("k1", "k2"):
        await stored.store.post("g", "decision", {}, key=key)
    first, second = await stored.store.inbox("g")
    assert await goal.append(HELLO, release=True) == Appended(2, inbox_waiting=True)
    assert (await stored.store.find("g")).worker == WORKER.id
    assert (await goal.append(HELLO, taken=[first.id], release=True)).inbox_waiting
    assert (await stored.store.find("g")).worker == WORKER.id
    assert not (await goal.append(HELLO, taken=[second.id], release=True)).inbox_waiting
    assert (await stored.store.find("g")).worker is None
    ended = await begin(stored, "ended")
    await stored.store.post("ended", "decision", {}, key="k")
    await ended.append(Termination("done"), release=True)
    assert (await stored.store.find("ended")).worker is None


async def test_a_release_frees_the_goal_with_or_without_events(stored: Stored) -> None:
    goal = await begin(stored)
    await goal.append(HELLO, release=True)
    assert (await stored.store.find("g")).worker is None
    other = await begin(stored, "other")
    assert await other.append(release=True) == Appended(1, inbox_waiting=False)
    assert (await stored.store.find("other")).worker is None
    await begin(stored, "third", release=True)
    assert (await stored.store.find("third")).worker is None


async def test_a_fork_continues_from_its_parent(stored: Stored) -> None:
    goal = await begin(stored, "g", HELLO, HELLO, HELLO)
    fork = await goal.fork("f", 2)
    await fork.append(Message("of the fork"))
    await goal.append(Message("of the parent"))
    loaded = await stored.store.load("f")
    assert loaded == fork.events
    assert [(event.goal_id, event.seq) for event in loaded] == [("g", 1), ("g", 2), ("f", 3), ("f", 4)]
    assert await stored.store.load("f", after=1) == fork.events[1:]
    assert await stored.store.load("f", after=3) == fork.events[3:]
    for upto in range(1, len(fork.events) + 1):
        assert await stored.store.load("f", upto=upto) == fork.events[:upto]
    assert (await stored.store.find("f")).forked_from == ForkedFrom("g", 2)
    assert await stored.store.load("g") == goal.events


async def test_a_fork_of_a_fork_is_loaded_through_all_parents(stored: Stored) -> None:
    goal = await begin(stored, "g", HELLO, HELLO)
    fork = await goal.fork("f", 2)
    await fork.append(HELLO)
    own, inherited = await fork.fork("own", 4), await fork.fork("inherited", 1)
    assert await stored.store.load("own") == own.events
    assert [event.goal_id for event in own.events] == ["g", "g", "f", "f", "own"]
    assert await stored.store.load("inherited") == inherited.events
    assert [event.goal_id for event in inherited.events] == ["g", "inherited"]


async def test_a_fork_needs_the_event_that_it_leaves(stored: Stored) -> None:
    goal = await begin(stored, "g", HELLO)
    body = GoalBegun("fork", MindSpec("command"), forked_from=ForkedFrom("g", 3))
    fork = History(stored, "f", events=[*goal.events, *goal.next(HELLO)])
    with pytest.raises(NotFound, match="no event 3 of g"):
        await fork.append(body)
    with pytest.raises(Conflict, match="gap"):
        await fork.append(body, expected_seq=0)
    with pytest.raises(NotFound):
        await stored.store.load("f")


async def test_a_page_has_as_many_events_as_fit_and_at_least_one(stored: Stored) -> None:
    sizes = [10, 20_000, 20_000, 50_000, 10, 10]
    goal = await begin(stored, "g", *(Message("x" * size) for size in sizes))
    small = size_of(len(goal.events[0].payload)) + size_of(len(goal.events[1].payload))

    async def page(max_bytes: int, **options: int) -> list[int]:
        return said(await stored.store.load("g", max_bytes=max_bytes, **options))

    assert await page(1 << 20) == [1, 2, 3, 4, 5, 6, 7]
    assert await page(small) == [1, 2]
    assert await page(small - 1) == [1]
    assert await page(45_000) == [1, 2, 3, 4]
    assert await page(45_000, after=2) == [3, 4]
    assert await page(45_000, after=4) == [5], "one that is too large for any page is one by itself"
    assert await page(45_000, after=5, upto=6) == [6]
    assert await page(1, after=7) == []
    assert await stored.store.load("g", after=2, max_bytes=45_000) == goal.events[2:4]


async def test_a_page_counts_bytes_and_not_characters(stored: Stored) -> None:
    await begin(stored, "g", Message("🦀" * 1000), Message("🦀" * 1000))
    assert said(await stored.store.load("g", after=1, max_bytes=8000)) == [2]


async def test_pages_of_a_fork_lead_from_its_parents_to_its_own_events(stored: Stored) -> None:
    parent = await begin(stored, "g", *(Message("x" * 1000) for _ in range(5)))
    fork = await parent.fork("f", 4)
    await fork.append(Message("y" * 1000), Message("y" * 1000))
    after, pages = 0, []
    while page := await stored.store.load("f", after=after, max_bytes=3500):
        after = page[-1].seq
        pages.append(said(page))
    assert pages == [[1, 2, 3], [4, 5, 6], [7]]


async def test_a_page_of_a_long_history_is_found_without_its_end(stored: Stored) -> None:
    goal = await begin(stored, "g", *(HELLO for _ in range(1200)))
    one = size_of(len(goal.events[1].payload))
    assert said(await stored.store.load("g", after=1, max_bytes=one * 700)) == list(range(2, 702))


async def test_goals_are_listed_newest_first_page_by_page_and_by_status(stored: Stored) -> None:
    goals = [await begin(stored, name) for name in ("c", "a", "d", "b")]
    await end(goals[1])
    ids = [summary.goal_id for summary in await stored.store.list_goals()]
    assert ids == ["b", "d", "a", "c"]
    page = await stored.store.list_goals(limit=2)
    assert [summary.goal_id for summary in page] == ["b", "d"]
    rest = await stored.store.list_goals(limit=2, before="d")
    assert [summary.goal_id for summary in rest] == ["a", "c"]
    assert [summary.goal_id for summary in await stored.store.list_goals(where=GoalFilter("open"), before="d")] == ["c"]
    assert [summary.goal_id for summary in await stored.store.list_goals(where=GoalFilter("done"))] == ["a"]
    assert (
        await stored.store.list_goals(where=GoalFilter("waiting"))
        == await stored.store.list_goals(before="unknown")
        == []
    )


async def test_a_summary_is_what_the_last_append_said(stored: Stored) -> None:
    goal = await begin(stored, text="grüße")
    await goal.append(HELLO)
    (summary,) = await stored.store.list_goals()
    assert (summary.text, summary.status, summary.last_seq, summary.reason) == ("grüße", "open", 2, None)
    await end(goal)
    (summary,) = await stored.store.list_goals()
    assert (summary.status, summary.last_seq, summary.reason, summary.mind) == ("done", 3, "done", "command")
    assert summary == await stored.store.find("g")


async def test_a_goal_is_found_by_a_unique_prefix(stored: Stored) -> None:
    for name in ("20250101-a-x", "20250101-b-y", "20250101-b-y2", "50%_off", "500_off", "ABC"):
        await begin(stored, name)
    for prefix, name in (("20250101-a", "20250101-a-x"), ("20250101-b-y", "20250101-b-y"), ("50%", "50%_off")):
        assert (await stored.store.find(prefix)).goal_id == name
    for prefix in ("20250101-b", "50"):
        with pytest.raises(Conflict, match="Several"):
            await stored.store.find(prefix)
    with pytest.raises(Invalid, match="empty"):
        await stored.store.find("")
    for prefix in ("abc", "%", "_", "2025_", "*", "20250101-a-x-"):
        with pytest.raises(NotFound):
            await stored.store.find(prefix)


async def test_a_deleted_goal_is_gone_and_its_id_stays_taken(stored: Stored) -> None:
    goal = await begin(stored)
    await begin(stored, "other")
    await stored.store.post("g", "signal", {}, key="k")
    await end(goal)
    await stored.store.delete("g")
    for call in (stored.store.load("g"), stored.store.find("g"), stored.store.delete("g")):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(NotFound):
        await stored.store.post("g", "signal", {}, key="k")
    assert [summary.goal_id for summary in await stored.store.list_goals()] == ["other"]
    assert await stored.store.list_goals(where=GoalFilter("done")) == []
    assert await stored.store.inbox("g") == []
    with pytest.raises(Conflict, match="already"):
        await begin(stored)


async def test_only_a_finished_goal_can_be_deleted(stored: Stored) -> None:
    goal = await begin(stored)
    with pytest.raises(Conflict, match="not finished"):
        await stored.store.delete("g")
    with pytest.raises(NotFound):
        await stored.store.delete("unknown")
    assert await stored.store.load("g") == goal.events


async def test_an_unfinished_goal_is_deleted_only_when_that_is_asked_for(stored: Stored) -> None:
    goal = await begin(stored, "g", Wait("w.1", "w", iso(NOW + 1)))
    await begin(stored, "other")
    await stored.store.post("g", "signal", {}, key="k")
    await stored.store.delete("g", even_unfinished=True)
    for call in (stored.store.load("g"), stored.store.find("g"), stored.store.delete("g", even_unfinished=True)):
        with pytest.raises(NotFound):
            await call
    with pytest.raises(PerdureError):
        await goal.append(HELLO)
    assert [summary.goal_id for summary in await stored.store.list_goals()] == ["other"]
    assert await stored.store.due(NOW + 10) == []
    assert await stored.store.posted(WORKER.id) == []
    with pytest.raises(NotFound):
        await stored.leases.claim("g", OTHER)
    await stored.store.delete("other", even_unfinished=True)
    assert await stored.store.list_goals() == []


async def test_an_unfinished_goal_with_a_fork_is_not_deleted(stored: Stored) -> None:
    goal = await begin(stored, "g", HELLO)
    await goal.fork("f", 1)
    with pytest.raises(Conflict, match="has a fork, f"):
        await stored.store.delete("g", even_unfinished=True)
    assert await stored.store.load("g") == goal.events
    await goal.append(HELLO)


async def test_a_goal_is_deleted_after_its_forks(stored: Stored) -> None:
    goal = await begin(stored, "g", HELLO)
    fork = await goal.fork("f", 1)
    await end(goal)
    await end(fork)
    with pytest.raises(Conflict, match="has a fork, f"):
        await stored.store.delete("g")
    assert await stored.store.load("f") == fork.events
    await stored.store.delete("f")
    await stored.store.delete("g")
    with pytest.raises(NotFound, match="no event 1 of g"):
        await goal.fork("again", 1)


async def test_a_deleted_goal_is_reported_as_deleted_by_its_id_or_the_beginning_of_it(stored: Stored) -> None:
    for name in ("gone-1", "gone-2"):
        await end(await begin(stored, name))
    await stored.store.delete("gone-1")
    with pytest.raises(NotFound, match="^gone-1 was deleted"):
        await stored.store.find("gone-1")
    assert (await stored.store.find("gone-")).goal_id == "gone-2"
    await stored.store.delete("gone-2")
    with pytest.raises(NotFound, match="no goal whose id begins with 'gone-'"):
        await stored.store.find("gone-")
    with pytest.raises(NotFound, match="^gone-2 was deleted"):
        await stored.store.find("gone-2")


@pytest.mark.parametrize("key", ["", "k" * 201, "\ud800", "a\0b", b"k", 7], ids=repr)
async def test_a_key_that_is_no_text_of_a_sensible_length_is_refused(stored: Stored, key: Any) -> None:
    goal = await begin(stored)
    new = History(stored, "new")
    begun = new.next(GoalBegun("echo", MindSpec("command")))
    for refused in (
        stored.store.post("g", "signal", {}, key=key),
        stored.store.started(key),
        goal.append(HELLO, key=key),
        new.store(begun, summary=replace(new.summary(begun), start_key=key)),
    ):
        with pytest.raises(Invalid, match="A key"):
            await refused
    assert await stored.store.load("g") == goal.events
    assert await stored.store.inbox("g") == []
    await stored.store.post("g", "signal", {}, key="ü" * 200)
