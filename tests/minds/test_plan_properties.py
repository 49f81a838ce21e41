"""What holds for every plan and every course of events."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from perdure.kernel.events import Action, Ask, DecisionKind, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.mind import Proposal
from perdure.minds.plan.mind import PlanMind
from perdure.minds.plan.plan import Condition, Ending, Exec, Pause, Plan, PlanStep, Question, StepWork
from perdure.minds.retry import Retry
from perdure.minds.step_status import status_of_step
from tests.minds.history import SECOND_US, History

WORKS: Sequence[StepWork] = (Exec(("x",)), Exec(("x",)), Question("q"), Question("q", ("yes", "no")), Pause(seconds=1))
ANSWERS = ("yes", "no")
LOST: Sequence[DecisionKind] = ("retry", "skip", "abort")
PATIENCE = 500
"""No plan of the sizes below has so many decisions in it."""


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan of a few steps, in any order, each of which needs some of those drawn before it."""
    steps: list[PlanStep] = []
    for number in range(draw(st.integers(1, 7))):
        names = [step.id for step in steps]
        needs = draw(st.lists(st.sampled_from(names), unique=True, max_size=3)) if names else []
        retry = Retry(draw(st.integers(1, 3)), initial=draw(st.integers(0, 2)))
        step = PlanStep(f"s{number}", draw(st.sampled_from(WORKS)), tuple(needs), retry=retry)
        has_condition = draw(st.booleans())
        if needs and has_condition:
            step = replace(step, condition=draw(conditions([each for each in steps if each.id in needs])))
        steps.append(step)
    return Plan("g", tuple(draw(st.permutations(steps))))


@st.composite
def conditions(draw: st.DrawFn, needed: Sequence[PlanStep]) -> Condition:
    """How one of the needed steps must have ended, or what must have been answered to it."""
    need = draw(st.sampled_from(needed))
    if isinstance(need.work, Question) and draw(st.booleans()):
        return Condition(need.id, answer=draw(st.sampled_from(ANSWERS)))
    ending: Ending = draw(st.sampled_from(get_args(Ending)))
    return Condition(need.id, ending)


class World:
    """Whatever may happen to a goal, drawn by chance; and what must never happen, checked at each decision."""

    def __init__(self, plan: Plan, jobs: int, data: st.DataObject) -> None:
        self.plan = plan
        self.history = History(PlanMind(plan, jobs))
        self.steps = {step.id: step for step in plan.steps}
        self.jobs = jobs
        self.data = data
        self.retries_left = 3

    async def run(self) -> None:
        for _ in range(PATIENCE):
            before = {**self.history.state.calls}
            fresh = await self.fresh()
            again = await self.history.mind.decide(self.history.state, self.history.now_us)
            decided = await self.history.step()
            assert decided == again == fresh, "the same state gives the same answer, whoever is asked"
            self.check(decided.actions, before)
            if decided.end is not None:
                return
            self.happen(decided.wake_us)
            is_hasty: bool = self.data.draw(st.booleans())
            if is_hasty and self.history.state.open_calls:
                self.happen(None)
        raise AssertionError("the mind does not come to an end")

    async def fresh(self) -> Proposal:
        """What a mind decides that is made anew, after a resume."""
        mind, state = PlanMind(self.plan, self.jobs), self.history.folded()
        for each in self.history.state.calls.values():
            if isinstance(each.call, ToolCall):
                seen = self.history.mind.environment(self.history.state, each.call)
                assert mind.environment(state, each.call) == seen
        decided = await PlanMind(self.plan, self.jobs).decide(state, self.history.now_us)
        assert decided == await mind.decide(state, self.history.now_us)
        self.check_statuses(decided)
        return decided

    def check_statuses(self, decided: Proposal) -> None:
        """A decision is what the plain rules say, applied to all steps at once."""
        found = step_statuses(self.plan, self.history.state)
        expected = {name for name, each in found.items() if each in {"ready", "retry"}}
        assert {getattr(action, "step", "") for action in decided.actions} <= expected
        if decided.end is not None:
            assert {name: each["status"] for name, each in decided.end.value.items()} == found

    def check(self, actions: Sequence[Action], before: dict[str, CallState]) -> None:
        for action in actions:
            assert isinstance(action, ToolCall | Ask) or hasattr(action, "until")
            self.check_needs(getattr(action, "step", ""), before)
            self.check_attempt(getattr(action, "call_id", ""), before)
        working = [each for each in self.history.state.open_calls.values() if isinstance(each.call, ToolCall)]
        assert sum(each.unknown is None for each in working) <= self.jobs

    def check_needs(self, name: str, before: dict[str, CallState]) -> None:
        step = self.steps[name]
        for need in step.needs:
            calls = [each for each in before.values() if each.call.step == need]
            assert not any(each.is_open for each in calls)
            if step.condition is None or step.condition.step != need:
                assert calls, "a need that was not begun is not done"
                assert not _has_failed(calls[-1])

    def check_attempt(self, call_id: str, before: dict[str, CallState]) -> None:
        name, number = call_id.split(".")
        calls = [each for each in before.values() if each.call.step == name]
        assert len(calls) == int(number) - 1
        for each in calls:
            is_retried = each.decision is not None and each.decision.decision == "retry"
            assert is_retried or _has_failed(each)

    def happen(self, wake_us: int | None) -> None:
        """Let one open call end somehow, or let time pass until the mind wants to be woken."""
        open_calls = [*self.history.state.open_calls.values()]
        if wake_us is not None and (not open_calls or self.data.draw(st.booleans())):
            self.history.now_us = wake_us
            return
        assert open_calls, "nothing is open, nothing was started, and it is not over"
        self.history.now_us += self.data.draw(st.integers(0, 2)) * SECOND_US
        self.settle(self.data.draw(st.sampled_from(open_calls)))

    def settle(self, each: CallState) -> None:
        name = each.call.call_id
        if not isinstance(each.call, ToolCall):
            ends: Sequence[DecisionKind] = ("answer", "skip", "abort") if isinstance(each.call, Ask) else ("elapsed",)
            verdict = self.data.draw(st.sampled_from(ends))
            self.history.decide(
                name, verdict, self.data.draw(st.sampled_from(ANSWERS)) if verdict == "answer" else None
            )
        elif each.unknown is not None:
            self.retries_left -= 1
            self.history.decide(name, self.data.draw(st.sampled_from(LOST if self.retries_left > 0 else LOST[1:])))
        else:
            outcome = self.data.draw(st.sampled_from((self.history.succeed, self.history.fail, self.history.lose)))
            outcome(name)


