"""Filters of goals as Python gives them: words, texts and times."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest

from perdure import Goal, Invalid, flow
from perdure.app import open_ephemeral
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal, of_flow
from perdure.app.goals.query import goal_query, older_than_us
from perdure.kernel.events import MindSpec
from perdure.kernel.ports import GoalFilter

NOW_US = 1_794_816_000_000_000  # 2026-11-16T08:00:00Z
HOUR_US = 3_600_000_000


@pytest.fixture
async def goals() -> AsyncIterator[Goals]:
    async with open_ephemeral() as goals:
        yield goals


@pytest.mark.parametrize(
    ("given", "expected_us"),
    [
        ("2h", NOW_US - 2 * HOUR_US),
        ("2026-11-16T09:30:00+02:00", NOW_US - HOUR_US // 2),
        (datetime.fromtimestamp(NOW_US / 1e6 - 3600, UTC), NOW_US - HOUR_US),
        ("36500d", 0),
    ],
)
def test_a_time_is_a_duration_a_moment_or_a_datetime(given: Any, expected_us: int) -> None:
    assert goal_query(NOW_US, {"since": given}).where == GoalFilter(created_after_us=max(expected_us, 0))
    assert goal_query(NOW_US, {"until": given}).where == GoalFilter(created_before_us=max(expected_us, 0))


def test_a_date_is_the_beginning_of_that_day_here() -> None:
    expected_us = round(datetime(2026, 11, 16).astimezone().timestamp() * 1e6)
    assert goal_query(NOW_US, {"since": "2026-11-16"}).where.created_after_us == expected_us


@pytest.mark.parametrize(
    ("filters", "allowed"),
    [
        ({"status": "stopped"}, "running, interrupted, waiting, done, failed, cancelled, open"),
        ({"status": ["done", "over"]}, "found 'over'"),
        ({"status": []}, "one of running"),
        ({"status": 3}, "one of running"),
        ({"since": "yesterday"}, "a duration such as 2h, a date such as 2026-11-16"),
        ({"until": 5}, "a duration such as 2h"),
        ({"since": "1969-12-31T00:00:00Z"}, "from 1970"),
        ({"flow": " "}, "not empty"),
        ({"flow": ":order"}, "module:function"),
        ({"flow": "shop:"}, "module:function"),
        ({"tag": 'a"b'}, "without quotes"),
    ],
    ids=str,
)
def test_a_bad_filter_says_what_is_allowed(filters: Any, allowed: str) -> None:
    with pytest.raises(Invalid, match=allowed):
        goal_query(NOW_US, filters)


async def test_a_name_that_is_no_filter_is_a_mistake_of_the_program(goals: Goals) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'stauts'"):
        await goals.list(stauts="done")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'befor'"):
        await goals.fork("20261116-080000-a-aaaaaa", befor="x")  # type: ignore[call-arg]


@pytest.mark.parametrize("text", ["30", "0d", "x", "2026-11-16", "99999999d"])
def test_an_age_is_a_duration(text: str) -> None:
    assert older_than_us("30d", NOW_US) == NOW_US - 30 * 24 * HOUR_US
    with pytest.raises(Invalid, match="12h or 30d"):
        older_than_us(text, NOW_US)


async def test_interrupted_goals_are_found_among_others_page_by_page(goals: Goals, tmp_path: Path) -> None:
    queued = [(await goals.enqueue(NewGoal("true", MindSpec("command"), tmp_path), queue="cli")).id for _ in range(3)]
    ended = (await goals.begin(NewGoal("true", MindSpec("command"), tmp_path))).state.goal_id
    assert [goal.id for goal in await goals.list(status="interrupted")] == queued[::-1]
    assert [goal.id for goal in await goals.list(status="interrupted", limit=2, before=queued[-1])] == queued[1::-1]
    assert await goals.list(status="running") == []
    assert [goal.id for goal in await goals.list(status=["interrupted", "done"], limit=2)] == [ended, queued[-1]]
    since = datetime.now(UTC) + timedelta(hours=1)
    assert await goals.list(status="done", since=since) == await goals.list(until="1h") == []


async def test_a_flow_is_chosen_by_its_name_or_by_its_module_too_page_by_page(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.app.goals.lists._PAGE", 2)
    monkeypatch.setattr("perdure.minds.flow.registry._FLOWS", WeakValueDictionary())

    async def add(at: str) -> str:
        async def body(goal: Goal) -> None: ...

        body.__module__, _, body.__qualname__ = at.partition(":")
        return (await goals.enqueue(of_flow(flow(body), [], {}), queue="cli")).id

    shop = [await add("shop:order"), await add("shop:order")]
    farm = [await add("farm:order") for _ in range(3)]
    await add("shop:refund")
    assert [goal.id for goal in await goals.list(flow="order")] == [*farm[::-1], *shop[::-1]]
    assert [goal.id for goal in await goals.list(flow="shop:order")] == shop[::-1]
    assert [goal.id for goal in await goals.list(flow="shop:order", limit=1)] == shop[1:]
    assert [goal.id for goal in await goals.list(flow="shop:order", limit=1, before=shop[1])] == shop[:1]
    assert await goals.list(flow="order:shop") == []
