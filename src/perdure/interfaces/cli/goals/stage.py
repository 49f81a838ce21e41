"""A goal run in front of somebody: watched, interrupted, told of at the end. All that runs one comes here."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from perdure.app.views import GoalView
from perdure.errors import Unavailable
from perdure.interfaces.cli.answer import Answer
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.goals.interrupts import INTERRUPTED, Interrupts
from perdure.interfaces.cli.goals.progress import JsonLines, Lines, Quiet, View
from perdure.interfaces.cli.goals.timeline import exact, exit_code_of, headline, next_commands, timeline
from perdure.interfaces.cli.goals.writer import Writer
from perdure.kernel.events import Event
from perdure.kernel.fold import GoalState
from perdure.kernel.loop import Loop, Ran

_PATIENCE_S = 1.0


@dataclass(frozen=True)
class Showing:
    """What somebody wants to see, and whether the goal is kept."""

    options: Options
    is_jsonl: bool = False
    is_kept: bool = True


class Stage:
    """Where one goal is run: `watch` is what the goal's loop is given to."""

    def __init__(self, showing: Showing) -> None:
        self._showing = showing
        self._writer = Writer()
        self.view = _view(showing, self._writer)
        self.interrupts = Interrupts(self.view.say)
        self._goal_id: str | None = None
        self._seen: GoalView | None = None
        """The goal as it is known to be stored."""

    def watch(self, loop: Loop) -> None:
        """Listen to a loop, and let the first interrupt stop it."""
        self.interrupts.stops(loop)
        self._goal_id = loop.journal.goal_id
        self._seen = GoalView.of_state(loop.state) if loop.state.tip.seq > 1 else None
        self.view.begin(loop.state)
        loop.journal.listen(self._see)

    async def end(self, ran: Ran) -> Answer:
        """Tell how it went.

        Raises: Unavailable, BrokenPipeError when not all of the output could be written.
        """
        state = ran.state
        seen = GoalView.of_state(state)
        if self._goal_id is None:
            self.view.show_again(state)
        why = state.termination.detail if state.termination else None
        said = [headline(seen), *([why] if why else []), *self._hints(state)]
        self.view.end(timeline(state), said)
        await self._writer.drained()
        _raise(self._writer.failure)
        return Answer(seen.wire(), exit_code=exit_code_of(ran))

    def cut_short(self) -> Answer:
        """Tell how to go on after an end in the middle."""
        said = ["Interrupted."]
        options = self._showing.options
        if self._goal_id is not None and self._showing.is_kept:
            command = exact(options, "run", "--resume", self._goal_id)
            begun = "Go on:" if self._seen is not None else "If it was begun at all, this goes on:"
            said += [begun, f"  {command}"]
        for line in said:
            self.view.say(line)
        data = self._seen.wire() if self._seen is not None else {"id": self._goal_id, "status": "interrupted"}
        return Answer(data, exit_code=INTERRUPTED)

    async def close(self, *, is_clean: bool) -> None:
        """Leave the terminal as it was; one that is held, or a pipe that nobody reads, is not waited for."""
        if not is_clean:
            self.view.clear()
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await self._writer.drained()
        except TimeoutError:
            pass
        finally:
            self._writer.close()

    def _see(self, events: Sequence[Event], state: GoalState) -> None:
        self._seen = GoalView.of_state(state)
        for event in events:
            self.view.see(event, state)

    def _hints(self, state: GoalState) -> list[str]:
        if self._showing.is_kept:
            return next_commands(self._showing.options, state)
        return [] if state.termination else ["It was ephemeral: nothing of it is kept, so it cannot go on."]


async def staged(showing: Showing, act: Callable[[Stage], Awaitable[Ran]]) -> Answer:
    """Run a goal in front of somebody, from opening the home to the last word.

    Raises: whatever running it raises; the terminal is left as it was.
    """
    stage = Stage(showing)
    is_clean = False
    with stage.interrupts:
        try:
            ran = await act(stage)
            answer = await stage.end(ran)
            is_clean = True
        except asyncio.CancelledError:
            if not stage.interrupts.forget():
                raise
            stage.view.clear()
            answer = stage.cut_short()
            is_clean = True
        finally:
            await stage.close(is_clean=is_clean)
    return answer


def _view(showing: Showing, writer: Writer) -> View:
    if showing.is_jsonl:
        return JsonLines(writer)
    if showing.options.json:
        return Quiet(writer)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not showing.options.verbose:
        from perdure.interfaces.cli.goals.live import LiveView

        return LiveView(writer)
    return Lines(writer)


def _raise(failure: OSError | None) -> None:
    if isinstance(failure, BrokenPipeError):
        raise failure
    if failure is not None:
        raise Unavailable(f"Standard output cannot be written: {failure.strerror}. The history has it all.")
