"""The timeline of a goal: its steps with their states; and the exit code of a run."""

import time
from bisect import bisect
from collections.abc import Sequence
from typing import TYPE_CHECKING

from perdure.app.goals.values import Ask, CallState, GoalState, InboxRow, Reopened, RunResult, ToolCall
from perdure.app.wire.calls import cost_of, deadline, duration_ms, state_of
from perdure.app.wire.goal_detail import not_begun
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.model_steps import model_steps
from perdure.app.wire.next_attempts import next_attempt_us
from perdure.interfaces.cli.command_result import Table
from perdure.interfaces.cli.output.terminal import cut_to, one_line
from perdure.interfaces.cli.output.times import in_words
from perdure.text.moments import moment

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import ModelStep

HEADERS = ("events", "step", "tool", "state", "tries", "took", "tokens", "cost")
_OPTIONAL = ("tokens", "cost")
"""Columns that a table has only if a row needs them."""
_LONGEST_TEXT = 60
STATE_COLUMN = HEADERS.index("state")


def exit_code_of(result: RunResult) -> int:
    """Return the exit code of a run: 0 only if the goal is done, or a conversation waits for the next message."""
    state = result.state
    if state.termination is not None:
        return {"done": 0, "cancelled": 130}.get(state.termination.reason, 1)
    if result.outcome == "interrupted":
        return 130
    return {"limit": 6, "model": 8, "message": 0}.get(state.waiting_for or "", 5)


def timeline(state: GoalState, *, now_us: int | None = None) -> Table:
    """Return a table of the steps of a goal in the order of their start; open steps take until `now_us`, if set.

    A step that was retried is one row: all its events, the state of the last call, and the number of tries. Calls
    before and after a retry of the whole goal are different rows, with a row for the retry between them.
    """
    reopened_at = [body.ended_seq + 1 for body in state.reopenings]
    steps: dict[tuple[str, int], list[CallState]] = {}
    for call in state.calls.values():
        steps.setdefault((call.call.step, bisect(reopened_at, call.seq)), []).append(call)
    begun = [(calls[0].seq, _row(state, calls, now_us)) for calls in steps.values()]
    reopened = [(body.ended_seq + 1, _reopening_row(body)) for body in state.reopenings]
    steps_of_model: Sequence[ModelStep] = model_steps(state)
    asked = [(step["seq"], _model_row(step)) for step in steps_of_model]
    rows = [row for _, row in sorted([*begun, *reopened, *asked], key=lambda each: each[0])]
    rows += [["", step, "", status, "", "", "", ""] for step, status in not_begun(state).items()]
    return _without_empty(rows)


def _without_empty(rows: Sequence[Sequence[str]]) -> Table:
    """Return the table without optional columns that are empty."""
    shown = [at for at, name in enumerate(HEADERS) if name not in _OPTIONAL or any(row[at] for row in rows)]
    return Table([HEADERS[at] for at in shown], [[row[at] for at in shown] for row in rows], whole=("events", "step"))


def _model_row(step: "ModelStep") -> list[str]:
    """Return the row of what a model was shown or answered, with the beginning of the text of people and answers."""
    text = "" if step["kind"] in ("prompt", "summary") else cut_to(one_line(step["text"]), _LONGEST_TEXT)
    state = f"{step['state']}: {text}" if text else step["state"]
    took = "" if step["duration_ms"] is None else in_words(step["duration_ms"])
    tokens = cost = ""
    if step["input_tokens"] is not None:
        tokens = f"{step['input_tokens']:,} in, {step['output_tokens']:,} out"
        cost = "unknown" if step["cost_usd"] is None else f"${step['cost_usd']:.4f}"
    return [str(step["seq"]), step["kind"], step["model"] or "", state, "", took, tokens, cost]


def tries_again(state: GoalState, call: CallState) -> str:
    """Return when a failed step is retried; empty if it is not."""
    due_us = next_attempt_us(state, call)
    return "" if due_us is None else f", tries again at {moment(due_us)}"


def describe_state(state: GoalState, call: CallState) -> str:
    """Return the state of a call as text, with its question or answer, and the time of the next attempt."""
    status = state_of(call)
    match call.call:
        case Ask(question=question) if call.is_open:
            return f"{status}: {question}{deadline(call.call)}"
        case Ask() if call.decision is not None and call.decision.decision == "answer":
            return f"{status}: {call.decision.value}"
        case _:
            return status + tries_again(state, call)


def _reopening_row(body: Reopened) -> list[str]:
    why = "" if body.reason is None else f": {body.reason}"
    return [str(body.ended_seq + 1), "", "", f"retried by {body.by}{why}", "", "", "", ""]


def _row(state: GoalState, calls: list[CallState], now_us: int | None) -> list[str]:
    last = calls[-1]
    about = last.call
    took_ms = duration_ms(last, now_us)
    cost = sum(map(cost_of, calls))
    what, attempts = type(about).__name__.lower(), ""
    if isinstance(about, ToolCall):
        what = f"{about.tool}, {about.effect}"
        attempts = str(len(calls) + sum(call.times_again for call in calls))
    duration = "" if took_ms is None else in_words(took_ms)
    price = f"${cost:.4f}" if cost else ""
    return [events_of(calls), about.step, what, describe_state(state, last), attempts, duration, "", price]


def events_of(calls: Sequence[CallState]) -> str:
    """Return the range of events of a step: `3-4`, or `3-` if the step is open."""
    first, last = calls[0].seq, calls[-1].ended_seq
    if calls[-1].is_open or last is None:
        return f"{first}-"
    return str(first) if first == last else f"{first}-{last}"


def pending_line(row: InboxRow, *, is_over: bool = False) -> str:
    """Return a line about a pending post; a goal that has ended does not apply it."""
    what = " ".join(str(row.payload[name]) for name in ("decision", "call_id", "name") if row.payload.get(name))
    when = "Posted too late, the goal ended first" if is_over else f"Pending since {moment(row.created_us)}"
    return one_line(f"{when}: {row.kind} {what}".rstrip())


def origin(state: GoalState) -> list[str]:
    """Describe the origin of a fork; empty for any other goal."""
    origin = state.begun.forked_from
    return [] if origin is None else [f"It is a fork of {origin.goal_id} at event {origin.seq}."]


def headline(view: GoalView) -> str:
    """Return the id and status of a goal in one line, and since when it is overdue."""
    goal = view.summary
    why = goal.reason or goal.waiting_for
    if goal.due_us is not None and view.is_overdue(time.time_ns() // 1000):
        why = f"{why}, overdue since {moment(goal.due_us)}"
    about = f"{view.status} ({why})" if why and why != view.status else view.status
    return f"{goal.goal_id}: {about}"
