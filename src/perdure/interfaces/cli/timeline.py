"""A goal as a person or a program sees it: its summary, its steps, and the exit code that it ends with."""

from datetime import UTC, datetime
from typing import Any

from perdure.interfaces.cli.answer import Table
from perdure.kernel.events import Ask, ToolCall, iso
from perdure.kernel.fold import CallState, GoalState
from perdure.kernel.loop import Ran
from perdure.kernel.ports import Summary

_EXIT_CODES = {"waiting": 5, "limit": 6, "interrupted": 130}


def exit_code_of(ran: Ran) -> int:
    """Return how a run of a goal ends: 0 only when the goal is done."""
    if ran.outcome != "ended":
        return _EXIT_CODES[ran.outcome]
    reason = ran.state.termination.reason if ran.state.termination else None
    return {"done": 0, "cancelled": 130}.get(str(reason), 1)


def goal_object(state: GoalState) -> dict[str, Any]:
    """Return the one JSON form of a goal."""
    ended = state.termination
    return {
        "id": state.goal_id,
        "text": state.begun.text,
        "mind": state.begun.mind.kind,
        "bot": state.begun.bot,
        "status": state.status,
        "reason": ended.reason if ended else None,
        "waiting_for": state.waiting_for,
        "created_at": iso(state.created_us),
        "updated_at": iso(state.updated_us),
        "last_seq": state.tip.seq,
        "steps": state.steps,
        "cost_usd": state.cost_usd,
        "parent": None,
        "output": ended.value if ended else None,
    }


def summary_object(summary: Summary) -> dict[str, Any]:
    """Return what a list shows of a goal."""
    return {
        "id": summary.goal_id,
        "text": summary.text,
        "mind": summary.mind,
        "status": summary.status,
        "reason": summary.reason,
        "waiting_for": summary.waiting_for,
        "created_at": iso(summary.created_us),
        "updated_at": iso(summary.updated_us),
        "last_seq": summary.last_seq,
        "steps": summary.steps,
        "cost_usd": summary.cost_usd,
    }


def timeline(state: GoalState) -> Table:
    """Lay out the calls of a goal in the order they were begun."""
    rows = [
        [
            datetime.fromtimestamp(call.began_us / 1e6, UTC).strftime("%H:%M:%S"),
            call.call.call_id,
            call.call.tool if isinstance(call.call, ToolCall) else type(call.call).__name__.lower(),
            call.call.effect if isinstance(call.call, ToolCall) else "",
            state_of(call),
            f"{call.outcome.duration_ms} ms" if call.outcome else "",
        ]
        for call in state.calls.values()
    ]
    return Table(["at", "call", "tool", "effect", "state", "took"], rows)


def state_of(call: CallState) -> str:
    """Say in a word or two what became of a call."""
    if call.outcome is not None:
        return "done" if call.outcome.ok else f"failed: {call.outcome.error.code if call.outcome.error else ''}"
    if call.decision is not None:
        return call.decision.decision
    if call.unknown is not None:
        return "outcome unknown"
    return "asks" if isinstance(call.call, Ask) else "open"


def next_command(state: GoalState) -> list[str]:
    """Say how to go on with a goal that waits, by the exact command."""
    said = []
    for call_id, call in state.open_calls.items():
        if isinstance(call.call, Ask):
            options = f" ({' / '.join(call.call.options)})" if call.call.options else ""
            said.append(f"{call.call.question}{options}\n  perdure goal answer {state.goal_id} {call_id} VALUE")
        elif call.unknown is not None:
            said.append(
                f"Nobody knows how {call_id} ended: {call.unknown.why}\n"
                f"  perdure goal decide {state.goal_id} {call_id} retry|skip|abort"
            )
    return said
