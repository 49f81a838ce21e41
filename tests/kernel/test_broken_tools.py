"""A tool that raises after its effect may have begun: the call is unknown, and is not repeated by itself."""

import asyncio
import errno
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from perdure import Conflict, Unavailable, failpoints
from perdure.errors import PerdureError
from perdure.kernel.calls.decisions import choose
from perdure.kernel.events import Event, OutcomeUnknown, Termination, ToolOutput, decode
from perdure.kernel.fold import GoalState
from perdure.kernel.history.replay import replay
from perdure.kernel.loop import Loop
from perdure.kernel.tool import CallContext, Check
from tests.kernel.test_decisions import post
from tests.kernel.world import CountingTool, World

RETRYING = """
goal: retry
steps:
  - {id: send, exec: [send], effect: EFFECT, retry: {attempts: 4}}
  - {id: after, exec: [after], needs: [send]}
"""
ONCE = RETRYING.replace("EFFECT", "once")
BESIDE = """
goal: beside
steps:
  - {id: send, exec: [send], retry: {attempts: 4}}
  - {id: long, exec: [long]}
"""
NO_MORE_FILES = OSError(errno.EMFILE, "Too many open files")


def raising(error: Exception, *, times: int = 1000, step: str = "send") -> Callable[[CallContext], None]:
    """Have the effect, and then raise, so many times."""
    left = times

    def explode(context: CallContext) -> None:
        nonlocal left
        if context.call.step == step and left > 0:
            left -= 1
            raise error

    return explode


def unknown_calls(state: GoalState) -> list[str]:
    return [call_id for call_id, call in state.open_calls.items() if call.unknown is not None]


@pytest.mark.parametrize(
    "error",
    [NO_MORE_FILES, MemoryError(), RuntimeError("can't start new thread"), Unavailable("no room"), KeyError("bug")],
    ids=lambda error: type(error).__name__,
)
async def test_a_once_call_that_raised_is_unknown_and_not_tried_again(world: World, error: Exception) -> None:
    world.tool.during = raising(error)
    ran = await world.start(ONCE)
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")
    assert unknown_calls(ran.state) == ["send.1"]
    assert world.tool.effects == {"send": 1}
    assert unknown_calls((await world.resume()).state) == ["send.1"]
    assert world.tool.effects == {"send": 1}


async def test_the_reason_of_an_unknown_outcome_names_the_error(world: World) -> None:
    world.tool.during = raising(OSError(errno.EMFILE, "Too many open files", "/proc/\udce9"))
    unknown = (await world.start(ONCE)).state.calls["send.1"].unknown
    assert unknown is not None
    assert "Too many open files" in unknown.why


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_call_that_may_be_repeated_and_raised_has_failed_and_is_tried_again(world: World, effect: str) -> None:
    world.tool.during = raising(NO_MORE_FILES, times=1)
    ran = await world.start(RETRYING.replace("EFFECT", effect))
    assert ran.state.status == "done"
    assert world.tool.effects == {"send": 2, "after": 1}
    assert world.tool.reaped == ["send.1"], "what the first try left running is ended before the second"


async def test_an_error_before_the_tool_is_asked_is_a_failure_and_is_tried_again(world: World) -> None:
    left = [NO_MORE_FILES]

    def fail_once() -> None:
        if left:
            raise left.pop()

    with failpoints.armed("kernel.effect.before", fail_once):
        ran = await world.start(ONCE)
    assert ran.state.status == "done"
    assert world.tool.effects == {"send": 1, "after": 1}


async def test_an_error_between_the_outcome_and_its_record_makes_it_unknown(world: World) -> None:
    def run_out_of_memory() -> None:
        raise MemoryError

    with failpoints.armed("kernel.effect.after", run_out_of_memory):
        ran = await world.start(ONCE)
    assert unknown_calls(ran.state) == ["send.1"]
    assert world.tool.effects == {"send": 1}


@pytest.mark.parametrize(("verdict", "effects"), [("skip", 1), ("retry", 2), ("abort", 1)])
async def test_a_person_decides_while_another_step_still_runs(world: World, verdict: str, effects: int) -> None:
    loops: list[Loop] = []
    is_begun, may_end = asyncio.Event(), asyncio.Event()

    async def then(context: CallContext) -> None:
        if context.call.step == "long":
            is_begun.set()
            await may_end.wait()

    def listen(loop: Loop) -> None:
        loops.append(loop)
        loop.journal.listen(hear)

    def hear(_events: Sequence[Event], state: GoalState) -> None:
        (told if unknown_calls(state) else decided).set()

    told, decided = asyncio.Event(), asyncio.Event()
    world.tool.during, world.tool.then, world.watch = raising(NO_MORE_FILES, times=1), then, listen
    running = asyncio.create_task(world.start(BESIDE))
    async with asyncio.timeout(20):
        await is_begun.wait()
        await told.wait()
        decided.clear()
        await post(world, choose(loops[0].state, verdict, None))
        loops[0].check_inbox()
        await decided.wait()
        may_end.set()
        ran = await running
    assert ran.state.status == ("failed" if verdict == "abort" else "done")
    assert world.tool.effects == {"send": effects, "long": 1}
    assert replay(await world.store.load("goal-a"), await world.store.find("goal-a")).state.status == ran.state.status


