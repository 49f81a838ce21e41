"""The records of fired timers: one event for each, or for several sleeps in the same place.

A record is a `tool_output` without an intent, as of a version. It is written in front of the next event of the goal,
never alone (`Proposal.notes`). So it costs no commit, and is durable before anything that follows from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.kernel.events import ToolOutput
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.step_names import branch_of, is_timer, timer_step
from perdure.minds.flow.execution.timers.flow_timers import FlowTimers, Timer
from perdure.minds.step_status import call_id

_KINDS = {False: "deadline", True: "sleep"}


@dataclass(slots=True)
class FiredTimer:
    """A fired timer as it is recorded."""

    step: str
    is_sleep: bool
    position: int
    seconds: float
    """The time for which it was set, for people; of several sleeps the sum. A busy machine makes it shorter."""
    times: int = 1
    """How often in order a sleep at this position has fired."""

    def find(self, timers: FlowTimers) -> Timer | None:
        """Return the timer of a replayed flow that this one was; None if the flow has not made it."""
        return timers.find(branch_of(self.step), self.position, is_sleep=self.is_sleep)

    def is_sleep_at(self, branch: str, position: int) -> bool:
        """Return whether it was a sleep in the same place."""
        return self.is_sleep and (branch_of(self.step), self.position) == (branch, position)

    def body(self) -> ToolOutput:
        """Return the event."""
        output: dict[str, Any] = {_KINDS[self.is_sleep]: self.position, "seconds": round(self.seconds, 3)}
        if self.times > 1:
            output["times"] = self.times
        return ToolOutput(call_id(self.step, 1), ok=True, output=output, step=self.step, tool="timer", effect="pure")


def recorded_timer(call: CallState) -> FiredTimer:
    """Return the fired timer that a call of the state records."""
    output: dict[str, Any] = call.outcome.output if call.outcome is not None else {}
    is_sleep = "sleep" in output
    position, seconds = output.get(_KINDS[is_sleep], 0), output.get("seconds", 0.0)
    return FiredTimer(call.call.step, is_sleep, position, seconds, output.get("times", 1))


class FiredTimers:
    """The fired timers of one run that are not recorded yet."""

    def __init__(self) -> None:
        self._fired: list[FiredTimer] = []
        self._number: int | None = None
        """The number of fired timers of the goal; None until the first of this run."""

    def note(self, timer: Timer, position: int, state: GoalState) -> None:
        """Note that a timer fires now."""
        self._forget_recorded(state)
        last = self._fired[-1] if self._fired else None
        seconds = max(timer.seconds, 0.0)
        if last is not None and timer.is_sleep and last.is_sleep_at(timer.branch, position):
            last.times += 1
            last.seconds += seconds
            return
        if self._number is None:
            self._number = sum(is_timer(call.call.step) for call in state.calls.values())
        self._number += 1
        step = timer_step(timer.branch, self._number)
        self._fired.append(FiredTimer(step, timer.is_sleep, position, seconds))

    def unrecorded(self, state: GoalState) -> Sequence[ToolOutput]:
        """Return the events to record."""
        if not self._fired:
            return ()
        self._forget_recorded(state)
        return [fired.body() for fired in self._fired]

    def _forget_recorded(self, state: GoalState) -> None:
        self._fired = [fired for fired in self._fired if call_id(fired.step, 1) not in state.calls]
