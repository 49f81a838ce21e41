"""Lists of goals for people, fitted to the width of the terminal."""

from collections.abc import Sequence

from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command_result import Table
from perdure.interfaces.cli.output.terminal import cut_to, one_line, width_of
from perdure.interfaces.cli.output.times import deadline_moment, short_moment, sortable_moment, span

HEADERS = ("goal", "status", "started", "took", "calls", "text")
_SPARE = ("text", "calls", "started", "took")
"""The columns that a narrow terminal omits, in this order. The id contains the start time and words of the text."""
_GAP = 2
_LEAST_TEXT = 16
_LEAST_FAILURE = 40
"""The minimum width of a failure beside its goal; with less, the failure is on the next line."""
_MOST_TEXT = 60
_INDENT = "  "


def goal_table(goals: Sequence[GoalView], now_us: int, columns: int | None) -> Table:
    """Return a table of goals that fits the width of a terminal; None for a file or pipe, which gets all columns."""
    rows = [_cells(goal, now_us, is_for_terminal=columns is not None) for goal in goals]
    if columns is None:
        texts = [cut_to(_failure(goal) or row[-1], _MOST_TEXT) for goal, row in zip(goals, rows, strict=True)]
        return Table(HEADERS, [[*row[:-1], text] for row, text in zip(rows, texts, strict=True)])
    widths = [
        max(width_of(cell) for cell in cells) for cells in zip(HEADERS[:-1], *(row[:-1] for row in rows), strict=True)
    ]
    shown = list(HEADERS)
    for name in _SPARE:
        room = columns - sum(widths[HEADERS.index(each)] + _GAP for each in shown if each != "text")
        if room >= (_LEAST_TEXT if "text" in shown else -_GAP):
            break
        shown.remove(name)
    return Table(shown, _fitted(goals, rows, shown, columns, room), is_fitted=True)


def _fitted(
    goals: Sequence[GoalView], rows: Sequence[list[str]], shown: list[str], columns: int, room: int
) -> list[list[str]]:
    """Reduce each row to the shown columns; a failure without enough room is put on the next line."""
    has_text = "text" in shown
    is_below = not has_text or room < _LEAST_FAILURE
    kept = [HEADERS.index(name) for name in shown if name != "text"]
    lines: list[list[str]] = []
    for goal, row in zip(goals, rows, strict=True):
        failure = _failure(goal)
        text = row[-1] if is_below or not failure else failure
        lines.append([*(row[n] for n in kept), *([cut_to(text, room)] if has_text else [])])
        if failure and is_below:
            lines.append([cut_to(f"{_INDENT}{failure}", columns)])
    return lines


def _cells(goal: GoalView, now_us: int, *, is_for_terminal: bool) -> list[str]:
    summary = goal.summary
    started = short_moment(summary.created_us, now_us) if is_for_terminal else sortable_moment(summary.created_us)
    until_us = summary.updated_us if goal.is_final else now_us
    text = summary.text if summary.parent is None else f"{summary.text} (child of {summary.parent.goal_id})"
    return [
        goal.id,
        status_of(goal, now_us),
        started,
        span(summary.created_us, until_us),
        str(summary.steps),
        one_line(text),
    ]


def status_of(goal: GoalView, now_us: int) -> str:
    """Return the status of a goal with the cause of a wait: `waiting: person`, with a deadline `until 14:05`.

    A goal that was due and has no worker is `overdue since 14:05`.
    """
    waits_for, due_us = goal.summary.waiting_for, goal.summary.due_us
    if due_us is not None and goal.is_overdue(now_us):
        return f"overdue since {deadline_moment(due_us, now_us)}"
    if goal.status != "waiting" or not waits_for:
        return goal.status
    if due_us is None or waits_for not in ("person", "signal"):
        return f"waiting: {waits_for}"
    return f"waiting: {waits_for} until {deadline_moment(due_us, now_us)}"


def _failure(goal: GoalView) -> str:
    """Return the failure of a goal; empty if it did not fail or has no detail."""
    return one_line(goal.detail or "") if goal.status == "failed" else ""