@pytest.mark.parametrize(("verdict", "effects"), [("skip", 1), ("retry", 2)])
async def test_a_person_decides_when_nothing_runs_any_more(world: World, verdict: str, effects: int) -> None:
    world.tool.during = raising(NO_MORE_FILES, times=1)
    ran = await world.start(ONCE)
    await post(world, choose(ran.state, verdict, None))
    assert (await world.resume()).state.status == "done"
    assert world.tool.effects == {"send": effects, "after": 1}


async def test_a_check_that_knows_that_it_happened_settles_the_call(world: World) -> None:
    world.tool.during = raising(NO_MORE_FILES)
    world.tool.checks["send"] = "happened"
    ran = await world.start(ONCE)
    assert ran.state.status == "done"
    assert world.tool.effects == {"send": 1, "after": 1}
    kinds = [type(decode(event)) for event in await world.store.load("goal-a")]
    assert kinds.index(OutcomeUnknown) < kinds.index(ToolOutput)


async def test_a_check_that_knows_that_it_did_not_happen_makes_it_a_failure_with_a_bounded_number_of_tries(
    world: World,
) -> None:
    world.tool.during = raising(NO_MORE_FILES)
    world.tool.checks["send"] = "not_happened"
    ran = await world.start(ONCE)
    assert ran.state.termination is not None
    assert ran.state.termination.reason == "failed"
    assert world.tool.effects == {"send": 4}, "the first try and three more"


class Crippled(CountingTool):
    """A tool that cannot look after what it began."""

    def __init__(self, method: str, error: Exception) -> None:
        super().__init__(during=raising(NO_MORE_FILES), checks={"send": "not_happened"})
        self._method = method
        self._error = error

    async def check(self, context: CallContext) -> Check:
        if self._method == "check":
            raise self._error
        return await super().check(context)

    async def reap(self, goal_id: str, call_id: str) -> None:
        if self._method == "reap":
            raise self._error
        await super().reap(goal_id, call_id)


@pytest.mark.parametrize("method", ["check", "reap"])
@pytest.mark.parametrize(
    "error", [NO_MORE_FILES, Unavailable("busy"), Conflict("another home's"), RuntimeError("can't start new thread")]
)
async def test_where_neither_check_nor_end_can_be_seen_to_the_call_stays_unknown(
    world: World, method: str, error: Exception
) -> None:
    world.tool = Crippled(method, error)
    ran = await world.start(ONCE)
    assert unknown_calls(ran.state) == ["send.1"]
    assert world.tool.effects == {"send": 1}
    unknown = ran.state.calls["send.1"].unknown
    assert unknown is not None
    assert (error.detail if isinstance(error, PerdureError) else str(error)) in unknown.why


@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_what_may_still_run_and_is_not_ours_to_end_is_neither_repeated_nor_checked(
    world: World, effect: str
) -> None:
    class Killed(BaseException):
        pass

    def die(_context: CallContext) -> None:
        raise Killed

    world.tool = Crippled("reap", Conflict("Process 7 belongs to another home."))
    world.tool.during = die
    with pytest.raises(Killed):
        await world.start(RETRYING.replace("EFFECT", effect))
    ran = await world.resume()
    unknown = ran.state.calls["send.1"].unknown
    assert unknown is not None
    assert "Process 7 belongs to another home." in unknown.why
    assert world.tool.effects == {"send": 1}


async def test_a_goal_is_cancelled_though_its_call_is_not_ours_to_end(world: World) -> None:
    class Killed(BaseException):
        pass

    def die(_context: CallContext) -> None:
        raise Killed

    world.tool = Crippled("reap", Conflict("Process 7 belongs to another home."))
    world.tool.during = die
    with pytest.raises(Killed):
        await world.start(RETRYING.replace("EFFECT", "idempotent"))
    await world.store.post("goal-a", "cancel", {}, key="k")
    state = await world.settle()
    assert state.termination == Termination("cancelled")
    assert unknown_calls(state) == ["send.1"]


async def test_a_cancelled_call_whose_end_could_not_be_seen_to_is_unknown(world: World) -> None:
    loops: list[Loop] = []
    is_begun = asyncio.Event()

    async def then(_context: CallContext) -> None:
        is_begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise NO_MORE_FILES from None

    world.tool.then, world.watch = then, loops.append
    running: asyncio.Task[Any] = asyncio.create_task(world.start(ONCE))
    await is_begun.wait()
    await world.store.post("goal-a", "cancel", {}, key="k")
    loops[0].check_inbox()
    state = (await running).state
    assert state.termination == Termination("cancelled")
    assert unknown_calls(state) == ["send.1"]
