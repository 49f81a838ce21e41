"""A failed goal is retried: the failed steps are called again, everything else stays as it was recorded."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from perdure import Conflict, Retry, current_step
from perdure.errors import StepFailed
from perdure.kernel.events import (
    Decision,
    GoalBegun,
    Head,
    MindSpec,
    OutcomeUnknown,
    Reopened,
    Termination,
    ToolCall,
    ToolError,
    ToolOutput,
    seal,
)
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.reopening import NotRetried, plan_retry
from perdure.kernel.loop import RunResult
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.steps.failed_steps import failed_steps, tag_with_others, tag_with_steps
from perdure.minds.plan.plan_view import step_statuses
from tests.kernel.world import World
from tests.registered_flows import path_of


@dataclass
class Outside:
    """What steps do to the world; each name fails as often as it is told to."""

    done: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    fails: Counter[str] = field(default_factory=Counter)

    async def act(self, name: str) -> str:
        self.tried[name] += 1
        if self.fails[name] > 0:
            self.fails[name] -= 1
            raise ValueError(f"{name} is broken")
        self.done[name] += 1
        return name

    async def bad(self, name: str) -> Any:
        self.tried[name] += 1
        return object()


OUT = Outside()


@pytest.fixture(autouse=True)
def calm_outside() -> None:
    for counts in (OUT.done, OUT.tried, OUT.fails):
        counts.clear()


async def run(world: World, fn: Callable[..., Coroutine[Any, Any, Any]]) -> RunResult:
    return await world.start(MindSpec("flow", at=path_of(fn)))


async def state_of(world: World) -> GoalState:
    return fold(await world.store.load("goal-a"))


def steps_of_end(ran: RunResult) -> tuple[str, ...] | None:
    assert ran.state.termination is not None
    return ran.state.termination.steps


async def decide(world: World, call_id: str, verdict: str, value: Any = None) -> None:
    await world.store.post(
        "goal-a", "decision", {"call_id": call_id, "decision": verdict, "value": value}, key=f"{call_id} {verdict}"
    )


async def test_a_failed_step_of_a_flow_is_called_again_and_the_rest_stays_recorded(world: World) -> None:
    OUT.fails["pay"] = 1

    async def order(goal: Goal) -> list[str]:
        return [await goal.options(name=name).step(OUT.act, name) for name in ("reserve", "pay", "ship")]

    failed = await run(world, order)
    assert (failed.state.status, steps_of_end(failed)) == ("failed", ("/pay#0",))
    retried = await world.retry()
    assert retried.state.termination == Termination("done", value=["reserve", "pay", "ship"])
    assert OUT.tried == {"reserve": 1, "pay": 2, "ship": 1}
    assert list(retried.state.calls) == ["/reserve#0.1", "/pay#0.1", "/pay#0.2", "/ship#0.1"]


async def test_a_retried_step_has_its_own_intent_and_key(world: World) -> None:
    keys: list[str] = []
    OUT.fails["pay"] = 1

    async def order(goal: Goal) -> None:
        async def pay() -> None:
            keys.append(current_step().idempotency_key)
            await OUT.act("pay")

        await goal.step(pay)

    await run(world, order)
    retried = await world.retry()
    assert keys == ["goal-a//pay#0.1", "goal-a//pay#0.2"]
    calls = [call.call for call in retried.state.calls.values()]
    assert [call.attempt for call in calls if isinstance(call, ToolCall)] == [1, 2]


async def test_a_retry_has_the_whole_retry_policy_again(world: World) -> None:
    OUT.fails["pay"] = 5

    async def order(goal: Goal) -> str:
        return str(await goal.options(retry=Retry(3, initial=3600, factor=1)).step(OUT.act, "pay"))

    await run(world, order)
    assert OUT.tried["pay"] == 3
    began_us = world.clock.now
    retried = await world.retry()
    assert retried.state.termination == Termination("done", value="pay")
    assert OUT.tried["pay"] == 6
    assert world.clock.now - began_us == pytest.approx(2 * 3600e6, rel=0.01)  # the first try is due at once


async def test_a_goal_that_fails_again_can_be_retried_again(world: World) -> None:
    OUT.fails["pay"] = 3

    async def order(goal: Goal) -> str:
        return str(await goal.step(OUT.act, "pay"))

    await run(world, order)
    for _ in range(2):
        assert (await world.retry()).state.status == "failed"
    retried = await world.retry()
    assert retried.state.termination == Termination("done", value="pay")
    assert [reopened.again for reopened in retried.state.reopenings] == [("/act#0.1",), ("/act#0.2",), ("/act#0.3",)]


async def test_every_failed_branch_of_a_gather_is_called_again(world: World) -> None:
    OUT.fails.update({"a": 1, "c": 1})

    async def three(goal: Goal) -> list[Any]:
        return await goal.gather(*(goal.options(name=name).step(OUT.act, name) for name in "abc"))

    failed = await run(world, three)
    assert steps_of_end(failed) == ("g1.0/a#0", "g1.2/c#0")
    assert (await world.retry()).state.termination == Termination("done", value=["a", "b", "c"])
    assert OUT.tried == {"a": 2, "b": 1, "c": 2}


async def test_a_failure_that_the_flow_caught_is_replayed_as_a_failure(world: World) -> None:
    OUT.fails.update({"fast": 1, "pay": 1})

    async def order(goal: Goal) -> str:
        try:
            how = await goal.options(name="fast").step(OUT.act, "fast")
        except ValueError:
            how = await goal.options(name="slow").step(OUT.act, "slow")
        await goal.options(name="pay").step(OUT.act, "pay")
        return str(how)

    failed = await run(world, order)
    assert steps_of_end(failed) == ("/pay#0",)
    assert (await world.retry()).state.termination == Termination("done", value="slow")
    assert OUT.tried == {"fast": 1, "slow": 1, "pay": 2}


async def test_a_step_that_an_own_exception_was_raised_from_is_called_again(world: World) -> None:
    OUT.fails["pay"] = 1

    async def order(goal: Goal) -> str:
        try:
            return str(await goal.step(OUT.act, "pay"))
        except ValueError:
            raise RuntimeError("no order") from None

    failed = await run(world, order)
    assert (steps_of_end(failed), failed.state.termination and failed.state.termination.reason) == (
        ("/act#0",),
        "fatal_error",
    )
    assert (await world.retry()).state.termination == Termination("done", value="pay")


async def test_a_flow_with_a_bug_runs_again_over_what_it_recorded(world: World) -> None:
    bugs = [True]

    async def order(goal: Goal) -> str:
        found = await goal.step(OUT.act, "pay")
        if bugs:
            raise NameError("shipp")
        return str(found)

    failed = await run(world, order)
    assert steps_of_end(failed) == ()
    bugs.clear()
    retried = await world.retry()
    assert retried.state.termination == Termination("done", value="pay")
    assert retried.state.reopenings[0].again == ()
    assert OUT.tried["pay"] == 1


async def _compensated_in_handler(goal: Goal) -> None:
    try:
        await goal.options(name="pay").step(OUT.act, "pay")
    except ValueError:
        await goal.options(name="refund").step(OUT.act, "refund")
        raise


async def _compensated_around_a_gather(goal: Goal) -> None:
    try:
        await goal.gather(
            goal.options(name="pay").step(OUT.act, "pay"), goal.options(name="pack").step(OUT.act, "pack")
        )
    except ValueError:
        await goal.options(name="refund").step(OUT.act, "refund")
        raise


async def _compensated_by_a_gather(goal: Goal) -> None:
    try:
        await goal.options(name="pay").step(OUT.act, "pay")
    except ValueError:
        await goal.gather(goal.options(name="refund").step(OUT.act, "refund"))
        raise


async def _compensated_by_a_second_gather(goal: Goal) -> None:
    try:
        await goal.gather(goal.options(name="pay").step(OUT.act, "pay"))
    except ValueError:
        await goal.gather(goal.options(name="refund").step(OUT.act, "refund"))
        raise


@pytest.mark.parametrize(
    ("fn", "pay", "refund"),
    [
        (_compensated_in_handler, "/pay#0", "/refund#0"),
        (_compensated_around_a_gather, "g1.0/pay#0", "/refund#0"),
        (_compensated_by_a_gather, "/pay#0", "g1.0/refund#0"),
        (_compensated_by_a_second_gather, "g1.0/pay#0", "g2.0/refund#0"),
    ],
)
async def test_a_flow_that_ran_a_compensation_is_not_retried(
    world: World, fn: Callable[[Goal], Coroutine[Any, Any, None]], pay: str, refund: str
) -> None:
    OUT.fails["pay"] = 1
    await run(world, fn)
    with pytest.raises(NotRetried) as refused:
        await world.retry()
    assert refund in refused.value.what
    assert refused.value.detail.endswith(f"perdure goal fork goal-a --before '{pay}'")
    assert (await state_of(world)).status == "failed"
    assert OUT.tried["pay"] == 1


async def test_a_step_that_a_sibling_began_after_the_failure_is_not_a_compensation(world: World) -> None:
    OUT.fails["pay"] = 1

    async def two(goal: Goal) -> str:
        await goal.options(name="pack").step(OUT.act, "pack")
        return str(await goal.options(name="label").step(OUT.act, "label"))

    async def order(goal: Goal) -> list[Any]:
        return list(await goal.gather(goal.options(name="pay").step(OUT.act, "pay"), two(goal)))

    await run(world, order)
    assert (await world.retry()).state.termination == Termination("done", value=["pay", "label"])
    assert OUT.tried == {"pay": 2, "pack": 1, "label": 1}


async def test_a_once_step_whose_result_cannot_be_kept_waits_for_a_decision(world: World) -> None:
    async def order(goal: Goal) -> Any:
        return await goal.step(OUT.bad, "pay")

    waiting = await run(world, order)
    assert (waiting.state.status, waiting.state.waiting_for) == ("waiting", "person")
    assert OUT.tried["pay"] == 1
    await decide(world, "/bad#0.1", "skip", "paid")
    assert (await world.resume()).state.termination == Termination("done", value="paid")
    assert OUT.tried["pay"] == 1


async def test_a_once_step_that_timed_out_is_called_again_when_a_person_says_so(world: World) -> None:
    async def slow(name: str) -> str:
        OUT.tried[name] += 1
        if OUT.tried[name] == 1:
            await asyncio.Event().wait()
        return name

    async def order(goal: Goal) -> Any:
        return await goal.options(timeout_s=0.01).step(slow, "pay")

    assert (await run(world, order)).state.status == "failed"
    assert (await world.retry()).state.waiting_for == "person"
    await decide(world, "/slow#0.1", "retry")
    done = await world.resume()
    assert done.state.termination == Termination("done", value="pay")
    assert list(done.state.calls) == ["/slow#0.1", "/slow#0.2"]


async def test_an_aborted_step_is_unknown_again_and_can_be_aborted_and_retried_again(world: World) -> None:
    async def order(goal: Goal) -> Any:
        return await goal.step(OUT.bad, "pay")

    assert (await run(world, order)).state.waiting_for == "person"
    for number in range(2):
        if number > 0:
            assert (await world.retry()).state.waiting_for == "person"
        await world.store.post(
            "goal-a",
            "decision",
            {"call_id": "/bad#0.1", "decision": "abort"},
            key=f"abort {(await state_of(world)).head.seq}",
        )
        aborted = await world.resume()
        assert (aborted.state.status, steps_of_end(aborted)) == ("failed", ("/bad#0",))
    assert (await world.retry()).state.waiting_for == "person"
    await decide(world, "/bad#0.1", "skip", "paid")
    assert (await world.resume()).state.termination == Termination("done", value="paid")
    assert OUT.tried["pay"] == 1


async def test_a_pure_step_that_failed_is_called_again(world: World) -> None:
    OUT.fails["read"] = 1

    async def order(goal: Goal) -> Any:
        return await goal.options(effect="pure").step(OUT.act, "read")

    await run(world, order)
    assert (await world.retry()).state.termination == Termination("done", value="read")


async def test_changed_code_is_found_before_the_goal_is_reopened(world: World) -> None:
    OUT.fails["pay"] = 1
    names = ["reserve"]

    async def order(goal: Goal) -> None:
        await goal.options(name=names[0]).step(OUT.act, "reserve")
        await goal.step(OUT.act, "pay")

    await run(world, order)
    before = len(await world.store.load("goal-a"))
    names[0] = "book"
    with pytest.raises(Conflict, match="does not match the history of this goal"):
        await world.retry()
    assert len(await world.store.load("goal-a")) == before


async def test_the_failed_command_is_run_again(world: World) -> None:
    world.tool.fails["command"] = 1
    failed = await world.start(MindSpec("command"))
    assert steps_of_end(failed) == ("command",)
    assert (await world.retry()).state.status == "done"
    assert world.tool.effects["command"] == 2


PLAN = """
goal: release
steps:
  - {id: build, exec: "true"}
  - {id: deploy, exec: "true", needs: [build]}
  - {id: test, exec: "true", needs: [build]}
  - {id: announce, exec: "true", needs: [deploy, test]}
  - {id: page, exec: "true", needs: [deploy], if: {step: deploy, is: failed}}
