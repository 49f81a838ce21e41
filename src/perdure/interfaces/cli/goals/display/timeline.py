"""A goal as a person sees it: its steps, what became of each, and the exit code that it ends with."""

import time
from bisect import bisect
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_attempts import next_attempt_us
from perdure.interfaces.cli.command_result import Table
from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.output.times import in_words
from perdure.kernel.events import Ask, Happened, Reopened, ToolCall, Wait
from perdure.kernel.fold import CallState, GoalState
from perdure.kernel.history.step_names import is_deadline
from perdure.kernel.loop import Ran
from perdure.kernel.ports import InboxRow
from perdure.moments import iso, moment, moment_us

HEADERS = ("events", "step", "tool", "state", "tries", "took", "cost")
STATE_COLUMN = HEADERS.index("state")

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


def exit_code_of(ran: Ran) -> int:
    """Return how a run of a goal ends: 0 only when the goal is done."""
    state = ran.state
    if state.termination is not None:
        return {"done": 0, "cancelled": 130}.get(state.termination.reason, 1)
    if ran.outcome == "interrupted":
        return 130
    return 6 if state.waiting_for == "limit" else 5


def timeline(state: GoalState, *, now_us: int | None = None) -> Table:
    """Lay out the steps of a goal in the order they were begun; with `now_us`, what is open takes until then.

    A step that was tried several times is one row: all its events, the state of the last call, and the number of tries.
    What was tried before a retry of the goal and what was tried after it are different rows, with the retry between.
    """
    reopened_at = [body.ended_seq + 1 for body in state.reopenings]
    steps: dict[tuple[str, int], list[CallState]] = {}
    for call in state.calls.values():
        steps.setdefault((call.call.step, bisect(reopened_at, call.seq)), []).append(call)
    begun = [(calls[0].seq, _row(state, calls, now_us)) for calls in steps.values()]
    reopened = [(body.ended_seq + 1, _reopening_row(body)) for body in state.reopenings]
    rows = [row for _, row in sorted([*begun, *reopened], key=lambda each: each[0])]
    rows += [["", step, "", said, "", "", ""] for step, said in not_begun(state).items()]
    width = len(HEADERS) if any(row[-1] for row in rows) else len(HEADERS) - 1
    return Table(HEADERS[:width], [row[:width] for row in rows], whole=("events", "step"))


def not_begun(state: GoalState) -> dict[str, str]:
    """Return the steps of a plan that have no call: those that are skipped, and those that are still to come."""
    if state.begun.mind.kind != "plan":
        return {}
    from perdure.minds.plan.plan_view import standings  # who looks at no plan needs no YAML

    calm = {name: each.status for name, each in standings(state).items() if each.last is None}
    return {name: "skipped" if status == "skipped" else "not begun" for name, status in calm.items()}


def tries_again(state: GoalState, call: CallState) -> str:
    """Say when a step that failed is tried again, if it is."""
    due_us = next_attempt_us(state, call)
    return "" if due_us is None else f", tries again at {moment(due_us)}"


def told(state: GoalState, call: CallState) -> str:
    """Say to a person what became of a call: also what was asked and answered, and when it is tried again."""
    said = state_of(call)
    match call.call:
        case Ask(question=question) if call.is_open:
            return f"{said}: {question}{deadline(call.call)}"
        case Ask() if call.decision is not None and call.decision.decision == "answer":
            return f"{said}: {call.decision.value}"
        case _:
            return said + tries_again(state, call)


def _reopening_row(body: Reopened) -> list[str]:
    why = "" if body.reason is None else f": {body.reason}"
    return [str(body.ended_seq + 1), "", "", f"retried by {body.by}{why}", "", "", ""]


def _row(state: GoalState, calls: list[CallState], now_us: int | None) -> list[str]:
    last = calls[-1]
    about = last.call
    took_ms = duration_ms(last, now_us)
    cost = sum(map(cost_of, calls))
    is_tool = isinstance(about, ToolCall)
    return [
        events_of(calls),
        about.step,
        f"{about.tool}, {about.effect}" if isinstance(about, ToolCall) else type(about).__name__.lower(),
        told(state, last),
        str(len(calls) + sum(call.times_again for call in calls)) if is_tool else "",
        "" if took_ms is None else in_words(took_ms),
        f"${cost:.4f}" if cost else "",
    ]


def events_of(calls: Sequence[CallState]) -> str:
    """Write the events of a step: `3-4`; one that is open ends with a hyphen."""
    first, last = calls[0].seq, calls[-1].ended_seq
    if calls[-1].is_open or last is None:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"


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


def call_object(state: GoalState, call: CallState) -> dict[str, Any]:
    """Return what a program sees of a call."""
    about, outcome = call.call, call.outcome
    next_us = next_attempt_us(state, call)
    took_ms = duration_ms(call)
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
        "duration_ms": took_ms,
        "cost_usd": cost_of(call),
        "usage": outcome.usage if outcome else None,
        "meta": outcome.meta if outcome else None,
        "error": asdict(outcome.error) if outcome and outcome.error else None,
        "happened": outcome.happened if outcome else None,
        "question": about.question if isinstance(about, Ask) else None,
        "options": list(about.options) if isinstance(about, Ask) and about.options is not None else None,
        "answer": call.decision.value if call.decision and call.decision.decision == "answer" else None,
        "until": about.until if isinstance(about, Ask | Wait) else None,
        "next_attempt_at": None if next_us is None else iso(next_us),
    }


def details(state: GoalState) -> dict[str, Any]:
    """Return what a program needs to go on with a goal, beside the goal itself."""
    limit = state.reached_limit if state.termination is None else None
    open_calls = state.open_calls.values()
    return {
        "questions": [
            {
                "call_id": about.call_id,
                "step": about.step,
                "question": about.question,
                "options": about.options,
                "until": about.until,
            }
            for call in open_calls
            if isinstance(about := call.call, Ask)
        ],
        "unknown": [
            {"call_id": call.call.call_id, "step": call.call.step, "why": call.unknown.why}
            for call in open_calls
            if call.unknown is not None
        ],
        "limit": None
        if limit is None
        else {"name": limit, "value": getattr(state.limits, limit), "used": getattr(state.used, limit)},
    }


def pending_object(row: InboxRow) -> dict[str, Any]:
    """Return what a program sees of something that was posted and not yet taken."""
    return {"kind": row.kind, "payload": row.payload, "created_at": iso(row.created_us)}


def pending_line(row: InboxRow, *, is_over: bool = False) -> str:
    """Say what was posted and not yet taken; of a goal that has ended, it never will be."""
    what = " ".join(str(row.payload[name]) for name in ("decision", "call_id", "name") if row.payload.get(name))
    when = "Posted too late, the goal ended first" if is_over else f"Pending since {moment(row.created_us)}"
    return one_line(f"{when}: {row.kind} {what}".rstrip())


def origin(state: GoalState) -> list[str]:
    """Say where a fork came from; nothing of any other goal."""
    origin = state.begun.forked_from
    return [] if origin is None else [f"It is a fork of {origin.goal_id} at event {origin.seq}."]


def headline(view: GoalView) -> str:
    """Say in one line where a goal stands, and since when it could continue by itself if no worker has it."""
    goal = view.summary
    why = goal.reason or goal.waiting_for
    if goal.due_us is not None and view.is_overdue(time.time_ns() // 1000):
        why = f"{why}, overdue since {moment(goal.due_us)}"
    about = f"{view.status} ({why})" if why and why != view.status else view.status
    return f"{goal.goal_id}: {about}"
