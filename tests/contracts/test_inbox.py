"""The contract of `Inbox`: the same in memory, on SQLite and on PostgreSQL."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from perdure import Conflict, Invalid, NotFound
from perdure.kernel.events import (
    Event,
    Message,
    Signal,
    content_of,
)
from perdure.kernel.ports import Appended, InboxRow
from tests.contracts.histories import HELLO, OTHER, WORKER, Stored, begin, end, said, several


async def test_what_was_posted_is_in_the_inbox_in_order_of_arrival(stored: Stored) -> None:
    goal = await begin(stored)
    for number in range(3):
        await stored.store.post("g", "signal", {"n": number, "t": ["ü", None]}, key=f"k{number}")
    rows = await stored.store.inbox("g")
    assert [(row.kind, row.payload, row.key) for row in rows] == [
        ("signal", {"n": number, "t": ["ü", None]}, f"k{number}") for number in range(3)
    ]
    assert len({row.id for row in rows}) == 3
    assert all(row.created_us > 0 for row in rows)
    assert (await goal.append(HELLO)).inbox_waiting


async def test_what_is_taken_goes_with_the_append(stored: Stored) -> None:
    goal = await begin(stored)
    for key in ("a", "b"):
        await stored.store.post("g", "signal", {}, key=key)
    first, second = await stored.store.inbox("g")
    assert (await goal.append(HELLO, key="a", taken=[first.id])).inbox_waiting
    assert await stored.store.inbox("g") == [second]
    assert not (await goal.append(taken=[second.id])).inbox_waiting
    assert await stored.store.inbox("g") == []


async def test_what_is_not_there_any_more_cannot_be_taken(stored: Stored) -> None:
    goal = await begin(stored)
    await stored.store.post("g", "signal", {}, key="a")
    (first,) = await stored.store.inbox("g")
    await goal.append(HELLO, taken=[first.id])
    with pytest.raises(Conflict, match="inbox"):
        await goal.append(HELLO, taken=[first.id])
    await stored.store.post("g", "signal", {}, key="b")
    with pytest.raises(Conflict, match="inbox"):
        await goal.append(HELLO, taken=[first.id])
    assert await stored.store.load("g") == goal.events
    assert [row.key for row in await stored.store.inbox("g")] == ["b"]
    assert (await goal.append(HELLO)).inbox_waiting


async def test_a_row_of_another_goal_cannot_be_taken(stored: Stored) -> None:
    goal, _ = await begin(stored), await begin(stored, "other")
    for goal_id in ("g", "other"):
        await stored.store.post(goal_id, "signal", {}, key="k")
    (row,) = await stored.store.inbox("other")
    with pytest.raises(Conflict, match="inbox"):
        await goal.append(HELLO, taken=[row.id])
    assert await stored.store.inbox("other") == [row]


@pytest.mark.parametrize("before", [{"name": "n", "payload": None}, {"name": "n"}])
async def test_a_post_with_its_defaults_is_the_same_as_one_without(stored: Stored, before: dict[str, Any]) -> None:
    """A client that repeats a post after an upgrade writes it differently."""
    await begin(stored)
    assert await stored.store.post("g", "signal", before, key="k")
    assert not await stored.store.post("g", "signal", content_of(Signal("n")), key="k")
    with pytest.raises(Conflict):
        await stored.store.post("g", "signal", content_of(Signal("n", 0)), key="k")


async def test_a_key_is_posted_once_whether_it_is_still_in_the_inbox_or_in_the_history(stored: Stored) -> None:
    goal = await begin(stored)
    told = content_of(Signal("n", {"b": 1, "a": [2]}))
    assert await stored.store.post("g", "signal", told, key="k")
    assert not await stored.store.post("g", "signal", told, key="k")
    (row,) = await stored.store.inbox("g")
    await goal.append(Signal("n", {"b": 1, "a": [2]}), key="k", taken=[row.id])
    assert not await stored.store.post("g", "signal", told, key="k")
    assert await stored.store.inbox("g") == []
    await end(goal)
    assert not await stored.store.post("g", "signal", told, key="k")


async def test_a_key_that_names_another_post_is_a_conflict_in_the_inbox_and_in_the_history(stored: Stored) -> None:
    goal = await begin(stored)
    await stored.store.post("g", "signal", content_of(Signal("n", 1)), key="k")
    for _ in range(2):
        with pytest.raises(Conflict, match="another request with the key 'k'"):
            await stored.store.post("g", "signal", content_of(Signal("n", 2)), key="k")
        for row in await stored.store.inbox("g"):
            assert row.payload == {"name": "n", "payload": 1}
            await goal.append(Signal("n", 1), key="k", taken=[row.id])
    assert len(await stored.store.load("g")) == 2


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (("signal", content_of(Signal("n", 1))), ("cancel", {})),
        (("signal", content_of(Signal("n", 1))), ("decision", {"decision": "deny"})),
        (("decision", {"decision": "deny"}), ("signal", content_of(Signal("n", 1)))),
        (("cancel", {}), ("signal", content_of(Signal("n", 1)))),
        (("cancel", {}), ("decision", {"decision": "deny"})),
    ],
)
async def test_a_key_that_was_used_for_a_post_of_another_kind_is_a_conflict(
    stored: Stored, first: tuple[str, dict[str, Any]], then: tuple[str, dict[str, Any]]
) -> None:
    await begin(stored)
    assert await stored.store.post("g", *first, key="k")
    with pytest.raises(Conflict, match="another request with the key 'k'"):
        await stored.store.post("g", *then, key="k")
    assert not await stored.store.post("g", *first, key="k")
    assert len(await stored.store.inbox("g")) == 1


async def test_a_decision_whose_key_stands_on_what_came_of_it_is_no_news(stored: Stored) -> None:
    goal = await begin(stored)
    await goal.append(HELLO, key="k")
    assert not await stored.store.post("g", "decision", {"decision": "deny"}, key="k")


async def test_a_post_needs_a_goal_that_has_not_ended_and_a_payload_of_json(stored: Stored) -> None:
    goal = await begin(stored)
    with pytest.raises(Invalid):
        await stored.store.post("g", "signal", {"a": object()}, key="k")
    await end(goal)
    with pytest.raises(Conflict, match="ended"):
        await stored.store.post("g", "signal", {}, key="k")
    with pytest.raises(NotFound):
        await stored.store.post("unknown", "signal", {}, key="k")
    assert await stored.store.inbox("g") == await stored.store.inbox("unknown") == []


async def test_a_post_is_admitted_by_the_newer_events_and_what_is_still_pending(stored: Stored) -> None:
    goal = await begin(stored)
    await goal.append(HELLO)
    await stored.store.post("g", "signal", content_of(Signal("a")), key="a")
    seen: list[tuple[list[int], list[str]]] = []

    def admit(events: Sequence[Event], pending: Sequence[InboxRow]) -> None:
        seen.append((said(events), [row.key for row in pending]))

    for after in (0, 1, 2):
        assert await stored.store.post("g", "signal", {"name": "x"}, key=f"{after}", after=after, admit=admit)
    assert seen == [([1, 2], ["a"]), ([2], ["a", "0"]), ([], ["a", "0", "1"])]


async def test_a_post_to_a_fork_is_admitted_by_its_own_newer_events(stored: Stored) -> None:
    goal = await begin(stored, "g", HELLO, HELLO)
    fork = await goal.fork("f", 2)
    await fork.append(HELLO)
    await goal.append(HELLO)
    seen: list[tuple[str, int]] = []

    def admit(events: Sequence[Event], _pending: Sequence[InboxRow]) -> None:
        seen.extend((event.goal_id, event.seq) for event in events)

    await stored.store.post("f", "cancel", {}, key="k", after=3, admit=admit)
    assert seen == [("f", 4)]


async def test_a_post_that_is_not_admitted_leaves_nothing(stored: Stored) -> None:
    goal = await begin(stored)

    def refuse(_events: Sequence[Event], _pending: Sequence[InboxRow]) -> None:
        raise Conflict("not now")

    with pytest.raises(Conflict, match="not now"):
        await stored.store.post("g", "cancel", {}, key="k", admit=refuse)
    assert await stored.store.inbox("g") == []
    assert await goal.append(HELLO) == Appended(2, inbox_waiting=False)
    await stored.store.post("g", "cancel", {}, key="k")
    assert not await stored.store.post("g", "cancel", {}, key="k", admit=refuse), "it was posted before"


async def test_a_post_to_an_ended_goal_is_refused_by_what_admits_it_first(stored: Stored) -> None:
    await end(await begin(stored))

    def refuse(events: Sequence[Event], _pending: Sequence[InboxRow]) -> None:
        raise Conflict(f"its last event is {events[-1].type}")

    with pytest.raises(Conflict, match="termination"):
        await stored.store.post("g", "cancel", {}, key="k", admit=refuse)
    with pytest.raises(Conflict, match="has ended"):
        await stored.store.post("g", "cancel", {}, key="k", admit=lambda _events, _pending: None)


async def test_of_posts_at_once_that_admit_one_another_one_is_posted(stored: Stored) -> None:
    await begin(stored)

    def is_first(_events: Sequence[Event], pending: Sequence[InboxRow]) -> None:
        if pending:
            raise Conflict("not the first")

    posts = [stored.store.post("g", "cancel", {}, key=f"{n}", admit=is_first) for n in range(8)]
    done = await asyncio.gather(*posts, return_exceptions=True)
    assert sorted(type(result).__name__ for result in done) == [*["Conflict"] * 7, "bool"]
    assert len(await stored.store.inbox("g")) == 1


async def test_what_was_posted_under_a_key_is_found_in_the_inbox_and_in_the_history(stored: Stored) -> None:
    goal = await begin(stored)
    paid = Signal("paid", {"order": 7})
    assert await stored.store.posted_as("g", "k") is None
    await stored.store.post("g", "signal", content_of(paid), key="k")
    assert await stored.store.posted_as("g", "k") == ("signal", content_of(paid), None)
    (row,) = await stored.store.inbox("g")
    await goal.append(paid, key="k", taken=[row.id])
    assert await stored.store.posted_as("g", "k") == ("signal", content_of(paid), 2)
    assert await stored.store.posted_as("g", "other") is None
    assert await stored.store.posted_as("nobody", "k") is None


async def test_goals_that_something_was_posted_to_are_found_by_their_worker(stored: Stored) -> None:
    goals = await several(stored, 3)
    assert await stored.store.posted(WORKER.id) == []
    for goal_id in ("g02", "g00"):
        await stored.store.post(goal_id, "signal", {}, key="k")
    assert sorted(await stored.store.posted(WORKER.id)) == ["g00", "g02"]
    assert await stored.store.posted(OTHER.id) == []
    (row,) = await stored.store.inbox("g00")
    await goals[0].append(HELLO, taken=[row.id])
    assert await stored.store.posted(WORKER.id) == ["g02"]
    await stored.leases.release("g02", WORKER, 1)
    assert await stored.store.posted(WORKER.id) == []


@pytest.mark.parametrize("is_taken", [False, True])
async def test_a_message_is_posted_once_under_its_key(stored: Stored, *, is_taken: bool) -> None:
    goal = await begin(stored)
    assert await stored.store.post("g", "message", {"text": "hello"}, key="m")
    if is_taken:
        [row] = await stored.store.inbox("g")
        await goal.append(Message("hello"), key="m", taken=[row.id])
    assert not await stored.store.post("g", "message", {"text": "hello", "by": "person"}, key="m")
    with pytest.raises(Conflict):
        await stored.store.post("g", "message", {"text": "another"}, key="m")
