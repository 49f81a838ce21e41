"""`perdure goal watch`: shows the events of a goal that another process runs, without changing it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.app.change_feed.subscription import Subscription
from perdure.app.goals.arguments.validate import require_seq
from perdure.app.goals.details import detail_of
from perdure.app.goals.goals import Goals
from perdure.app.goals.values import Event, GoalState
from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.goals.flags import SeenGoal, reject_both
from perdure.interfaces.cli.goals.following.descendants import Descendants
from perdure.interfaces.cli.goals.following.goal_display import GoalDisplay
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing
from perdure.tasks import end_tasks

_QUIET_S = 1.0
"""The time without events after which the status of the goal is read, and printed if it has changed."""


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "watch", server=True)(watch)


async def watch(
    options: Options,
    *,
    goal: SeenGoal,
    after: Annotated[int, typer.Option("--after", min=0, metavar="SEQ", help="Skip the events up to this seq.")] = 0,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print each event as one line of JSON.")] = False,
) -> CommandResult:
    """Show the past and new events of a goal until it ends, and exit with its code. Ctrl-C does not stop the goal.

    Steps of its children are shown with the name of the step that started the child; --jsonl and --url show only the
    events of the goal itself.
    """
    reject_both(json=options.json, jsonl=jsonl)
    showing = Showing(options, is_jsonl=jsonl)
    if options.server is not None:
        from perdure.interfaces.cli.remote.following import watch_at_server

        return await watch_at_server(showing, options.server, goal, after)
    display = _HomeGoalDisplay(showing, after)
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = (await p.goals.find(goal)).summary
        require_seq(found, after)
        try:
            state = await display.follow(p.goals, found.goal_id)
            return await display.end(await detail_of(p.goals, state))
        finally:
            await display.close()


class _HomeGoalDisplay(GoalDisplay):
    """Shows the events of a goal of a home, and those of its children."""

    async def follow(self, goals: Goals, goal_id: str) -> GoalState:
        """Show each event, and when the goal waits or has no worker; return the state at its end.

        Raises: BrokenPipeError when standard output is closed; what Goals.follow raises.
        """
        async with goals.feed.subscribe(goal_id) as changes:
            return await self._follow(goals, goal_id, changes)

    async def _follow(self, goals: Goals, goal_id: str, changes: Subscription) -> GoalState:
        """See `follow`; between events of the goal, show events of its children.

        The next event of the goal and the next changes of goals are awaited together. If both arrive, the event is
        shown first, because it may start or end a child; the changes stay pending until the next turn.
        """
        state: GoalState | None = None
        children = Descendants(goals, self.view, changes)
        events = goals.follow(goal_id)
        time = asyncio.get_running_loop().time
        next_event, next_changes, quiet_since_s = _next(events), _wait(changes), time()
        try:
            while True:
                await asyncio.wait({next_event, next_changes}, return_when=asyncio.FIRST_COMPLETED)
                self.raise_failure()
                if next_event.done():
                    event, quiet_since_s = next_event.result(), time()
                    if event is None:
                        return state if state is not None else await goals.state(goal_id)
                    await children.show_until(event, state, is_shown=event.seq > self.after_seq)
                    state = self.show_event(event, state)
                    await children.follow_new(event, state)
                    next_event = _next(events)
                    continue
                goal_ids, next_changes = next_changes.result(), _wait(changes)
                await children.show_new(None if changes.has_missed else goal_ids)
                changes.has_missed = False
                if time() - quiet_since_s >= _QUIET_S:
                    await self._show_status_if_changed(goals, goal_id, state)
        finally:
            await end_tasks({next_event, next_changes})

    async def _show_status_if_changed(self, goals: Goals, goal_id: str, state: GoalState | None) -> None:
        """Print the status of a goal that is not running, unless it was shown, or events that led to it were not."""
        found = await goals.find(goal_id)
        if state is None or self.has_shown_status(found) or found.summary.last_seq != state.head.seq:
            return
        seen = GoalView.of_state(state, is_running=found.is_running, row=found.summary)
        self.show_status(replace(seen, next_goals=await goals.children.waiting(state)))


def _wait(changes: Subscription) -> "asyncio.Task[list[str]]":
    return asyncio.create_task(changes.wait(_QUIET_S))


def _next(events: AsyncIterator[Event]) -> "asyncio.Task[Event | None]":
    async def next_event() -> Event | None:
        return await anext(events, None)

    return asyncio.create_task(next_event())
