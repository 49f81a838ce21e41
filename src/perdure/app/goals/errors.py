"""The exceptions that `p.goals.run` raises for goals that failed, were cancelled or wait."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from perdure.app.goals.arguments.validate import OnFailed
from perdure.app.wire.goal_view import GoalResult, GoalView
from perdure.app.wire.next_commands import NextCommand, next_commands, with_home
from perdure.errors import Conflict, GoalCancelled, GoalFailed, GoalWaiting
from perdure.kernel.events import Ask, Termination, Wait
from perdure.kernel.fold import GoalState
from perdure.kernel.history.reopening import ForkOffered
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import Owned
from perdure.kernel.summary import summarise
from perdure.minds.flow.registry import loaded_flow
from perdure.minds.flow.values.values import reader_of
from perdure.text.moments import moment

__all__ = ["ForkOffered", "Owned", "failure_of", "result_of", "wait_of"]


def result_of(
    result: RunResult, on_failed: OnFailed = "raise", *, home: Path | None = None, now_us: int | None = None
) -> GoalResult[Any]:
    """Return the result of a goal that is done, or whose run was stopped.

    The value of a loaded flow is converted to its return annotation; otherwise the JSON form is returned. The commands
    of an exception name the home, if one is passed, and are those that fit at `now_us`.

    Raises: GoalFailed and GoalCancelled, unless `on_failed` is "return"; GoalWaiting; Conflict when the value does not
    fit the annotation, because the code was changed.
    """
    failure, wait = failure_of(result, home), wait_of(result, home, now_us)
    if failure is not None and on_failed != "return":
        raise failure
    if wait is not None:
        raise wait
    try:
        return GoalResult.of(result.state, result.queue, _reader(result.state))
    except ValueError as error:
        goal_id, flow = result.state.goal_id, result.state.begun.mind.flow
        raise Conflict(
            f"{goal_id} is done, but its result cannot be read by the code of {flow}: {error}."
            f" `perdure goal show {goal_id}` prints the value."
        ) from error


def _reader(state: GoalState) -> Callable[[Any], Any]:
    """Return the function that converts the value of a goal, by the flow's annotation if its code is loaded."""
    spec = state.begun.mind
    flow = loaded_flow(spec.at, spec.flow) if spec.kind == "flow" and spec.at is not None else None
    return _as_it_is if flow is None else reader_of(flow.fn)


def _as_it_is(value: Any) -> Any:
    return value


def failure_of(result: RunResult, home: Path | None = None) -> GoalFailed | None:
    """Return the exception for a goal that has failed or was cancelled, else None."""
    state, end = result.state, result.state.termination
    if end is None or state.status == "done":
        return None
    kind = GoalCancelled if state.status == "cancelled" else GoalFailed
    traceback = end.error.traceback if end.error else None
    recorded_at = _moment(state.updated_us) if result.is_recorded else None
    return kind(state.goal_id, end.reason, _detail(end), traceback, _next(result, home), recorded_at=recorded_at)


def wait_of(result: RunResult, home: Path | None = None, now_us: int | None = None) -> GoalWaiting | None:
    """Return the exception for a goal that waits, else None."""
    state, waiting_for = result.state, result.state.waiting_for
    if waiting_for is None:
        return None
    calls = [each.call for each in state.open_calls.values()]
    unknown = [each.call.step for each in state.open_calls.values() if each.unknown is not None]
    due_us = min(state.timers().values(), default=None)
    failure = state.conversation.failure
    message = None if failure is None else failure.message
    below = [wait for wait in map(_wait_below, result.next_goals) if wait is not None]
    return GoalWaiting(
        state.goal_id,
        waiting_for,
        questions=[
            *(call for call in calls if isinstance(call, Ask)),
            *(question for wait in below for question in wait.questions),
        ],
        signals=[
            *(call.signal for call in calls if isinstance(call, Wait) and call.signal is not None),
            *(signal for wait in below for signal in wait.signals),
        ],
        due_at=None if due_us is None else _moment(due_us),
        next=_next(result, home, now_us),
        unknown=unknown,
        deadlines=_deadlines(state),
        failure=message,
        children=[wait.detail.removesuffix(".") for wait in below],
    )


def _deadlines(state: GoalState) -> dict[str, str]:
    """Return the deadlines of questions, by call id, and of signals, by name."""
    found = {}
    for call_id, due_us in state.timers().items():
        call = state.open_calls[call_id].call
        found[call.signal if isinstance(call, Wait) and call.signal is not None else call_id] = moment(due_us)
    return found


def _wait_below(child: GoalView) -> GoalWaiting | None:
    """Return the wait of a child, to be reported for its parent."""
    return (
        None
        if child.state is None
        else wait_of(RunResult("waiting", child.state, child.summary.queue, child.summary.start_key))
    )


def _moment(us: int) -> datetime:
    return datetime.fromtimestamp(us / 1e6, UTC)


def _detail(end: Termination) -> str | None:
    return end.detail or (end.error.message if end.error else None)


def _next(result: RunResult, home: Path | None, now_us: int | None = None) -> list[NextCommand]:
    row = summarise(result.state, start_key=result.start_key, queue=result.queue)
    own = next_commands(row, result.state, now_us=now_us, children=result.child_effects)
    below = [command for child in result.next_goals for command in child.next]
    commands = [*own, *below] if result.state.termination is not None else below or own
    return [*with_home(commands, home)]
