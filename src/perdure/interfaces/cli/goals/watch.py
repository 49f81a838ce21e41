"""`perdure goal watch`: follow a goal that another process runs, until it ends. It only reads."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Annotated

import typer

from perdure.app import open_home
from perdure.app.goals.arguments.validate import reached
from perdure.app.goals.details import detail_of
from perdure.app.goals.goals import Goals
from perdure.app.wire.goal_detail import GoalDetailView
from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command import Options, command
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.goals.display.hints import failure_lines, next_lines
from perdure.interfaces.cli.goals.display.timeline import exit_code_of, headline, origin, timeline
from perdure.interfaces.cli.goals.flags import SeenGoal, refuse_both
from perdure.interfaces.cli.goals.run_ui.descendants import Descendants
from perdure.interfaces.cli.goals.run_ui.progress import write_value
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing, raise_failure, view_of
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.kernel.events import Event
from perdure.kernel.fold import GoalState, apply, fold
from perdure.kernel.loop import Ran

_QUIET_S = 1.0
"""How long nothing has to happen before it is looked who runs the goal, and said when that has changed."""
_TICK_S = 0.25
"""How often children are read while nothing happens in their parent."""
_PATIENCE_S = 1.0


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    command(app, "watch")(watch)


async def watch(
    options: Options,
    *,
    goal: SeenGoal,
    after: Annotated[
        int, typer.Option("--after", min=0, metavar="SEQ", help="Leave out the events up to this number.")
    ] = 0,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print each event as one line of JSON.")] = False,
) -> Answer:
    """Show what happened in a goal and what happens, until it ends, with its exit code; Ctrl-C leaves it alone.

    Steps of its children are shown after the name of the step that started the child; --jsonl prints only its own
    events.
    """
    refuse_both(json=options.json, jsonl=jsonl)
    audience = _Audience(Showing(options, is_jsonl=jsonl), after)
    async with open_home(options.settings(), debug=options.verbose) as p:
        found = (await p.goals.find(goal)).summary
        reached(found, after)
        try:
            state = await audience.follow(p.goals, found.goal_id)
            return await audience.end(await detail_of(p.goals, state))
        finally:
            await audience.close()


class _Audience:
    """Shows the events of a goal."""

    def __init__(self, showing: Showing, after: int) -> None:
        self._options = showing.options
        self._after = after
        self._writer = Writer()
        self._view = view_of(showing, self._writer)
        self._is_quiet = showing.is_for_program
        self._status = "running"

    async def follow(self, goals: Goals, goal_id: str) -> GoalState:
        """Show each event, and say when the goal waits or no worker runs it; return the state at its end.

        Raises: BrokenPipeError when standard output is closed; what Goals.follow raises.
        """
        state: GoalState | None = None
        children = Descendants(goals, self._view)
        events = goals.follow(goal_id)
        coming, quiet_s = _next(events), 0.0
        try:
            while True:
                await asyncio.wait({coming}, timeout=_TICK_S)
                raise_failure(self._writer.failure)
                if not coming.done():
                    quiet_s += _TICK_S
                    await self._idle(goals, goal_id, state, children, is_quiet=quiet_s >= _QUIET_S)
                    continue
                event, quiet_s = coming.result(), 0.0
                if event is None:
                    return state if state is not None else await goals.state(goal_id)
                await children.before(event, state, is_shown=event.seq > self._after)
                state = self._see(event, state)
                await children.after(event, state)
                coming = _next(events)
        finally:
            coming.cancel()
            await asyncio.wait({coming})

    async def _idle(
        self, goals: Goals, goal_id: str, state: GoalState | None, children: Descendants, *, is_quiet: bool
    ) -> None:
        """Show what happens in children while nothing happens in the goal; then say where the goal stands."""
        await children.look()
        if is_quiet:
            await self._look(goals, goal_id, state)

    async def end(self, shown: GoalDetailView) -> Answer:
        """Print how it ended."""
        seen, state = shown.goal, shown.state
        detail = state.termination.detail if state.termination else None
        self._view.clear()  # the live view erases what is written below it
        if not self._is_quiet:
            write_value(state, self._writer)
        failure = [*([detail] if detail else []), *failure_lines(seen.error)]
        said = [headline(seen), *origin(state), *failure, *next_lines(self._options, seen)]
        self._view.end(timeline(state), said)
        await self._writer.drained()
        raise_failure(self._writer.failure)
        return Answer(shown.wire(), exit_code=exit_code_of(Ran("ended", state, seen.summary.queue)))

    async def close(self) -> None:
        """Leave the terminal as it was."""
        self._view.clear()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._writer.drained()
        except TimeoutError:
            pass
        finally:
            self._writer.close()

    def _see(self, event: Event, before: GoalState | None) -> GoalState:
        if before is None:
            state = fold([event])
            self._view.begin(state)
        else:
            state = before
            apply(state, event)
        if event.seq > self._after:
            self._view.see(event, state)
        return state

    async def _look(self, goals: Goals, goal_id: str, state: GoalState | None) -> None:
        """Print once where the goal stands when it is not running, and not before the events that led there."""
        found = await goals.find(goal_id)
        status = f"{found.status} {found.summary.waiting_for}"
        if status == self._status or state is None or found.summary.last_seq != state.tip.seq:
            return
        self._status = status
        if found.status != "running" and not self._is_quiet:
            seen = GoalView.of_state(state, is_running=found.is_running, row=found.summary)
            seen = replace(seen, next_goals=await goals.children.waiting(state))
            for line in [headline(found), *next_lines(self._options, seen)]:
                self._view.say(line)


def _next(events: AsyncIterator[Event]) -> "asyncio.Task[Event | None]":
    async def coming() -> Event | None:
        return await anext(events, None)

    return asyncio.create_task(coming())
