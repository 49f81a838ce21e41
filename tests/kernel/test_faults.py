"""A death at every fail-point, at each of its hits, on all three stores: the goal ends as if nobody had died.

In memory the store survives and the runner does not, which is what a kill of one worker among many looks like.
"""

import pytest

from perdure import failpoints
from perdure.kernel.events import Decision, OutcomeUnknown, decode
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.lives import Blow, Lives, story
from tests.kernel.world import World

PREFIXES = ("kernel.", "store.append.", "store.claim.", "store.renew.", "store.commit.")
OF_CHILDREN = "kernel.children."
"""Only a flow has children: see tests/minds/test_children.py and tests/crash/test_kill_children.py."""
POINTS = sorted(
    point for point in failpoints.POINTS if point.startswith(PREFIXES) and not point.startswith(OF_CHILDREN)
)
GIVING_BACK = sorted(point for point in failpoints.POINTS if point.startswith("store.release."))

ONE_BY_ONE = """
goal: one by one
steps:
  - {id: fetch, exec: [fetch], effect: idempotent}
  - {id: build, exec: [build], needs: [fetch]}
  - {id: nap, wait: 20s, needs: [build]}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [nap]}
  - {id: send, exec: [send], needs: [sure]}
"""
AT_ONCE = """
goal: at once
steps:
  - {id: left, exec: [left]}
  - {id: right, exec: [right]}
  - {id: again, exec: [again], effect: idempotent}
  - {id: join, exec: [join], needs: [left, right, again]}
"""
MANNERS = {"once": (1, False), "three times in a row": (3, True)}
"""How often a goal dies, and whether somebody else records what a person decided, or the runner itself.

After the first death the next hit comes in the recovery, so the second and the third death are in there.
"""


def is_hit(world: World, point: str) -> bool:
    """Whether a store can hit a point: one in memory commits nothing."""
    return not (point.startswith("store.") and isinstance(world.store, InMemoryStateStore))


async def each_hit(
    world: World,
    plan: str,
    point: str,
    deaths: int = 1,
    blow: Blow = "death",
    *,
    is_settled_by_others: bool = False,
) -> list[Lives]:
    """Run a goal for each hit of a point, and let it die there; stop when a goal ends without having come so far."""
    lived: list[Lives] = []
    while True:
        hit = len(lived) + 1
        blows = dict.fromkeys(range(hit, hit + deaths), blow)
        lives = await Lives(world, plan, f"goal-{hit}", point, blows, is_settled_by_others).live()
        if lives.struck == 0:
            break
        lived.append(lives)
    assert lived or not is_hit(world, point), f"{point} was never reached"
    return lived


async def never_died(world: World, plan: str) -> list[tuple[object, ...]]:
    return story(await (await Lives(world, plan, "goal-0", "kernel.append.before").live()).history())


@pytest.mark.parametrize(("deaths", "is_settled_by_others"), MANNERS.values(), ids=MANNERS.keys())
@pytest.mark.parametrize("point", POINTS)
async def test_a_goal_that_died_at_any_hit_of_a_point_has_the_history_of_one_that_did_not(
    world: World, point: str, deaths: int, is_settled_by_others: bool
) -> None:
    expected = await never_died(world, ONE_BY_ONE)
    for lives in await each_hit(world, ONE_BY_ONE, point, deaths, is_settled_by_others=is_settled_by_others):
        assert story(await lives.history()) == expected
        assert await world.store.inbox(lives.goal_id) == []
        assert lives.tool.effects["build"] == lives.tool.effects["send"] == 1
        assert lives.tool.effects["fetch"] <= 1 + lives.struck


@pytest.mark.parametrize("point", [point for point in POINTS if point.startswith("kernel.")])
async def test_steps_that_ran_at_once_are_each_done_once_whenever_their_goal_died(world: World, point: str) -> None:
    expected = sorted(map(str, await never_died(world, AT_ONCE)))
    for lives in await each_hit(world, AT_ONCE, point):
        assert sorted(map(str, story(await lives.history()))) == expected
        assert [lives.tool.effects[step] for step in ("left", "right", "join")] == [1, 1, 1]


@pytest.mark.parametrize("point", ["kernel.effect.before", "kernel.effect.after"])
async def test_a_death_beside_an_effect_makes_that_call_unknown_if_it_is_once_and_no_other(
    world: World, point: str
) -> None:
    unknown = []
    for lives in await each_hit(world, ONE_BY_ONE, point):
        bodies = [decode(event) for event in await lives.history()]
        again = {body.call_id for body in bodies if isinstance(body, Decision) and body.decision == "approve"}
        unknown.append([(body.call_id, body.call_id in again) for body in bodies if isinstance(body, OutcomeUnknown)])
    assert unknown[:2] == [[("fetch.1", True)], [("build.1", False)]]
    assert unknown[-1] == [("send.1", False)]


@pytest.mark.parametrize("point", GIVING_BACK)
async def test_a_death_while_a_goal_that_was_cut_short_is_released_changes_nothing(world: World, point: str) -> None:
    lives = Lives(world, ONE_BY_ONE, "goal-1", point, {1: "death"})
    lives.tool.during = lambda context: lives.cut_short() if context.call.call_id == "build.1" else None
    await lives.live()
    assert lives.struck == is_hit(world, point)
    assert story(await lives.history()) == await never_died(world, ONE_BY_ONE)
    assert lives.tool.effects["build"] == lives.tool.effects["send"] == 1
