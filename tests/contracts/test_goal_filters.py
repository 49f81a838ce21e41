"""Lists of goals are filtered alike by every store."""

from dataclasses import replace
from typing import Any

import pytest

from perdure.kernel.events import GoalBegun, Message, MindSpec, Termination
from perdure.kernel.ports import GoalFilter, ParentCall
from tests.contracts.histories import NOW, History, Stored, begin

HOUR_US = 3_600_000_000


async def add(stored: Stored, goal_id: str, reason: str | None = None, **fields: Any) -> None:
    """Store a goal whose row has some fields."""
    history = History(stored, goal_id)
    begun = GoalBegun("text", MindSpec("command"))
    await history.append(begun, summary=replace(history.summary(history.next(begun)), **fields))
    if reason is not None:
        ended = Termination(reason)  # type: ignore[arg-type]  # one of the reasons
        await history.append(ended, summary=replace(history.summary(history.next(ended)), **fields))


@pytest.fixture
async def several(stored: Stored) -> Stored:
    await add(stored, "a", "done", flow="nightly", start_key="n-1", tags=("eu", "big"), created_us=NOW - 3 * HOUR_US)
    await add(stored, "b", "failed", flow="nightly", start_key="n-2", bot="ada", created_us=NOW - 2 * HOUR_US)
    await add(stored, "c", flow="import", bot="ada", tags=("eur",), created_us=NOW - HOUR_US, queue="server")
    await add(
        stored, "d", "cancelled", tags=("eu",), created_us=NOW, updated_us=NOW + HOUR_US, parent=ParentCall("a", "x.1")
    )
    return stored


CASES: list[tuple[dict[str, Any], str]] = [
    ({}, "dcba"),
    ({"status": "failed"}, "b"),
    ({"status": ("failed", "cancelled")}, "db"),
    ({"status": ()}, ""),
    ({"queue": "server"}, "c"),
    ({"flow": "nightly"}, "ba"),
    ({"start_key": "n-1"}, "a"),
    ({"bot": "ada"}, "cb"),
    ({"parent": "a"}, "d"),
    ({"parent": "b"}, ""),
    ({"tag": "eu"}, "da"),
    ({"tag": "eur"}, "c"),
    ({"tag": "e"}, ""),
    ({"created_after_us": NOW - 2 * HOUR_US}, "dcb"),
    ({"created_before_us": NOW - 2 * HOUR_US}, "a"),
    ({"created_after_us": NOW - 2 * HOUR_US, "created_before_us": NOW}, "cb"),
    ({"updated_before_us": NOW + 1}, "cba"),
    ({"flow": "nightly", "status": ("failed", "open"), "bot": "ada"}, "b"),
    ({"tag": "eu", "status": "done", "created_before_us": NOW}, "a"),
    ({"flow": "nightly", "bot": "bob"}, ""),
]


async def test_each_filter_and_all_together_narrow_a_list(several: Stored) -> None:
    found = [await several.store.list_goals(where=GoalFilter(**filters)) for filters, _ in CASES]
    assert [
        (filters, "".join(goal.goal_id for goal in page)) for (filters, _), page in zip(CASES, found, strict=True)
    ] == CASES


async def test_the_forks_of_a_goal_are_listed(stored: Stored) -> None:
    origin = await begin(stored, "g", Message("hello"))
    await begin(stored, "other")
    for name in ("f1", "f2"):
        await origin.fork(name, 1)
    found = await stored.store.list_goals(where=GoalFilter(forked_from="g"))
    assert [goal.goal_id for goal in found] == ["f2", "f1"]
    assert await stored.store.list_goals(where=GoalFilter(forked_from="f1")) == []


async def test_a_filtered_list_is_read_page_by_page(several: Stored) -> None:
    where = GoalFilter(status=("done", "failed", "cancelled"), created_after_us=NOW - 3 * HOUR_US)
    first = await several.store.list_goals(where=where, limit=2)
    rest = await several.store.list_goals(where=where, limit=2, before=first[-1].goal_id)
    assert [[goal.goal_id for goal in page] for page in (first, rest)] == [["d", "b"], ["a"]]
