"""Where a step stands, as its recorded calls tell it."""

from dataclasses import dataclass
from typing import Any, Literal

from perdure.kernel.calls.cancellation import CANCELLED, is_cancelled_by_flow
from perdure.kernel.events import Action, Decision, ToolCall, ToolError, ToolOutput
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.recovery import BAD_RESULT
from perdure.minds.retry import NO_RETRY, Retry

Status = Literal["pending", "ready", "open", "again", "done", "failed", "skipped"]
"""Not begun: pending, ready, skipped. Begun: open, again (another try is due). Ended: done, failed, skipped."""

BAD_VALUE = "bad_value"
"""The code of a step that was skipped with a value that does not fit what its function returns."""
TIMEOUT = "timeout"
"""The code of a step that took too long; whether it happened is not known."""
NOT_HAPPENED = "not_happened"
"""The code of a step that took too long and, by its own check, did not happen."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A step's status, and the latest of its calls."""

    status: Status
    attempt: int = 0
    last: CallState | None = None
    wait_us: int = 0
    """How long after its last try another is due, if the status is `again`."""
    until_us: int | None = None
    """The moment after which no attempt is begun, if the status is `again` and the policy has a deadline."""
    is_reopened: bool = False
    """Another try is due because the goal is retried, not because of the step's own policy."""

    def due_us(self, now_us: int) -> int:
        """Return when another try is due; at once when the clock was set back, because no wait becomes longer."""
        ended_us = self.last.ended_us if self.last else None
        return now_us if ended_us is None or ended_us > now_us else ended_us + self.wait_us

    def is_too_late(self, now_us: int) -> bool:
        """Tell whether the deadline has passed before another attempt was begun: the goal was not running."""
        return self.status == "again" and self.until_us is not None and now_us > self.until_us

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
        """What the step gave: the output of its tool, or the value that a decision put in its place."""
        if self.last is not None and self.last.outcome is not None:
            return self.last.outcome.output
        return self._decision.value if self._decision else None

    @property
    def why(self) -> str:
        """Why the step failed, in words."""
        if self._decision is not None and self.is_aborted:
            return f"aborted by {self._decision.by}"
        return self._recorded.message if self._recorded else "no reason was given"

    @property
    def error(self) -> ToolError:
        """Why the step failed, as its outcome has it; of one that a person ended, who that was."""
        if self._recorded is not None and not self.is_aborted:
            return self._recorded
        return ToolError("aborted" if self.is_aborted else "denied", self.why)

    @property
    def _recorded(self) -> ToolError | None:
        return self.last.outcome.error if self.last and self.last.outcome else None

    @property
    def _decision(self) -> Decision | None:
        return self.last.decision if self.last else None


PENDING = Standing("pending")
READY = Standing("ready")
SKIPPED = Standing("skipped")


def call_id(step: str, attempt: int) -> str:
    """Name the call that is a step's nth attempt."""
    return f"{step}.{attempt}"


def attempt_of(call: Action) -> int:
    """Return which attempt of its step a call is."""
    return int(call.call_id.removeprefix(f"{call.step}.") or 1)


def is_reopened(state: GoalState, call: CallState) -> bool:
    """Tell whether a retry of the goal calls the step of a call again, and that call was its last before."""
    return state.attempts_before.get(call.call.step, 0) == attempt_of(call.call)


def standing(state: GoalState, step: str, retry: Retry = NO_RETRY, after: int = 0) -> Standing:
    """Tell where a step stands by its calls alone; without any, it is pending. Attempts up to `after` are known.

    A step that the last retry of the goal has reopened is due again at once, with its whole retry policy before it.
    """
    attempt, last = after, state.calls.get(call_id(step, after))
    while (call := state.calls.get(call_id(step, attempt + 1))) is not None:
        attempt, last = attempt + 1, call
    return PENDING if last is None else _begun(state, last, attempt, retry)


def is_elapsed(call: CallState) -> bool:
    """Tell whether a wait, or the deadline of something, ended because its moment came."""
    return call.decision is not None and call.decision.decision == "elapsed"


def is_running(call: CallState) -> bool:
    """Say whether an open call is at work; one that is unknown or not approved waits for a decision instead."""
    return call.runs


def _is_final(call: Action, code: str) -> bool:
    """Tell whether a failure is not for another try: it was denied, or what it did may have happened."""
    is_once = isinstance(call, ToolCall) and call.tool == "step" and call.effect == "once"
    return code in ("denied", BAD_RESULT, CANCELLED) or (is_once and code == TIMEOUT)


def _begun(state: GoalState, last: CallState, attempt: int, retry: Retry) -> Standing:
    if last.is_open:
        return Standing("open", attempt, last)
    if is_reopened(state, last) and (is_cancelled_by_flow(last) or is_elapsed(last)):
        return Standing("again", attempt, last, is_reopened=True)
    if last.outcome is not None:
        return _tried(state, last, last.outcome, attempt, retry)
    match last.decision:
        case Decision(decision="retry"):
            return Standing("again", attempt, last)
        case Decision(decision="abort"):
            return Standing("failed", attempt, last)
        case _:
            return Standing("done", attempt, last)


def _tried(state: GoalState, last: CallState, outcome: ToolOutput, attempt: int, retry: Retry) -> Standing:
    """Tell where a step stands that has an outcome. Attempts before the last retry of the goal do not count."""
    before = state.attempts_before.get(last.call.step, 0)
    if outcome.ok:
        return Standing("done", attempt, last)
    if attempt == before:
        return Standing("again", attempt, last, is_reopened=True)
    error = outcome.error
    is_final = error is not None and (_is_final(last.call, error.code) or not retry.retries_error(error))
    if attempt - before >= retry.attempts or is_final:
        return Standing("failed", attempt, last)
    wait_us = retry.wait_us(attempt - before, f"{state.goal_id}/{last.call.call_id}")
    until_us = retry.until_us(_began_us(state.calls.get(call_id(last.call.step, before + 1), last)))
    if until_us is not None and (last.ended_us or 0) + wait_us > until_us:
        return Standing("failed", attempt, last)
    return Standing("again", attempt, last, wait_us, until_us)


def wait_before_next_us(state: GoalState, call: CallState, outcome: ToolOutput, retry: Retry) -> int | None:
    """Return how long after an outcome that is not recorded yet its step is tried again; None when it is not."""
    if outcome.ok or not isinstance(call.call, ToolCall):
        return None
    found = _tried(state, call, outcome, call.call.attempt, retry)
    return found.wait_us if found.status == "again" and not found.is_reopened else None


def _began_us(call: CallState) -> int:
    """Return when a call began; a pure one is recorded only when it has ended."""
    is_pure = call.outcome is not None and call.outcome.step is not None
    return call.began_us - call.outcome.duration_ms * 1000 if is_pure and call.outcome else call.began_us
