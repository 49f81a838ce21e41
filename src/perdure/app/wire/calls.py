"""A call of a goal as every surface shows it: what became of it, how long it took, and what it cost."""

from typing import TYPE_CHECKING

from perdure.app.wire.next_attempts import next_attempt_us
from perdure.kernel.events import Ask, Happened, ToolCall, ToolError, Wait
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.step_names import is_deadline
from perdure.moments import iso, moment, moment_us

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
    next_us = next_attempt_us(state, call)
    is_answered = call.decision is not None and call.decision.decision == "answer"
    return {
        "call_id": about.call_id,
        "step": about.step,
        "tool": about.tool if isinstance(about, ToolCall) else type(about).__name__.lower(),
        "effect": about.effect if isinstance(about, ToolCall) else None,
        "attempt": about.attempt if isinstance(about, ToolCall) else 1,
        "state": state_of(call),
        "is_open": call.is_open,
        "seq": call.seq,
        "ended_seq": call.ended_seq,
        "began_at": iso(call.began_us),
        "ended_at": iso(call.ended_us) if call.ended_us is not None else None,
        "duration_ms": duration_ms(call),
        "cost_usd": cost_of(call),
        "usage": outcome.usage if outcome else None,
        "meta": outcome.meta if outcome else None,
        "error": None if outcome is None else failure_wire(outcome.error),
        "happened": outcome.happened if outcome else None,
        "question": about.question if isinstance(about, Ask) else None,
        "options": options_of(about) if isinstance(about, Ask) else None,
        "answer": call.decision.value if call.decision is not None and is_answered else None,
        "until": about.until if isinstance(about, Ask | Wait) else None,
        "next_attempt_at": None if next_us is None else iso(next_us),
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
        "traceback": error.traceback,
        "retryable": error.retryable,
    }
    return failure


def options_of(about: Ask) -> list[str] | None:
    """Return the options of a question; None when any answer fits."""
    return None if about.options is None else list(about.options)


def state_of(call: CallState) -> str:
    """Say in a few words what became of a call."""
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
    """Tell whether nothing came in time: no answer, no signal, or not the end of a block with a deadline."""
    is_signal = isinstance(call.call, Wait) and call.call.signal is not None
    is_waited_for = isinstance(call.call, Ask) or is_signal or is_deadline(call)
    return is_waited_for and call.decision is not None and call.decision.decision == "elapsed"


def waits(about: Wait) -> str:
    """Say what a wait waits for."""
    if about.signal is not None:
        return f"waits for signal {about.signal}{deadline(about)}"
    return f"waits until {moment(moment_us(about.until))}" if about.until else "waits"


def deadline(about: Ask | Wait) -> str:
    """Say until when an answer or a signal is waited for; nothing where there is no deadline."""
    return "" if about.until is None else f", until {moment(moment_us(about.until))}"


def _ended(call: CallState) -> str:
    outcome = call.outcome
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
    """Return how long a call took, as its tool says, else from its event to the one that settled it.

    The outcome of a child says how long the steps of the child ran, which counts for limits: its waits are not in it.
    """
    if call.outcome is not None and not call.is_child:
        return call.outcome.duration_ms if call.unknown is None else None
    until_us = call.ended_us if call.ended_us is not None and not call.is_open else now_us
    return None if until_us is None else max(until_us - call.began_us, 0) // 1000


def cost_of(call: CallState) -> float:
    """Return what a call has cost, in dollars."""
    usage = call.outcome.usage if call.outcome else None
    return float(usage.get("cost_usd", 0.0)) if usage else 0.0