"""


async def test_every_failed_step_of_a_plan_is_run_again_and_skipped_ones_become_possible(world: World) -> None:
    world.tool.fails.update({"deploy": 1, "test": 1})
    failed = await world.start(PLAN)
    assert steps_of_end(failed) == ("deploy", "test")
    done = await world.retry()
    assert done.state.status == "done"
    assert world.tool.effects == {"build": 1, "deploy": 2, "test": 2, "announce": 1, "page": 1}


async def test_a_plan_step_that_ran_because_of_the_failure_stays_as_recorded(world: World) -> None:
    world.tool.fails["deploy"] = 1
    await world.start(PLAN)
    done = await world.retry()
    assert world.tool.effects["page"] == 1
    assert step_statuses(done.state)["page"].status == "done"


async def test_a_failed_step_that_asks_for_a_failure_waits_for_the_next_one(world: World) -> None:
    world.tool.fails.update({"deploy": 1, "page": 1})
    failed = await world.start(PLAN)
    assert steps_of_end(failed) == ("deploy", "page")
    done = await world.retry()
    assert done.state.status == "done"
    assert world.tool.effects["page"] == 1  # nothing failed the second time
    assert step_statuses(done.state)["page"].status == "skipped"


async def test_a_failed_step_that_asks_for_a_failure_is_run_again_after_one(world: World) -> None:
    world.tool.fails.update({"deploy": 2, "page": 1})
    await world.start(PLAN)
    failed = await world.retry()
    assert steps_of_end(failed) == ("deploy",)
    assert world.tool.effects["page"] == 2
    assert (await world.retry()).state.status == "done"
    assert world.tool.effects["page"] == 2


def test_a_failed_goal_of_a_model_is_reopened_without_a_call() -> None:
    state = _history(GoalBegun("g", MindSpec("model")), Termination("no_progress"))
    assert plan_retry(state, by="person") == Reopened("person", None, ended_seq=2)


def _history(*bodies: Any) -> GoalState:
    events, head = [], Head("g")
    for body in bodies:
        events.append(seal(body, head, event_id="e", iteration=0, timestamp_us=0))
        head = Head("g", events[-1].seq, events[-1].hash)
    return fold(events)


def _call(step: str) -> ToolCall:
    return ToolCall(f"{step}.1", step, "step", {"digest": ""}, "once")


def _failure(step: str, code: str = "ValueError") -> ToolOutput:
    return ToolOutput(f"{step}.1", ok=False, error=ToolError(code, "no"))


OLD_END = Termination("failed", steps=None)


def test_a_flow_of_version_1_retries_the_failed_steps_that_nothing_came_after() -> None:
    caught, last = "/fast#0", "/pay#0"
    state = _history(
        *(GoalBegun("g", MindSpec("flow")), _call(caught), _failure(caught)),
        *(_call(last), _failure(last), OLD_END),
    )
    assert plan_retry(state, by="person").again == (f"{last}.1",)


def test_a_flow_of_version_1_that_ended_by_an_error_of_its_own_repeats_no_failure_that_it_caught() -> None:
    caught = "/fast#0"
    state = _history(
        *(GoalBegun("g", MindSpec("flow")), _call(caught), _failure(caught)),
        Termination("fatal_error", "KeyError: 'a'", steps=None),
    )
    assert plan_retry(state, by="person") == Reopened("person", None, ended_seq=4)


def test_a_flow_of_version_1_that_reacted_to_its_failure_is_not_retried() -> None:
    failed, reaction = "/pay#0", "/refund#0"
    state = _history(
        *(GoalBegun("g", MindSpec("flow")), _call(failed), _failure(failed)),
        *(_call(reaction), ToolOutput(f"{reaction}.1", ok=True), OLD_END),
    )
    with pytest.raises(NotRetried, match=f"after step {failed} had failed, the flow began {reaction}"):
        plan_retry(state, by="person")


def test_a_plan_of_version_1_retries_every_failed_step() -> None:
    state = _history(
        *(GoalBegun("g", MindSpec("plan")), _call("a"), _failure("a")),
        *(_call("b"), _failure("b", "timeout"), OLD_END),
    )
    planned = plan_retry(state, by="person")
    assert (planned.again, planned.unknown) == (("a.1",), ("b.1",))


@pytest.mark.parametrize("code", ["timeout", "bad_result", "cancelled", "signal"])
def test_a_once_call_that_may_have_happened_is_unknown_and_any_other_is_called_again(code: str) -> None:
    once, safe = _call("/once#0"), replace(_call("/safe#0"), effect="idempotent")
    state = _history(
        GoalBegun("g", MindSpec("plan")),
        *(once, safe, _failure("/once#0", code), _failure("/safe#0", code)),
        Termination("failed", steps=("/once#0", "/safe#0")),
    )
    planned = plan_retry(state, by="person")
    assert (planned.again, planned.unknown) == (("/safe#0.1",), ("/once#0.1",))


def test_an_aborted_call_is_unknown_whatever_its_effect() -> None:
    state = _history(
        *(GoalBegun("g", MindSpec("plan")), replace(_call("a"), effect="idempotent")),
        *(OutcomeUnknown("a.1", "lost"), Decision("a.1", "abort"), Termination("failed", steps=("a",))),
    )
    assert plan_retry(state, by="person").unknown == ("a.1",)


@pytest.mark.parametrize(
    ("reason", "offered"), [("done", "perdure goal fork g --before a"), ("cancelled", "perdure goal fork g --before b")]
)
def test_a_goal_that_has_not_failed_is_not_retried_and_a_fork_is_offered(reason: Any, offered: str) -> None:
    state = _history(
        *(GoalBegun("g", MindSpec("plan")), _call("a"), ToolOutput("a.1", ok=True)),
        *(_call("b"), ToolOutput("b.1", ok=True), Termination(reason)),
    )
    with pytest.raises(NotRetried, match="Only a failed goal can be retried") as refused:
        plan_retry(state, by="person")
    assert refused.value.detail.endswith(offered)


@pytest.mark.parametrize("begun", [GoalBegun("g", MindSpec("plan"))])
def test_a_goal_that_runs_is_not_retried(begun: GoalBegun) -> None:
    with pytest.raises(NotRetried, match="is open"):
        plan_retry(_history(begun), by="person")


def _raised(error: BaseException, cause: BaseException | None = None, context: BaseException | None = None) -> Any:
    error.__cause__, error.__context__ = cause, context
    return error


def _tagged(step: str) -> StepFailed:
    failed = StepFailed("e", "no", step=step)
    tag_with_steps(failed, [step])
    return failed


def test_failed_steps_are_found_in_causes_contexts_groups_and_gathers() -> None:
    one, two, three, four = (_tagged(step) for step in ("/1", "/2", "/3", "/4"))
    chained = _raised(ValueError("x"), cause=one, context=two)
    group = BaseExceptionGroup("all", [chained, tag_with_others([three, four])])
    assert set(failed_steps(group)) == {"/1", "/2", "/3", "/4"}


def test_a_circle_of_exceptions_is_walked_once() -> None:
    one, two = _tagged("/1"), ValueError("x")
    _raised(one, cause=two)
    _raised(two, cause=one)
    assert failed_steps(two) == ("/1",)
