"""The progress of the steps of a plan, updated incrementally: an update costs only what is new in the state."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.minds.plan.graph import Graph
from perdure.minds.plan.plan import Condition, PlanStep
from perdure.minds.plan.step_env import Variable, variable
from perdure.minds.step_status import PENDING, READY, SKIPPED, StepStatus, status_of_step

Positions = list[int]
"""Indexes of steps in the file, sorted."""


class Progress:
    """The step_statuses of the steps of one goal. They depend only on the state, so they can be recomputed at any time.

    A settled step stays settled, so each step and each need is visited at most once in the life of a goal.
    """

    def __init__(self, graph: Graph, state: GoalState) -> None:
        self.state = state
        self.found: dict[str, StepStatus] = dict.fromkeys(graph.steps, PENDING)
        self.ready_tools: Positions = []
        self.ready_others: Positions = []
        self.again: Positions = []
        self.outputs: dict[str, Variable] = {}
        """The outputs of steps, as variables for the steps that need them."""
        self.is_failing = False
        self.is_aborted = False
        self._graph = graph
        self._names = [*graph.steps]
        self._calls_seen = 0
        self._open: set[str] = set()
        self._unsettled = len(self.found)
        self._news: list[str] = []
        self._missing = {name: len(step.needs) for name, step in graph.steps.items()}
        for name, count in self._missing.items():
            if count == 0:
                self._put(name, READY)

    @property
    def is_over(self) -> bool:
        """Whether all steps are settled; a failed goal does not wait for questions and pauses that no step needs."""
        return self._unsettled == (sum(map(self._only_waits, self._open)) if self.is_failing else 0)

    def update(self) -> None:
        """Apply the changes of the state since the last update."""
        touched = self._open | {step for step in self._new_steps() if step in self.found}
        was_failing = self.is_failing
        for name in touched:
            before = self.found[name]
            now = status_of_step(self.state, name, self._graph.steps[name].retry, after=before.attempt)
            if now.last is not before.last:
                self._put(name, self._pend_if_early(name, now))
        self._propagate_all(was_failing=was_failing)

    def fail_late(self, now_us: int) -> None:
        """Fail the steps whose next attempt did not begin before the deadline of their retry policy.

        The start of any call after the deadline counts like the clock: that call may have been started because of the
        failure, which must not be undone if the clock is set back.
        """
        limited = [name for name in (self._names[at] for at in self.again) if self.found[name].until_us is not None]
        if not limited:
            return
        was_failing = self.is_failing
        latest_us = max(now_us, *(call.began_us for call in self.state.calls.values()))
        for name in limited:
            if self.found[name].is_too_late(latest_us):
                self._put(name, replace(self.found[name], status="failed"))
        self._propagate_all(was_failing=was_failing)

    def _pend_if_early(self, name: str, now: StepStatus) -> StepStatus:
        """Return a reopened step that expects a failure as pending, until there is a failure again."""
        is_early = now.is_reopened and self._graph.steps[name].asks_for_failure
        return replace(now, status="pending") if is_early else now

    def _new_steps(self) -> Iterator[str]:
        calls = self.state.calls
        count, self._calls_seen = len(calls) - self._calls_seen, len(calls)
        return (each.call.step for each in islice(reversed(calls.values()), count))

    def _put(self, name: str, now: StepStatus) -> None:
        before, self.found[name] = self.found[name], now
        self._unlist(name, before)
        match now.status:
            case "open":
                self._open.add(name)
            case "ready" | "retry":
                insort(self._list_of(name, now), self._graph.positions[name])
            case "done" | "failed" | "skipped":
                self._settle(name, now)

    def _settle(self, name: str, now: StepStatus) -> None:
        self._unsettled -= 1
        self._news.append(name)
        self.is_failing = self.is_failing or now.status == "failed"
        self.is_aborted = self.is_aborted or now.is_aborted
        if now.status != "skipped" and self._graph.dependants[name]:
            self.outputs[name] = variable(self._graph.steps[name].out_name, now.output)

    def _unlist(self, name: str, before: StepStatus) -> None:
        self._open.discard(name)
        if before.status in {"ready", "retry"}:
            positions = self._list_of(name, before)
            del positions[bisect_left(positions, self._graph.positions[name])]

    def _list_of(self, name: str, of: StepStatus) -> Positions:
        if of.status == "retry":
            return self.again
        return self.ready_tools if self._graph.steps[name].is_tool else self.ready_others

    def _start_no_more(self) -> None:
        """Skip all steps that were not started, except those that expect a failure."""
        for name, step in self._graph.steps.items():
            if self.found[name].status in {"pending", "ready"} and not step.asks_for_failure:
                self._put(name, SKIPPED)

    def _propagate_all(self, *, was_failing: bool) -> None:
        """Update the dependants of steps that have just ended; after the first failure, skip steps first."""
        if self.is_failing and not was_failing:
            self._start_no_more()
        while self._news:
            self._propagate(self._news.pop())

    def _propagate(self, name: str) -> None:
        """Make dependants of an ended step ready or skipped, depending on their `if`; the default is done."""
        for step in self._graph.dependants[name]:
            if self.found[step.id].status != "pending":
                continue
            if not _is_wanted(self.found[name], step.condition if _refers_to(step, name) else None):
                self._put(step.id, replace(self.found[step.id], status="skipped"))
                continue
            self._missing[step.id] -= 1
            if self._missing[step.id] == 0:
                self._put(step.id, replace(self.found[step.id], status="ready"))

    def _only_waits(self, name: str) -> bool:
        last = self.found[name].last
        return last is not None and not isinstance(last.call, ToolCall)


def _refers_to(step: PlanStep, need: str) -> bool:
    return step.condition is not None and step.condition.step == need


def _is_wanted(ended: StepStatus, condition: Condition | None) -> bool:
    if condition is None:
        return ended.status == "done"
    return ended.status == condition.ending and condition.answer in (None, ended.output)
