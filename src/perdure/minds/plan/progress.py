"""Where all steps of a plan stand, kept up to date: a look costs what is new in the state, not what is in the plan."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.minds.plan.graph import Graph
from perdure.minds.plan.plan import Condition, PlanStep
from perdure.minds.plan.step_env import Variable, variable
from perdure.minds.step_status import PENDING, READY, SKIPPED, Standing, standing

Positions = list[int]
"""Steps by their place in the file, in that order."""


class Progress:
    """The standings of one goal's steps. All of it follows from the state; made anew, it says the same.

    What is settled stays settled, so that each step and each need is walked at most once in the life of a goal.
    """

    def __init__(self, graph: Graph, state: GoalState) -> None:
        self.state = state
        self.found: dict[str, Standing] = dict.fromkeys(graph.steps, PENDING)
        self.ready_tools: Positions = []
        self.ready_others: Positions = []
        self.again: Positions = []
        self.given: dict[str, Variable] = {}
        """What those that need a step see of it."""
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
        """Whether nothing is left to do; a failed goal does not wait for questions and pauses that no step needs."""
        return self._unsettled == (sum(map(self._only_waits, self._open)) if self.is_failing else 0)

    def look(self) -> None:
        """Take in what has happened since the last look."""
        touched = self._open | {step for step in self._new_steps() if step in self.found}
        was_failing = self.is_failing
        for name in touched:
            before = self.found[name]
            now = standing(self.state, name, self._graph.steps[name].retry, after=before.attempt)
            if now.last is not before.last:
                self._put(name, self._until_wanted(name, now))
        self._tell_all(was_failing=was_failing)

    def give_up_late(self, now_us: int) -> None:
        """Fail the steps whose next attempt was not begun before the deadline of their policy.

        A call that began after the deadline counts as the clock does: it may have been begun because of the failure,
        which must not be undone when the clock was set back.
        """
        limited = [name for name in (self._names[at] for at in self.again) if self.found[name].until_us is not None]
        if not limited:
            return
        was_failing = self.is_failing
        latest_us = max(now_us, *(call.began_us for call in self.state.calls.values()))
        for name in limited:
            if self.found[name].is_too_late(latest_us):
                self._put(name, replace(self.found[name], status="failed"))
        self._tell_all(was_failing=was_failing)

    def _until_wanted(self, name: str, now: Standing) -> Standing:
        """Let a reopened step that asks for a failure wait until there is one again: it may not be wanted any more."""
        is_early = now.is_reopened and self._graph.steps[name].asks_for_failure
        return replace(now, status="pending") if is_early else now

    def _new_steps(self) -> Iterator[str]:
        calls = self.state.calls
        count, self._calls_seen = len(calls) - self._calls_seen, len(calls)
        return (each.call.step for each in islice(reversed(calls.values()), count))

    def _put(self, name: str, now: Standing) -> None:
        before, self.found[name] = self.found[name], now
        self._unlist(name, before)
        match now.status:
            case "open":
                self._open.add(name)
            case "ready" | "again":
                insort(self._list_of(name, now), self._graph.positions[name])
            case "done" | "failed" | "skipped":
                self._settle(name, now)

    def _settle(self, name: str, now: Standing) -> None:
        self._unsettled -= 1
        self._news.append(name)
        self.is_failing = self.is_failing or now.status == "failed"
        self.is_aborted = self.is_aborted or now.is_aborted
        if now.status != "skipped" and self._graph.dependants[name]:
            self.given[name] = variable(self._graph.steps[name].out_name, now.output)

    def _unlist(self, name: str, before: Standing) -> None:
        self._open.discard(name)
        if before.status in {"ready", "again"}:
            positions = self._list_of(name, before)
            del positions[bisect_left(positions, self._graph.positions[name])]

    def _list_of(self, name: str, of: Standing) -> Positions:
        if of.status == "again":
            return self.again
        return self.ready_tools if self._graph.steps[name].is_tool else self.ready_others

    def _start_no_more(self) -> None:
        """Skip what was not begun, except what asks for a failure."""
        for name, step in self._graph.steps.items():
            if self.found[name].status in {"pending", "ready"} and not step.asks_for_failure:
                self._put(name, SKIPPED)

    def _tell_all(self, *, was_failing: bool) -> None:
        """Tell all that need them about steps that have just ended; when the first has failed, begin nothing new."""
        if self.is_failing and not was_failing:
            self._start_no_more()
        while self._news:
            self._tell(self._news.pop())

    def _tell(self, name: str) -> None:
        """Tell those that need a step how it has ended: it must be as their `if` says, or else done."""
        for step in self._graph.dependants[name]:
            if self.found[step.id].status != "pending":
                continue
            if not _is_wanted(self.found[name], step.condition if _looks_at(step, name) else None):
                self._put(step.id, replace(self.found[step.id], status="skipped"))
                continue
            self._missing[step.id] -= 1
            if self._missing[step.id] == 0:
                self._put(step.id, replace(self.found[step.id], status="ready"))

    def _only_waits(self, name: str) -> bool:
        last = self.found[name].last
        return last is not None and not isinstance(last.call, ToolCall)


def _looks_at(step: PlanStep, need: str) -> bool:
    return step.condition is not None and step.condition.step == need


def _is_wanted(ended: Standing, condition: Condition | None) -> bool:
    if condition is None:
        return ended.status == "done"
    return ended.status == condition.ending and condition.answer in (None, ended.output)
