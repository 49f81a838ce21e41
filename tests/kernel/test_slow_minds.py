"""A mind that takes long to decide: the goal is served meanwhile, and calls of one decision can be ordered."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from perdure import NotFound, failpoints
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.conversation.parts import TextPart
from perdure.kernel.events import Body, Decision, Limits, MindSpec, ModelTurn, Termination, ToolCall, ToolOutput, decode
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.loop import Loop, RunResult
from perdure.kernel.mind import Proposal
from perdure.kernel.tool import CallContext, Judgement, Verdict
from tests.kernel.lives import Died
from tests.kernel.world import FixedPolicy, ScriptedMind, World

SO_FAR = ModelTurn(1, "m:a", "m", (TextPart("so far"),), "interrupted")
END = Proposal(end=Termination("done"))


def call(step: str, **arguments: Any) -> ToolCall:
    return ToolCall(f"{step}.1", step, "exec", {"argv": [step], **arguments}, "once", by="model:test")


@dataclass
class SlowMind:
    """Decides as its function says, and notes when it is asked and whether it was cancelled."""

    decide_as: Callable[["SlowMind", GoalState], Awaitable[Proposal]]
    asked_at: list[int] = field(default_factory=list)
    is_cancelled: bool = False
    is_slow: bool = True
    opening: Sequence[Body] = ()

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:  # noqa: ARG002 (as the port says)
        return self.opening

    async def close(self) -> None:
        pass

    async def decide(self, state: GoalState, now_us: int) -> Proposal:  # noqa: ARG002 (as the port says)
        self.asked_at.append(state.head.seq)
        try:
            return await self.decide_as(self, state)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise

    def has_news(self) -> bool:
        return False

    def take_abandoned(self) -> Sequence[str]:
        return ()

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:  # noqa: ARG002 (as the port says)
        return {}


async def bodies(world: World) -> list[Body]:
    return [decode(event) for event in await world.store.load("goal-a")]


async def begin(world: World, mind: SlowMind) -> tuple["asyncio.Task[RunResult]", Loop]:
    """Start a goal of a slow mind; return when the mind was asked."""
    loops: list[Loop] = []
    world.watch = loops.append
    world.minds.append(mind)
    task = asyncio.create_task(world.start(MindSpec("model")))
    async with asyncio.timeout(5):
        while not mind.asked_at and not task.done():  # noqa: ASYNC110 (the loop asks it)
            await asyncio.sleep(0)
    return task, loops[0]


async def never(_mind: SlowMind, _state: GoalState) -> Proposal:
    await asyncio.Event().wait()
    raise AssertionError


async def test_what_was_recorded_is_durable_before_a_slow_mind_is_asked(world: World) -> None:
    stored: list[int] = []

    async def decide(mind: SlowMind, state: GoalState) -> Proposal:
        stored.append(len(await world.store.load("goal-a")))
        assert stored[-1] == mind.asked_at[-1]
        return END if state.calls else Proposal([call("a")])

    world.minds.append(SlowMind(decide))
    ran = await world.start(MindSpec("model"))
    assert ran.state.status == "done"
    assert stored[0] == 1
    assert stored[-1] == ran.state.head.seq - 1  # all but the end, also the outcome of the call


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_slow_mind_costs_one_commit_more_for_each_decision(world: World, *, is_slow: bool) -> None:
    commits: list[int] = []
    world.watch = lambda loop: loop.journal.listen(lambda events, _state: commits.append(len(events)))
    world.minds.append(ScriptedMind([Proposal([call("a")]), Proposal([call("b")]), END], is_slow=is_slow))
    ran = await world.start(MindSpec("model"))
    assert ran.state.status == "done"
    begun, outcome, end = 1, 1, 1
    calls = 2  # the intent, and its approval
    fast = [begun + calls, outcome + calls, outcome + end]
    slow = [begun, calls, outcome, calls, outcome, end]
    assert commits == (slow if is_slow else fast)


async def test_a_cancel_is_taken_while_a_slow_mind_decides(world: World) -> None:
    mind = SlowMind(never)
    task, loop = await begin(world, mind)
    await world.store.post("goal-a", "cancel", {"reason": "enough"}, key="c")
    loop.check_inbox()
    ran = await asyncio.wait_for(task, 5)
    assert (ran.state.status, ran.state.head.seq) == ("cancelled", 2)
    assert mind.is_cancelled


async def test_a_stop_ends_a_slow_decision_and_releases_the_goal(world: World) -> None:
    mind = SlowMind(never)
    task, loop = await begin(world, mind)
    loop.stop()
    ran = await asyncio.wait_for(task, 5)
    assert (ran.outcome, ran.state.status, mind.is_cancelled) == ("interrupted", "open", True)
    world.minds.append(ScriptedMind([END]))
    assert (await world.resume()).state.status == "done"


async def test_what_a_mind_has_by_the_time_of_a_stop_is_recorded(world: World) -> None:
    async def decide(mind: SlowMind, state: GoalState) -> Proposal:
        try:
            return await never(mind, state)
        except asyncio.CancelledError:
            return Proposal(events=[SO_FAR])

    task, loop = await begin(world, SlowMind(decide))
    loop.stop()
    assert (await asyncio.wait_for(task, 5)).outcome == "interrupted"
    assert (await bodies(world))[-1] == SO_FAR


async def test_a_mind_that_does_not_let_itself_be_stopped_is_left_alone(world: World) -> None:
    release = asyncio.Event()

    async def decide(_mind: SlowMind, _state: GoalState) -> Proposal:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        return END

    world.end_within_s = 0.01
    task, loop = await begin(world, SlowMind(decide))
    loop.stop()
    assert (await asyncio.wait_for(task, 5)).outcome == "interrupted"
    release.set()
    assert len(await bodies(world)) == 1


async def test_signals_and_limits_that_are_posted_meanwhile_are_recorded_and_the_mind_is_asked_again(
    world: World,
) -> None:
    posted = asyncio.Event()

    async def decide(_mind: SlowMind, state: GoalState) -> Proposal:
        if state.signals:
            return END
        await posted.wait()
        return Proposal()

    mind = SlowMind(decide)
    task, loop = await begin(world, mind)
    await world.store.post("goal-a", "signal", {"name": "go"}, key="s")
    loop.check_inbox()
    async with asyncio.timeout(5):
        while len(await bodies(world)) < 2:  # noqa: ASYNC110 (as stored)
            await asyncio.sleep(0)
    posted.set()
    assert (await asyncio.wait_for(task, 5)).state.status == "done"
    assert mind.asked_at == [1, 2]


async def test_outcomes_are_durable_while_a_slow_mind_decides(world: World) -> None:
    ended = asyncio.Event()

    async def finish(context: CallContext) -> None:
        if context.call.step == "b":
            await ended.wait()

    async def decide(mind: SlowMind, state: GoalState) -> Proposal:
        if not state.calls:
            return Proposal([call("a"), call("b")])
        if state.open_calls and len(mind.asked_at) == 2:
            ended.set()
            async with asyncio.timeout(5):
                while len(await bodies(world)) <= mind.asked_at[-1]:  # noqa: ASYNC110 (as stored)
                    await asyncio.sleep(0)
        return Proposal() if state.open_calls else END

    world.tool.then = finish
    world.minds.append(SlowMind(decide))
    assert (await asyncio.wait_for(world.start(MindSpec("model")), 10)).state.status == "done"


async def test_an_error_of_a_slow_mind_is_that_of_its_run(world: World) -> None:
    async def decide(_mind: SlowMind, _state: GoalState) -> Proposal:
        await asyncio.sleep(0)
        raise ValueError("no answer")

    world.minds.append(SlowMind(decide))
    with pytest.raises(ValueError, match="no answer"):
        await world.start(MindSpec("model"))


async def test_a_goal_at_its_limit_asks_no_slow_mind(world: World) -> None:
    mind = SlowMind(never)
    world.minds.append(mind)
    ran = await world.start(MindSpec("model"), limits=Limits(iterations=0))
    assert (ran.state.waiting_for, mind.asked_at) == ("limit", [])


@pytest.mark.parametrize("is_slow", [False, True])
async def test_ordered_calls_begin_one_after_the_other(world: World, *, is_slow: bool) -> None:
    running: set[str] = set()

    async def alone(context: CallContext) -> None:
        assert not running
        running.add(context.call.step)
        await asyncio.sleep(0)
        running.clear()

    world.tool.then = alone
    ordered = Proposal([call("a"), call("b"), call("c")], in_order=True)
    world.minds.append(ScriptedMind([ordered, END], is_slow=is_slow))
    ran = await world.start(MindSpec("model"))
    assert ran.state.status == "done"
    assert ran.state.settled == ["a.1", "b.1", "c.1"]
    written = [body for body in await bodies(world) if isinstance(body, ToolCall | Decision | ToolOutput)]
    assert [(type(body).__name__, body.call_id[0]) for body in written] == [
        *(("ToolCall", "a"), ("Decision", "a"), ("ToolCall", "b"), ("ToolCall", "c")),
        *(("ToolOutput", "a"), ("Decision", "b"), ("ToolOutput", "b"), ("Decision", "c"), ("ToolOutput", "c")),
    ]


async def test_the_approval_of_an_ordered_call_is_in_the_commit_of_the_outcome_before_it(world: World) -> None:
    commits: list[list[str]] = []
    world.watch = lambda loop: loop.journal.listen(
        lambda events, _state: commits.append([each.type for each in events])
    )
    await world.script(Proposal([call("a"), call("b")], in_order=True), END)
    assert commits == [
        ["goal", "action", "decision", "action"],
        ["tool_output", "decision"],
        ["tool_output", "termination"],
    ]


async def test_an_ordered_call_waits_for_the_approval_of_the_one_before_it(world: World) -> None:
    world.policy = FixedPolicy("ask")
    ran = await world.script(Proposal([call("a"), call("b")], in_order=True))
    assert (ran.state.waiting_for, [each.awaits_approval for each in ran.state.open_calls.values()]) == (
        "person",
        [True, False],
    )
    assert not world.tool.effects
    world.policy = FixedPolicy("allow")
    world.minds.append(ScriptedMind([END]))
    assert (await world.resume()).state.status == "done"
    assert list(world.tool.effects) == ["a", "b"]


async def test_a_denied_ordered_call_lets_the_next_one_have_its_turn(world: World) -> None:
    verdicts: dict[str, Verdict] = {"a": "allow", "b": "deny", "c": "allow"}

    class ByStep(FixedPolicy):
        def judge(self, call: ToolCall) -> Judgement:
            return Judgement(verdicts[call.step])

    world.policy = ByStep("allow")
    ran = await world.script(Proposal([call("a"), call("b"), call("c")], in_order=True), END)
    assert ran.state.status == "done"
    assert list(world.tool.effects) == ["a", "c"]


async def test_a_refused_ordered_call_is_not_a_link_of_the_chain(world: World) -> None:
    bad = ToolCall("b.1", "b", "fly", {}, "once", by="model:test")
    ran = await world.script(Proposal([call("a"), bad, call("c")], in_order=True), END)
    after = {each.call.step: each.call.after for each in ran.state.calls.values() if isinstance(each.call, ToolCall)}
    assert after == {"a": None, "b": "a.1", "c": "a.1"}
    assert ran.state.status == "done"


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize(
    "point", ["kernel.append.before", "kernel.append.after", "kernel.effect.before", "kernel.effect.after"]
)
@pytest.mark.parametrize("is_slow", [False, True])
async def test_an_ordered_call_without_an_approval_is_one_that_never_started_also_after_a_kill(
    world: World, point: str, number: int, *, is_slow: bool
) -> None:
    hits = 0

    def hit() -> None:
        nonlocal hits
        hits += 1
        if hits == number:
            raise Died

    async def note_approved(context: CallContext) -> None:
        stored = [body for body in await bodies(world) if isinstance(body, Decision) and body.decision == "approve"]
        assert context.call.call_id in {body.call_id for body in stored}

    world.tool.then = note_approved
    world.minds.append(ScriptedMind([Proposal([call("a"), call("b"), call("c")], in_order=True), END], is_slow=is_slow))
    with failpoints.armed(point, hit), suppress(Died):
        await world.start(MindSpec("model"))
    try:
        events = await world.store.load("goal-a")
    except NotFound:
        assert not world.tool.effects
        return
    state = fold(events)
    approved = {name for name, each in state.calls.items() if each.decision is not None}
    assert {f"{step}.1" for step in world.tool.effects} <= approved
    if state.termination is not None:
        return
    begun = dict(world.tool.effects)
    world.tool.checks = dict.fromkeys("abc", "unknown")
    world.minds.append(ScriptedMind([END] if state.calls else [Proposal([call("a")]), END], is_slow=is_slow))
    ran = await world.resume()
    unknown = [name for name, each in ran.state.open_calls.items() if each.unknown is not None]
    assert all(count == 1 for count in world.tool.effects.values())
    assert set(begun) <= set(world.tool.effects)
    if unknown:
        later = [name for name in ran.state.calls if name > unknown[0]]
        assert ran.state.waiting_for == "person"
        assert all(ran.state.calls[name].is_queued or not ran.state.calls[name].runs for name in later)
    else:
        assert ran.state.status == "done"
