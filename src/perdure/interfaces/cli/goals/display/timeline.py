"""A goal as a person sees it: its steps, what became of each, and the exit code that it ends with."""

import time
from bisect import bisect
from collections.abc import Sequence

from perdure.app.wire.calls import cost_of, deadline, duration_ms, state_of
from perdure.app.wire.goal_detail import not_begun
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_attempts import next_attempt_us
from perdure.interfaces.cli.command_result import Table
from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.output.times import in_words
from perdure.kernel.events import Ask, Reopened, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import InboxRow
from perdure.moments import moment

HEADERS = ("events", "step", "tool", "state", "tries", "took", "cost")
STATE_COLUMN = HEADERS.index("state")


def exit_code_of(result: RunResult) -> int:
    """Return how a run of a goal ends: 0 only when the goal is done, or a conversation waits for the next message."""
    state = result.state
    if state.termination is not None:
        return {"done": 0, "cancelled": 130}.get(state.termination.reason, 1)
    if result.outcome == "interrupted":
        return 130
    return {"limit": 6, "model": 8, "message": 0}.get(state.waiting_for or "", 5)


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
