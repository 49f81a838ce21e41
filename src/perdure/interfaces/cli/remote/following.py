"""Runs goals at a server and shows their events here."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from perdure.app.goals.values import Event, GoalState
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Conflict, Unavailable
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.goals.following.goal_display import GoalDisplay
from perdure.interfaces.cli.goals.run_ui.interrupts import INTERRUPTED
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing
from perdure.interfaces.cli.output.terminal import one_line
from perdure.interfaces.cli.remote.goals import ServerGoals
from perdure.interfaces.cli.remote.opened import server_goals
from perdure.interfaces.cli.shell_hints import exact
from perdure.tasks import end_tasks

if TYPE_CHECKING:
    from perdure.client import CallProgress

_QUIET_S = 1.0
"""The time without events after which the status of the goal is requested."""
_ENDS_A_RUN = ("person", "signal", "limit", "hold", "message", "model")
"""The waits that end the command, which then prints how the goal continues."""

Start = Callable[[ServerGoals], Awaitable[tuple[GoalView, int]]]
"""Starts a goal at a server; returns it and the seq of the last event that was already shown."""


async def run_at_server(showing: Showing, url: str, start: Start) -> CommandResult:
    """Let a server run a goal, show its events until it ends or waits for a person, and exit with the goal's code.

    Ctrl-C ends only the command: the goal continues on the server, and the command to follow it is printed.

    Raises: the errors of `start`; Unavailable when the server cannot be reached, with the command to follow the goal.
    """
    async with server_goals(url) as goals:
        goal, after = await start(goals)
        try:
            return await _show_until_end(showing, goals, goal.id, after, is_run=True)
        except asyncio.CancelledError:
            print(
                f"Interrupted. The goal continues at {url}. {_watch_hint(showing, goal.id)}",
                file=sys.stderr,
                flush=True,
            )
            return CommandResult(goal.wire(), exit_code=INTERRUPTED)


async def watch_at_server(showing: Showing, url: str, name: str, after: int) -> CommandResult:
    """Show the events of a goal of a server until it ends.

    Raises: NotFound; Conflict when it has fewer events than `after`; Unavailable.
    """
    async with server_goals(url) as goals:
        found = (await goals.find(name)).summary
        if after > found.last_seq:
            raise Conflict(f"{found.goal_id} has {found.last_seq} events; --after is {after}.")
        return await _show_until_end(showing, goals, found.goal_id, after, is_run=False)


async def _show_until_end(
    showing: Showing, goals: ServerGoals, goal_id: str, after: int, *, is_run: bool
) -> CommandResult:
    display = GoalDisplay(showing, after)
    try:
        state = await _follow(display, goals, goal_id, is_run=is_run)
        return await display.end(await goals.detail_of(state))
    except Unavailable as error:
        raise Unavailable(f"{error.detail} The goal stays on the server. {_watch_hint(showing, goal_id)}") from error
    finally:
        await display.close()


async def _follow(display: GoalDisplay, goals: ServerGoals, goal_id: str, *, is_run: bool) -> GoalState:
    """Show each event; return the state when the goal ends, or when a run is over because the goal waits.

    Raises: BrokenPipeError when standard output is closed; what ServerGoals.follow raises.
    """
    state: GoalState | None = None

    def show_progress(progress: "CallProgress") -> None:
        display.show_progress(state, progress["call_id"], progress["text"])

    next_event = _next(events := goals.follow(goal_id, show_progress))
    try:
        while True:
            done, _ = await asyncio.wait({next_event}, timeout=_QUIET_S)
            display.raise_failure()
            if done:
                event = next_event.result()
                if event is None:
                    return state if state is not None else await goals.state(goal_id)
                state = display.show_event(event, state)
                next_event = _next(events)
            elif state is not None and await _show_status(display, goals, state, is_run=is_run):
                return state
    finally:
        await end_tasks({next_event})


async def _show_status(display: GoalDisplay, goals: ServerGoals, state: GoalState, *, is_run: bool) -> bool:
    """Print the status of a goal without new events; return whether the run is over."""
    with suppress(Unavailable):  # the stream of events reports a lasting outage
        found = await goals.get(state.goal_id)
        if found.summary.last_seq == state.head.seq:
            if is_run and found.status == "waiting" and found.summary.waiting_for in _ENDS_A_RUN:
                return True
            display.show_status(found)
    return False


def _watch_hint(showing: Showing, goal_id: str) -> str:
    return one_line(f"Follow it: `{exact(showing.options, 'goal', 'watch', goal_id)}`")


def _next(events: AsyncIterator[Event]) -> "asyncio.Task[Event | None]":
    async def next_event() -> Event | None:
        return await anext(events, None)

    return asyncio.create_task(next_event())
