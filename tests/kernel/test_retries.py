"""A retry on all three stores: a death beside any of its appends, guards, forks, replay and comparison."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from perdure import failpoints
from perdure.kernel.events import MindSpec, ToolCall, ToolError, ToolOutput
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.compare import compare
from perdure.kernel.history.replay import _hash as state_hash
from perdure.kernel.history.replay import replay
from perdure.kernel.mind import Proposal
from perdure.kernel.tool import CallContext
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import ScriptedMind, World

PLAN = """
goal: g
steps:
  - {id: build, exec: [build]}
  - {id: send, exec: [send], needs: [build]}
  - {id: tell, exec: [tell], needs: [send], effect: idempotent}
"""
POINTS = sorted(point for point in failpoints.POINTS if point.startswith(("kernel.", "store.append.", "store.claim.")))


class Died(BaseException):
    """What a process feels when it is killed."""


def dies_at(nth: int) -> Callable[[], None]:
    """Make what raises at the nth call."""
    hits = 0

    def hit() -> None:
        nonlocal hits
        hits += 1
        if hits == nth:
            raise Died

    return hit


async def state_of(world: World, goal_id: str = "goal-a") -> GoalState:
    return fold(await world.store.load(goal_id))


async def help_on(world: World, state: GoalState) -> None:
    """Settle what is unknown by looking at the world, and run the goal; one that is failed still is retried."""
    for call_id, call in state.open_calls.items():
        if call.unknown is not None:
            verdict = "skip" if world.tool.effects[call.call.step] > len(_failures(state, call.call.step)) else "retry"
            payload = {"call_id": call_id, "decision": verdict}
            await world.store.post(state.goal_id, "decision", payload, key=f"{call_id} {state.head.seq}")


def _failures(state: GoalState, step: str) -> list[str]:
    return [
        call_id
        for call_id, call in state.calls.items()
        if call.call.step == step and call.outcome is not None and not call.outcome.ok
    ]


@pytest.mark.parametrize("point", POINTS)
async def test_a_retry_that_died_at_any_hit_of_a_point_repeats_nothing_that_was_done(world: World, point: str) -> None:
    """The goal stays failed, or is reopened; either way it comes to its end with each effect once."""
    if point.startswith("store.") and isinstance(world.store, InMemoryStateStore):
        pytest.skip("a store in memory commits nothing")
    for nth in range(1, 9):
        goal_id = f"goal-{nth}"
        world.tool.effects.clear()
        world.tool.fails["send"] = 1
        await world.start(PLAN, goal_id)
        died = False
        with failpoints.armed(point, dies_at(nth)):
            try:
                await world.retry(goal_id)
            except Died:
                died = True
        for _ in range(5):
            state = await state_of(world, goal_id)
            if state.status == "done":
                break
            await help_on(world, state)
            await (world.retry(goal_id) if state.status == "failed" else world.resume(goal_id))
        assert state.status == "done"
        assert len(state.reopenings) == 1
        assert world.tool.effects["build"] == 1
        assert world.tool.effects["send"] == 2  # the one that failed, and the one that was done
        assert world.tool.effects["tell"] <= 1 + died
        replay(await world.store.load(goal_id), await world.store.find(goal_id))
        if not died:
            return
    raise AssertionError(f"{point} was hit more than eight times")


async def test_the_guards_of_a_model_look_only_at_what_came_after_the_retry(world: World) -> None:
    def again(number: int) -> Proposal:
        return Proposal([ToolCall(f"c{number}", f"s{number}", "exec", {"argv": ["x"]}, "pure")])

    async def fail(context: CallContext) -> None:
        world.tool.fails[context.call.step] = 1

    world.tool.then = fail
    failed = await world.script(*(again(number) for number in range(1, 4)))
    assert failed.state.termination is not None
    assert failed.state.termination.reason == "repeated_failure"
    world.minds.append(ScriptedMind([again(number) for number in range(4, 7)]))
    ran = await world.retry()
    assert [call_id for call_id in ran.state.calls if call_id in ("c4", "c5", "c6")] == ["c4", "c5", "c6"]
    assert ran.state.termination is not None
    assert ran.state.reopenings[0].again == ()


async def test_the_hash_of_a_replay_covers_the_reopening(world: World) -> None:
    world.tool.fails["send"] = 1
    await world.start(PLAN)
    failed = replay(await world.store.load("goal-a"), await world.store.find("goal-a"))
    await world.retry()
    events, row = await world.store.load("goal-a"), await world.store.find("goal-a")
    done = replay(events, row)
    done.state.reopenings[:] = [replace(done.state.reopenings[0], reason="another")]
    assert len({failed.state_hash, done.state_hash, state_hash(done.state)}) == 3


async def test_a_comparison_shows_the_reopening(world: World) -> None:
    world.tool.fails["send"] = 1
    await world.start(PLAN)
    at_end = await world.store.load("goal-a")
    await world.retry()
    parted = compare(at_end, await world.store.load("goal-a"))
    assert (parted.left, parted.right[0].type) == ([], "reopened")


@pytest.mark.parametrize("kind", ["before", "at", "after"])
async def test_a_fork_at_or_beside_a_reopening_runs_what_was_due(world: World, kind: str) -> None:
    world.tool.fails["send"] = 1
    await world.start(PLAN)
    await world.retry()
    types = [event.type for event in await world.store.load("goal-a")]
    at = {"before": types.index("termination"), "at": types.index("reopened") + 1, "after": types.index("reopened") + 2}
    world.tool.effects.clear()
    await world.fork(at[kind])
    ran = await world.resume("goal-f")
    if kind == "before":  # its last event is the failure
        assert ran.state.status == "failed"
        ran = await world.retry("goal-f")
    assert ran.state.status == "done"
    assert world.tool.effects == {"send": 1, "tell": 1}


async def test_an_unknown_call_of_a_retry_is_due_again_in_a_fork_and_has_its_own_policy(world: World) -> None:
    plan = PLAN.replace("id: send, exec: [send]", "id: send, retry: {attempts: 2}, exec: [send]")
    codes = ["exit", "timeout"]

    async def run(context: CallContext) -> ToolOutput:
        if context.call.step == "send" and codes:
            error = ToolError(codes.pop(0), "no")
            return ToolOutput(context.call.call_id, ok=False, error=error)
        return ToolOutput(context.call.call_id, ok=True)

    world.tool.run = run  # type: ignore[method-assign]
    assert (await world.start(plan)).state.status == "failed"
    waiting = await world.retry()
    assert list(waiting.state.open_calls) == ["send.2"]
    codes[:] = ["exit", "exit"]
    await world.fork(waiting.state.head.seq)
    ran = await world.resume("goal-f")
    assert ran.state.status == "failed"
    assert len(_failures(ran.state, "send")) == 3  # the first one of the origin, and two of the policy


async def test_limits_count_across_a_retry(world: World) -> None:
    world.tool.fails["send"] = 1
    failed = await world.start(PLAN)
    done = await world.retry()
    assert done.state.used.iterations > failed.state.used.iterations


async def test_the_key_of_a_retry_is_on_its_reopened_event(world: World) -> None:
    world.tool.fails["command"] = 1
    await world.start(MindSpec("command"))
    done = await world.retry(key="again")
    assert done.state.status == "done"
    known = await world.store.posted_as("goal-a", "again")
    assert known is not None
    assert known[0] == "reopened"
