"""What a step says about its progress: observers of this process see the newest of it, and nothing is stored."""

import asyncio
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Goal, Invalid, current_step
from perdure.kernel.calls.progress import CallProgress, ProgressFeed
from tests.kernel.world import World
from tests.minds.test_flow import ended, run


@pytest.fixture
def seen(world: World) -> list[tuple[str, Any]]:
    """What a listener of the goal has seen."""
    found: list[tuple[str, Any]] = []
    world.watch = lambda loop: loop.progress.listen(lambda each: found.append((each.call_id, each.value)))
    return found


async def report_here() -> str:
    for percent in (10, {"done": 50}, "almost"):
        current_step().progress(percent)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return "done"


def report_on_a_thread() -> str:
    current_step().progress("almost")
    return "done"


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
async def test_observers_see_the_progress_of_a_step_and_the_history_does_not(
    world: World, seen: list[tuple[str, Any]], effect: Any
) -> None:
    async def one(goal: Goal) -> str:
        return await goal.options(effect=effect, name="work").step(report_here)

    ran = await run(world, one)
    assert ended(ran).value == "done"
    assert seen == [("/work#0.1", 10), ("/work#0.1", {"done": 50}), ("/work#0.1", "almost")]
    assert all("almost" not in event.payload for event in await world.store.load("goal-a"))


async def test_a_step_on_a_thread_reports_too(world: World, seen: list[tuple[str, Any]]) -> None:
    async def one(goal: Goal) -> str:
        return await goal.options(name="work").step(report_on_a_thread)

    await run(world, one)
    assert seen == [("/work#0.1", "almost")]


async def test_a_listener_is_optional(world: World) -> None:
    async def one(goal: Goal) -> str:
        return await goal.step(report_here)

    assert ended(await run(world, one)).value == "done"


@pytest.mark.parametrize(("value", "said"), [(object(), "JSON"), (float("nan"), "JSON"), ("x" * 70_000, "64 KiB")])
async def test_a_value_that_cannot_be_sent_is_invalid(
    world: World, seen: list[tuple[str, Any]], value: Any, said: str
) -> None:
    async def report() -> str:
        with pytest.raises(Invalid, match=said):
            current_step().progress(value)
        return "refused"

    async def one(goal: Goal) -> str:
        return await goal.step(report)

    assert ended(await run(world, one)).value == "refused"
    assert not seen


async def test_a_step_that_has_ended_reports_nothing_more(world: World, seen: list[tuple[str, Any]]) -> None:
    kept: list[Any] = []

    async def keep() -> None:
        kept.append(current_step())

    async def one(goal: Goal) -> None:
        await goal.step(keep)

    await run(world, one)
    with pytest.raises(Invalid, match="has ended"):
        kept[0].progress(1)
    assert not seen


async def in_bursts(feed: ProgressFeed, count: int) -> None:
    for number in range(count):
        feed.report("a.1", [number] * 100)
    feed.report("b.1", "other")


async def test_only_the_newest_value_of_each_call_is_kept_until_it_is_reported() -> None:
    seen: list[CallProgress] = []
    feed = ProgressFeed("g", asyncio.get_running_loop())
    feed.listen(seen.append)
    tracemalloc.start()
    await in_bursts(feed, 20_000)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 100_000
    await asyncio.sleep(0)
    assert [(each.call_id, each.text[:5]) for each in seen] == [("a.1", "[1999"), ("b.1", "other")]


async def test_threads_report_side_by_side() -> None:
    seen: list[CallProgress] = []
    feed = ProgressFeed("g", asyncio.get_running_loop())
    feed.listen(seen.append)

    def report(name: str) -> Callable[[], None]:
        def many() -> None:
            for number in range(1_000):
                feed.report(name, number)

        return many

    await asyncio.gather(*(asyncio.to_thread(report(name)) for name in ("a", "b", "c")))
    await asyncio.sleep(0)
    assert {each.call_id: each.value for each in seen} == dict.fromkeys(("a", "b", "c"), 999)
    values = [each.value for each in seen if each.call_id == "a"]
    assert values == sorted(values)
