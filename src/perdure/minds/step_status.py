"""The status of a step, derived from its recorded calls."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from perdure.kernel.calls.cancellation import CANCELLED, is_cancelled_by_flow
from perdure.kernel.events import Action, Decision, ToolCall, ToolError, ToolOutput
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.recovery import BAD_RESULT
from perdure.minds.retry import NO_RETRY, Retry

StepState = Literal["pending", "ready", "open", "retry", "done", "failed", "skipped"]
"""Not started: pending, ready. Started: open, or retry, when another attempt is due. Ended: done, failed, skipped."""

BAD_VALUE = "bad_value"
"""The code of a step that was skipped with a value that does not fit the return type of its function."""
TIMEOUT = "timeout"
"""The code of a step that timed out; it is unknown whether it happened."""
NOT_HAPPENED = "not_happened"
"""The code of a step that timed out and did not happen, according to its check."""


@dataclass(frozen=True, slots=True)
class StepStatus:
    """The status of a step, with its latest call."""

    status: StepState
    attempt: int = 0
    last: CallState | None = None
    wait_us: int = 0
    """The wait before the next attempt, if the status is `retry`."""
    until_us: int | None = None
    """The moment after which no attempt starts, if the status is `retry` and the policy has a deadline."""
    is_reopened: bool = False
    """Whether the next attempt is due because of a retry of the goal, and not because of the retry policy."""

    def due_us(self, now_us: int) -> int:
        """Return when the next attempt is due; at once if the clock was set back, so that no wait is prolonged."""
        ended_us = self.last.ended_us if self.last else None
        return now_us if ended_us is None or ended_us > now_us else ended_us + self.wait_us

    def is_too_late(self, now_us: int) -> bool:
        """Return whether the deadline passed before the next attempt, because the goal was not running."""
        return self.status == "retry" and self.until_us is not None and now_us > self.until_us

    @property
    def is_aborted(self) -> bool:
        return self._decision is not None and self._decision.decision == "abort"

    @property
    def is_skipped(self) -> bool:
        return self._decision is not None and self._decision.decision == "skip"

    @property
    def is_elapsed(self) -> bool:
        return self.last is not None and is_elapsed(self.last)

    @property
    def output(self) -> Any:
        """The output of the step, or the value of the decision that replaced it."""
        if self.last is not None and self.last.outcome is not None:
            return self.last.outcome.output
        return self._decision.value if self._decision else None

    @property
    def why(self) -> str:
        """The reason why the step failed, for people."""
        if self._decision is not None and self.is_aborted:
            return f"aborted by {self._decision.by}"
        return self._recorded.message if self._recorded else "no reason was given"

    @property
    def error(self) -> ToolError:
        """The recorded error of the step; for a decision of a person, an error that names the person."""
        if self._recorded is not None and not self.is_aborted:
            return self._recorded
        return ToolError("aborted" if self.is_aborted else "denied", self.why)

    @property
    def _recorded(self) -> ToolError | None:
        return self.last.outcome.error if self.last and self.last.outcome else None

    @property
    def _decision(self) -> Decision | None:
        return self.last.decision if self.last else None


PENDING = StepStatus("pending")
READY = StepStatus("ready")
SKIPPED = StepStatus("skipped")


def call_id(step: str, attempt: int) -> str:
    """Return the id of the call of an attempt of a step."""
    return f"{step}.{attempt}"


def attempt_of(call: Action) -> int:
    """Return the number of the attempt that a call is."""
    return int(call.call_id.removeprefix(f"{call.step}.") or 1)


def is_reopened(state: GoalState, call: CallState) -> bool:
    """Return whether a call is the last one of its step before a retry of the goal repeats the step."""
    return state.attempts_before.get(call.call.step, 0) == attempt_of(call.call)


def status_of_step(state: GoalState, step: str, retry: Retry = NO_RETRY, after: int = 0) -> StepStatus:
    """Return the status of a step from its calls; pending without calls. Attempts up to `after` are skipped.

    A step that the last retry of the goal has reopened is due at once, and its retry policy starts from the beginning.
    """
    attempt, last = after, state.calls.get(call_id(step, after))
    while (call := state.calls.get(call_id(step, attempt + 1))) is not None:
        attempt, last = attempt + 1, call
    return PENDING if last is None else _status_of_call(state, last, attempt, retry)


def is_elapsed(call: CallState) -> bool:
    """Return whether a wait or a deadline ended because its moment came."""
    return call.decision is not None and call.decision.decision == "elapsed"


def is_running(call: CallState) -> bool:
    """Return whether an open call runs, and does not wait for a decision."""
    return call.runs


def _is_final(call: Action, code: str) -> bool:
    """Return whether a failure is never retried: it was denied, or its effect may have happened."""
    is_once = isinstance(call, ToolCall) and call.tool == "step" and call.effect == "once"
    return code in ("denied", BAD_RESULT, CANCELLED) or (is_once and code == TIMEOUT)


def _status_of_call(state: GoalState, last: CallState, attempt: int, retry: Retry) -> StepStatus:
    if last.is_open:
        return StepStatus("open", attempt, last)
    if is_reopened(state, last) and (is_cancelled_by_flow(last) or is_elapsed(last)):
        return StepStatus("retry", attempt, last, is_reopened=True)
    if last.outcome is not None:
        return _status_of_outcome(state, last, last.outcome, attempt, retry)
    match last.decision:
        case Decision(decision="retry"):
            return StepStatus("retry", attempt, last)
        case Decision(decision="abort"):
            return StepStatus("failed", attempt, last)
        case _:
            return StepStatus("done", attempt, last)


def _status_of_outcome(
    state: GoalState, last: CallState, outcome: ToolOutput, attempt: int, retry: Retry
) -> StepStatus:
    """Return the status of a step with an outcome. Attempts before the last retry of the goal do not count."""
    before = state.attempts_before.get(last.call.step, 0)
    if outcome.ok:
        return StepStatus("done", attempt, last)
    if attempt == before:
        return StepStatus("retry", attempt, last, is_reopened=True)
    error = outcome.error
    is_final = error is not None and (_is_final(last.call, error.code) or not retry.retries_error(error))
    if attempt - before >= retry.attempts or is_final:
        return StepStatus("failed", attempt, last)
    wait_us = retry.wait_us(attempt - before, f"{state.goal_id}/{last.call.call_id}")
    until_us = retry.until_us(state.calls.get(call_id(last.call.step, before + 1), last).started_us)
    if until_us is not None and (last.ended_us or 0) + wait_us > until_us:
        return StepStatus("failed", attempt, last)
    return StepStatus("retry", attempt, last, wait_us, until_us)


def wait_before_next_us(state: GoalState, call: CallState, outcome: ToolOutput, retry: Retry) -> int | None:
    """Return the wait between an outcome that is not recorded yet and the next attempt; None if there is none."""
    if outcome.ok or not isinstance(call.call, ToolCall):
        return None
    ended_us = call.began_us + outcome.duration_ms * 1000 if call.ended_us is None else call.ended_us
    next_status = _status_of_outcome(state, replace(call, ended_us=ended_us), outcome, call.call.attempt, retry)
    return next_status.wait_us if next_status.status == "retry" and not next_status.is_reopened else None
