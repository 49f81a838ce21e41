"""Shows the events and the status of a goal that another process or a server runs."""

from perdure.app.goals.values import Event, GoalState, RunResult, apply, fold
from perdure.app.wire.goal_detail import GoalDetailView
from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.goals.display.hints import failure_lines, next_lines
from perdure.interfaces.cli.goals.display.timeline import exit_code_of, headline, origin, timeline
from perdure.interfaces.cli.goals.run_ui.progress import write_value
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing, raise_failure, view_of
from perdure.interfaces.cli.goals.run_ui.step_progress import ProgressLines
from perdure.interfaces.cli.goals.run_ui.writer import Writer

_PATIENCE_S = 1.0


class GoalDisplay:
    """Shows the events of a followed goal after a seq."""

    def __init__(self, showing: Showing, after_seq: int) -> None:
        self.after_seq = after_seq
        self._options = showing.options
        self._writer = Writer()
        self.view = view_of(showing, self._writer)
        self._is_quiet = showing.is_for_program
        self._shown_status = "running"
        self._progress = ProgressLines(self.view.say)

    def raise_failure(self) -> None:
        """Raise the error that occurred while writing standard output, if any.

        Raises: BrokenPipeError when the reader has closed the pipe; Unavailable.
        """
        raise_failure(self._writer.failure)

    def show_event(self, event: Event, before: GoalState | None) -> GoalState:
        """Show an event, and return the state after it; `before` is None at the first."""
        if before is None:
            state = fold([event])
            self.view.begin(state)
        else:
            state = before
            apply(state, event)
        if event.seq > self.after_seq:
            self.view.show_event(event, state)
        return state

    def show_progress(self, state: GoalState | None, call_id: str, text: str) -> None:
        """Show the progress of a running call to a person."""
        if not self._is_quiet:
            self._progress.show(state, call_id, text)

    def has_shown_status(self, goal: GoalView) -> bool:
        """Return whether the present status of a goal was already shown."""
        return self._shown_status == _status_of(goal)

    def show_status(self, goal: GoalView) -> None:
        """Print the status of a goal that is not running, once."""
        if self.has_shown_status(goal):
            return
        self._shown_status = _status_of(goal)
        if goal.status != "running":
            for line in [headline(goal), *next_lines(self._options, goal)]:
                self.view.say(line)

    async def end(self, shown: GoalDetailView) -> CommandResult:
        """Print the outcome of the goal, or what it waits for; return the result of the command."""
        seen, state = shown.goal, shown.state
        detail = state.termination.detail if state.termination else None
        self.view.clear()  # the live view erases lines that are written below it
        if not self._is_quiet:
            write_value(state, self._writer)
        failure = [*([detail] if detail else []), *failure_lines(seen.error)]
        said = [headline(seen), *origin(state), *failure, *next_lines(self._options, seen)]
        self.view.end(timeline(state), said)
        await self._writer.drain()
        self.raise_failure()
        return CommandResult(shown.wire(), exit_code=exit_code_of(RunResult("ended", state, seen.summary.queue)))

    async def close(self) -> None:
        """Restore the terminal."""
        self.view.clear()
        await self._writer.finish(_PATIENCE_S)


def _status_of(goal: GoalView) -> str:
    return f"{goal.status} {goal.summary.waiting_for}"