def step_statuses(plan: Plan, state: GoalState) -> dict[str, str]:
    """Where each step stands, found in the slow and simple way: over and over, until nothing changes."""
    found = {step.id: str(status_of_step(state, step.id, step.retry).status) for step in plan.steps}
    is_failing = "failed" in found.values()
    for _ in plan.steps:
        for step in plan.steps:
            if found[step.id] == "pending":
                found[step.id] = not_begun(step, found, state, is_failing=is_failing)
    return found


def not_begun(step: PlanStep, found: dict[str, str], state: GoalState, *, is_failing: bool) -> str:
    condition = step.condition
    if is_failing and (condition is None or condition.ending != "failed"):
        return "skipped"
    wanted = dict.fromkeys(step.needs, "done") | ({condition.step: condition.ending} if condition else {})
    settled = {need for need in step.needs if found[need] in get_args(Ending)}
    if any(found[need] != wanted[need] for need in settled):
        return "skipped"
    if condition and condition.answer is not None and condition.step in settled:
        given = state.calls[f"{condition.step}.1"].decision
        if given is None or given.value != condition.answer:
            return "skipped"
    return "ready" if len(settled) == len(step.needs) else "pending"


def _has_failed(each: CallState) -> bool:
    if each.outcome is not None:
        return not each.outcome.ok
    return each.decision is not None and each.decision.decision == "abort"


@settings(deadline=None)  # a busy machine is no failure
@given(plans(), st.integers(1, 3), st.data())
def test_every_plan_ends_whatever_happens_and_keeps_its_promises_on_the_way(
    plan: Plan, jobs: int, data: st.DataObject
) -> None:
    asyncio.run(World(plan, jobs, data).run())


@settings(deadline=None)  # a busy machine is no failure
@given(plans(), st.integers(1, 3))
def test_a_plan_in_which_all_goes_well_ends_done(plan: Plan, jobs: int) -> None:
    async def run() -> str:
        history = History(PlanMind(plan, jobs))
        while (decided := await history.step()).end is None:
            for name, each in [*history.state.open_calls.items()]:
                if isinstance(each.call, ToolCall):
                    history.succeed(name)
                else:
                    history.decide(name, "answer")
        return decided.end.reason

    assert asyncio.run(run()) == "done"
