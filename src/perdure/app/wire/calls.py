"""The JSON form of a call: its state, duration and cost."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from perdure.app.wire.next_attempts import next_attempt_us
from perdure.kernel.events import Ask, Happened, ToolCall, ToolError, Wait
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.step_names import is_deadline, is_timer
from perdure.text.moments import iso, iso_or_none, moment, moment_us

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import Call, Failure

_DECIDED = {
    "answer": "answered",
    "retry": "unknown, retried",
    "skip": "unknown, skipped",
    "abort": "unknown, aborted",
    "elapsed": "waited",
    "deny": "denied",
    "cancel": "cancelled",
}
_CANCELLED: dict[Happened | None, str] = {
    None: "cancelled",
    "yes": "cancelled, effect happened",
    "no": "cancelled, no effect",
    "unknown": "cancelled, effect unknown",
}


def call_wire(state: GoalState, call: CallState) -> "Call":
    """Return the one JSON form of a call."""
    about, outcome = call.call, call.outcome
    tool, effect, attempt = type(about).__name__.lower(), None, 1
    if isinstance(about, ToolCall):
        tool, effect, attempt = about.tool, about.effect, about.attempt
    usage, meta, error, happened = None, None, None, None
    if outcome is not None:
        usage, meta, error, happened = outcome.usage, outcome.meta, outcome.error, outcome.happened
    question, options = (about.question, options_of(about)) if isinstance(about, Ask) else (None, None)
    decision = call.decision
    answer = decision.value if decision is not None and decision.decision == "answer" else None
    next_us = next_attempt_us(state, call)
    return {
        "call_id": about.call_id,
        "step": about.step,
        "tool": tool,
        "effect": effect,
        "attempt": attempt,
        "state": state_of(call),
        "is_open": call.is_open,
        "seq": call.seq,
        "ended_seq": call.ended_seq,
        "began_at": iso(call.began_us),
        "ended_at": iso_or_none(call.ended_us),
        "duration_ms": duration_ms(call),
        "cost_usd": cost_of(call),
        "usage": usage,
        "meta": meta,
        "error": failure_wire(error),
        "happened": happened,
        "question": question,
        "options": options,
        "answer": answer,
        "until": about.until if isinstance(about, Ask | Wait) else None,
        "next_attempt_at": iso_or_none(next_us),
    }


def failure_wire(error: ToolError | None) -> "Failure | None":
    """Return the one JSON form of the failure of a call or a goal."""
    if error is None:
        return None
    failure: Failure = {
        "code": error.code,
        "message": error.message,
        "type": error.type,
        "args": error.args,
        "attributes": error.attributes,
        "traceback": error.traceback,
        "retryable": error.retryable,
    }
    return failure


def options_of(about: Ask) -> list[str] | None:
    """Return the options of a question; None when any answer fits."""
    return None if about.options is None else list(about.options)


def state_of(call: CallState) -> str:
    """Return the state of a call in a few words."""
    if call.outcome is not None:
        return _ended(call)
    if call.decision is not None and call.decision.decision in _DECIDED:
        return "timed out" if _has_timed_out(call) else _DECIDED[call.decision.decision]
    if call.unknown is not None or call.signal is not None:
        return "signalled" if call.signal is not None else "outcome unknown"
    match call.call:
        case Ask():
            return "asks"
        case Wait() as about:
            return waits(about)
        case ToolCall():
            return "needs approval" if call.awaits_approval else "open"


def _has_timed_out(call: CallState) -> bool:
    """Return whether a question, a wait for a signal or a block with a deadline has timed out."""
    is_signal = isinstance(call.call, Wait) and call.call.signal is not None
    is_waited_for = isinstance(call.call, Ask) or is_signal or is_deadline(call)
    return is_waited_for and call.decision is not None and call.decision.decision == "elapsed"


def waits(about: Wait) -> str:
    """Return the awaited signal or time as text."""
    if about.signal is not None:
        return f"waits for signal {about.signal}{deadline(about)}"
    return f"waits until {moment(moment_us(about.until))}" if about.until else "waits"


def deadline(about: Ask | Wait) -> str:
    """Return the deadline of a question or a wait as text; empty without one."""
    return "" if about.until is None else f", until {moment(moment_us(about.until))}"


def _fired(output: Mapping[str, Any]) -> str:
    """Return a fired timer of a flow as text. See `minds/flow/execution/fired_timers`."""
    seconds, times = output.get("seconds", 0.0), output.get("times", 1)
    if "sleep" not in output:
        return f"deadline of {seconds:g} s has passed"
    return f"slept {seconds:g} s" if times == 1 else f"slept {seconds:g} s in {times} sleeps"


def _ended(call: CallState) -> str:
    outcome = call.outcome
    if outcome is not None and is_timer(call.call.step) and isinstance(outcome.output, dict):
        return _fired(outcome.output)
    if outcome is None or outcome.ok:
        again = f", run again {call.times_again}x" if call.times_again else ""
        is_checked = call.unknown is not None or (outcome is not None and outcome.happened == "yes")
        return "done, says its check" if is_checked else f"done{again}"
    code = outcome.error.code if outcome.error else "error"
    if code == "denied":
        return "denied"
    if code == "cancelled":
        return _CANCELLED[outcome.happened]
    if outcome.happened == "unknown":
        return "failed, effect unknown"
    exit_code = outcome.output.get("exit_code") if isinstance(outcome.output, dict) else None
    return f"failed: exit {exit_code}" if code == "exit" else f"failed: {code}"


def duration_ms(call: CallState, now_us: int | None = None) -> int | None:
    """Return the duration of a call: as reported by its tool, else from its first event to its last one.

    The outcome of a child only has the time of the child's steps, which counts for limits, so it is not used.
    """
    if call.outcome is not None and not call.is_child:
        return call.outcome.duration_ms if call.unknown is None else None
    until_us = call.ended_us if call.ended_us is not None and not call.is_open else now_us
    return None if until_us is None else max(until_us - call.began_us, 0) // 1000


def cost_of(call: CallState) -> float:
    """Return the cost of a call in US dollars."""
    usage = call.outcome.usage if call.outcome else None
    return float(usage.get("cost_usd", 0.0)) if usage else 0.0
