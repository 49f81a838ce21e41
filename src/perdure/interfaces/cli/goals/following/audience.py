"""Those who follow a goal that another process or a server runs: its events are shown, and where it stands."""

from perdure.app.wire.goal_detail import GoalDetailView
from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.goals.display.hints import failure_lines, next_lines
from perdure.interfaces.cli.goals.display.timeline import exit_code_of, headline, origin, timeline
from perdure.interfaces.cli.goals.run_ui.progress import write_value
from perdure.interfaces.cli.goals.run_ui.run_ui import Showing, raise_failure, view_of
from perdure.interfaces.cli.goals.run_ui.step_progress import ProgressLines
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.kernel.events import Event
from perdure.kernel.fold import GoalState, apply, fold
from perdure.kernel.loop import RunResult

_PATIENCE_S = 1.0


class Audience:
    """Shows the events of a goal after a seq."""

    def __init__(self, showing: Showing, after: int) -> None:
        self.after = after
        self._options = showing.options
        self._writer = Writer()
        self.view = view_of(showing, self._writer)
        self._is_quiet = showing.is_for_program
        self._told = "running"
        self._progress = ProgressLines(self.view.say)

    def raise_failure(self) -> None:
        """Tell when standard output cannot be written any more.

        Raises: BrokenPipeError when the reader has closed the pipe; Unavailable.
        """
        raise_failure(self._writer.failure)

    def see(self, event: Event, before: GoalState | None) -> GoalState:
        """Show an event, and return the state after it; `before` is None at the first."""
        if before is None:
            state = fold([event])
            self.view.begin(state)
        else:
            state = before
            apply(state, event)
        if event.seq > self.after:
            self.view.see(event, state)
        return state

    def show_progress(self, state: GoalState | None, call_id: str, text: str) -> None:
        """Show to a person what a call reports while it runs."""
        if not self._is_quiet:
            self._progress.show(state, call_id, text)

    def is_told(self, goal: GoalView) -> bool:
        """Tell whether it was said already that a goal stands where it does."""
        return self._told == _standing(goal)

    def stands(self, goal: GoalView) -> None:
        """Say once where a goal stands when it is not running."""
        if self.is_told(goal):
            return
        self._told = _standing(goal)
        if goal.status != "running":
            for line in [headline(goal), *next_lines(self._options, goal)]:
                self.view.say(line)

    async def end(self, shown: GoalDetailView) -> Answer:
        """Print how it ended, or where it waits."""
        seen, state = shown.goal, shown.state
        detail = state.termination.detail if state.termination else None
        self.view.clear()  # the live view erases what is written below it
        if not self._is_quiet:
            write_value(state, self._writer)
        failure = [*([detail] if detail else []), *failure_lines(seen.error)]
        said = [headline(seen), *origin(state), *failure, *next_lines(self._options, seen)]
        self.view.end(timeline(state), said)
        await self._writer.drained()
        self.raise_failure()
        return Answer(shown.wire(), exit_code=exit_code_of(RunResult("ended", state, seen.summary.queue)))

    async def close(self) -> None:
        """Leave the terminal as it was."""
        self.view.clear()
        await self._writer.finish(_PATIENCE_S)


def _standing(goal: GoalView) -> str:
    return f"{goal.status} {goal.summary.waiting_for}"
