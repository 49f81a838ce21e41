"""When a goal that was given back is due: also when it sleeps beside a question, and not when a limit holds it."""

import pytest

from perdure.kernel.events import Limits
from tests.kernel.world import World

BESIDE = """
goal: beside
steps:
  - {id: sure, ask: {question: "Sure?"}}
  - {id: short, wait: 2h}
  - {id: long, wait: 4h}
  - {id: early, exec: [early], needs: [short]}
  - {id: late, exec: [late], needs: [long]}
"""
HOUR_US = 3_600_000_000


async def due(world: World) -> list[str]:
    return [goal.goal_id for goal in await world.store.due(world.clock.now)]


async def test_a_goal_that_sleeps_beside_a_question_wakes_when_it_is_due_and_waits_on(world: World) -> None:
    began_us = world.clock.now
    ran = await world.start(BESIDE)
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")
    assert await due(world) == []
    for hours, done in ((2, ["early"]), (4, ["early", "late"])):
        world.clock.now = began_us + hours * HOUR_US + 1_000_000
        assert await due(world) == ["goal-a"]
        ran = await world.resume()
        assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")
        assert sorted(world.tool.effects) == done
        assert await due(world) == []
    assert (await world.store.find("goal-a")).due_us is None


@pytest.mark.parametrize("limit", [1, None])
async def test_a_goal_that_is_held_by_a_limit_is_not_due_until_it_is_raised(world: World, limit: int | None) -> None:
    ran = await world.start(BESIDE, limits=Limits(iterations=limit))
    assert ran.state.reached_limit == ("iterations" if limit else None)
    world.clock.now += 9 * HOUR_US
    assert await due(world) == ([] if limit else ["goal-a"])
