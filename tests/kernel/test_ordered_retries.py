"""Calls of one answer that run in order: the next waits while a call whose outcome was unknown is run again."""

import asyncio
from contextlib import suppress
from dataclasses import replace

import pytest

from perdure import failpoints
from perdure.kernel.conversation.answer_feed import AnswerFeed
from perdure.kernel.events import Body, Decision, GoalBegun, MindSpec, OutcomeUnknown, ToolCall, ToolOutput
from perdure.kernel.fold import fold
from perdure.kernel.loop import RunResult
from perdure.kernel.tool import CallContext
from perdure.minds.model.mind import ModelHost, ModelMind
from tests.kernel.lives import Died
from tests.kernel.test_fold import history
from tests.kernel.world import World
from tests.minds.model.scripted import MODEL, Script, ScriptedModel, calls, says

BEGUN = GoalBegun("g", MindSpec("model"))
FIRST = ToolCall("a.1", "a", "exec", {"argv": ["a"]}, "once", by="model:test")
BEHIND = ToolCall("b.1", "b", "exec", {"argv": ["b"]}, "once", by="model:test", after="a.1")


def attempt(number: int) -> ToolCall:
    return replace(FIRST, call_id=f"a.{number}", attempt=number, by="person")


def retried(call_id: str) -> list[Body]:
    return [OutcomeUnknown(call_id, "killed"), Decision(call_id, "retry")]


@pytest.mark.parametrize("last", [ToolOutput("a.3", output="x"), Decision("a.3", "skip")], ids=["outcome", "skip"])
def test_a_call_waits_until_the_attempts_before_it_have_ended(last: Body) -> None:
    so_far: list[Body] = [BEGUN, FIRST, Decision("a.1", "approve"), BEHIND, *retried("a.1")]
    for number in (2, 3):
        state = fold(history(*so_far))
        assert (state.calls["b.1"].is_queued, state.waiting_for, state.status) == (True, None, "open")
        so_far += [attempt(number), *(retried("a.2") if number == 2 else [])]
    assert fold(history(*so_far)).calls["b.1"].is_queued
    ended = [*so_far, *([] if isinstance(last, ToolOutput) else [OutcomeUnknown("a.3", "killed")]), last]
    state = fold(history(*ended))
    assert (state.calls["b.1"].awaits_approval, state.queued) == (True, {})


def test_an_approved_call_has_begun_whatever_is_run_again_before_it() -> None:
    """Earlier commits began the next call of an answer although the one before it was to be run again."""
    begun = [BEGUN, FIRST, Decision("a.1", "approve"), BEHIND, *retried("a.1"), Decision("b.1", "approve")]
    assert fold(history(*begun)).calls["b.1"].runs
    ended = [*begun, attempt(2), ToolOutput("b.1"), ToolOutput("a.2")]
    assert fold(history(*ended)).settled == ["a.1", "b.1", "a.2"]


async def lived(world: World, *script: Script, is_resumed: bool = True) -> RunResult:
    world.minds.append(ModelMind(ModelHost(ScriptedModel([*script])), AnswerFeed()))
    life = world.resume() if is_resumed else world.start(MindSpec("model", model=MODEL))
    return await asyncio.wait_for(life, 10)


def die() -> None:
    raise Died


@pytest.mark.parametrize("point", [None, "kernel.append.before", "kernel.append.after", "kernel.effect.before"])
async def test_a_retried_call_of_a_model_ends_before_the_next_begins_also_after_a_kill(
    world: World, point: str | None
) -> None:
    order: list[str] = []

    async def slowly(context: CallContext) -> None:
        order.append(f"{context.call.call_id} begins")
        for _ in range(20):
            await asyncio.sleep(0)
        order.append(f"{context.call.call_id} ends")

    world.tool.then = slowly
    wanted = calls(("exec", {"argv": ["a"]}), ("exec", {"argv": ["b"]}))
    with failpoints.armed("kernel.effect.before", die), suppress(Died):
        await lived(world, wanted, is_resumed=False)
    assert (await lived(world)).state.waiting_for == "person"
    await world.store.post("goal-a", "decision", {"call_id": "t1.1", "decision": "retry"}, key="r")
    if point is not None:
        with failpoints.armed(point, die), suppress(Died):
            await lived(world)
    world.tool.checks = {"t1.1": "not_happened"}
    ran = await lived(world, says("both ran"))
    assert ran.state.status == "done"
    assert order == [f"{name} {what}" for name in ("t1.1.2", "t1.2") for what in ("begins", "ends")]
