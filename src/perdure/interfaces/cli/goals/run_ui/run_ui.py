"""Runs a goal in the terminal: shows its progress, handles interrupts, prints the result. Used by all commands."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.details import detail_of
from perdure.app.goals.goals import Goals
from perdure.app.wire.goal_detail import GoalDetailView
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Unavailable
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import Answer, Table, to_json
from perdure.interfaces.cli.confirm import can_ask
from perdure.interfaces.cli.goals.display.hints import cut_off, failure_lines, next_lines
from perdure.interfaces.cli.goals.display.timeline import exit_code_of, headline, origin, timeline
from perdure.interfaces.cli.goals.run_ui.flows import prints_aside
from perdure.interfaces.cli.goals.run_ui.interrupts import INTERRUPTED, Interrupts
from perdure.interfaces.cli.goals.run_ui.progress import JsonLines, Lines, Quiet, View, write_value
from perdure.interfaces.cli.goals.run_ui.step_progress import ProgressLines
from perdure.interfaces.cli.goals.run_ui.writer import Writer, leave
from perdure.interfaces.cli.shell_hints import exact
from perdure.kernel.events import Event, OutcomeUnknown, decode
from perdure.kernel.fold import GoalState
from perdure.kernel.loop import Loop, RunResult

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import GoalDetail

_PATIENCE_S = 1.0
UNREAD = "The reader of standard output has closed it, so the exit code is 1; the goal continued, see its history."


@dataclass(frozen=True)
class Showing:
    """What the command shows, and whether the goal is kept."""

    options: Options
    is_jsonl: bool = False
    is_kept: bool = True

    @property
    def is_for_program(self) -> bool:
        """Whether standard output is for a program to read, and nothing else may be on it."""
        return self.is_jsonl or self.options.json


class Stage:
    """Where one goal is run: `watch` is what the goal's loop is given to."""

    def __init__(self, showing: Showing) -> None:
        self._showing = showing
        self._writer = Writer()
        self.view = view_of(showing, self._writer)
        self.interrupts = Interrupts(self.say, self.leave)
        self._goal_id: str | None = None
        self._state: GoalState | None = None
        self._queue = "cli"
        self._seen: GoalView | None = None
        """The goal as it is known to be stored."""
        self._detail: GoalDetailView | None = None
        """The goal after its run, for a program."""
        self._has_asked = self._is_asking = False
        self._said_unknown: set[str] = set()

    @property
    def options(self) -> Options:
        """The options of the command."""
        return self._showing.options

    def say(self, line: str) -> None:
        """Say something to a person, in whichever view there is by then."""
        self.view.say(line)

    def watch(self, loop: Loop) -> None:
        """Listen to a loop, and let the first interrupt stop it."""
        self.interrupts.stops(loop)
        self._goal_id = loop.journal.goal_id
        self._state = loop.state
        if loop.state.begun.mind.kind == "flow" and not self._showing.is_for_program:
            self.view = Lines(self._writer)  # what its steps print would break a picture that is renewed in place
        self._queue = loop.journal.queue
        self._seen = GoalView.of_state(loop.state, queue=self._queue) if loop.state.head.seq > 1 else None
        self.view.begin(loop.state, is_after_question=self._has_asked)
        loop.journal.listen(self._see)
        if not self._showing.is_for_program:
            lines = ProgressLines(self.say)
            loop.progress.listen(lambda progress: lines.show(loop.state, progress.call_id, progress.text))

    def run_options(self, jobs: int = 4, *, yes: bool = False) -> RunOptions:
        """Return how a goal is run here: watched, and released as soon as it waits for a person.

        With `yes`, that person approves what a model wants to do.
        """
        return RunOptions(jobs, yes, watch=self.watch, tell=self.say, parks_for_person=True)

    async def settle_in_place(self, goals: Goals, result: RunResult, run_options: RunOptions) -> RunResult:
        """Ask the person at the terminal what a goal waits for, and continue it; without a person, leave it as it is.

        Raises: what Goals.resume_run raises.
        """
        if self.may_ask(result):
            from perdure.interfaces.cli.goals.run_ui.in_place import InPlace

            result = await InPlace(self, goals, run_options).run(result)
        if self.options.json:
            self._detail = await detail_of(goals, result.state)
        return result

    def may_ask(self, result: RunResult) -> bool:
        """Tell whether a goal waits for a person, who is at the terminal and has not interrupted it."""
        is_there = can_ask(self.options) and not self._showing.is_jsonl and _has_terminal()
        waits = result.outcome == "waiting" and result.state.waiting_for == "person"
        return waits and is_there and not self.interrupts.count

    def has_said_why(self, call_id: str) -> bool:
        """Tell whether a line has said why the outcome of a call is unknown."""
        return call_id in self._said_unknown

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Leave the terminal and the signals to a prompt for the time of the block."""
        self.view.clear()
        await self._writer.drained()
        self._has_asked = self._is_asking = True
        with self.interrupts.left_to_loop():
            yield
        self._is_asking = False  # not after an interrupt, which then says how to get back to the question

    async def end(self, result: RunResult) -> Answer:
        """Tell how it went.

        Raises: Unavailable, BrokenPipeError when not all of the output could be written.
        """
        state = result.state
        seen = replace(
            GoalView.of_state(state, queue=result.queue),
            next_goals=result.next_goals,
            child_effects=result.child_effects,
        )
        if self._goal_id != state.goal_id:
            self.view.show_again(state)
        why = state.termination.detail if state.termination else None
        failure = [*([why] if why else []), *failure_lines(seen.error)]
        said = [headline(seen), *origin(state), *failure, *self._hints(seen)]
        if not self._showing.is_for_program:
            write_value(state, self._writer)
        self.view.end(timeline(state), said)
        await self._writer.drained()
        raise_failure(self._writer.failure)
        return Answer(self._wire(self._detail or GoalDetailView(seen)), exit_code=exit_code_of(result))

    def cut_short(self) -> Answer:
        """Tell how to go on after an end in the middle."""
        if self._is_asking:
            return self._leave_question()
        said = ["Interrupted."]
        options = self._showing.options
        if self._seen is not None:
            said += [*self._cut_off(), *self._hints(self._seen)]
        elif self._goal_id is not None and self._showing.is_kept:
            said += ["If it was stored, resume it:", f"  {exact(options, 'goal', 'resume', self._goal_id)}"]
        self.view.end(self._timeline(), [])
        for line in said:
            self.view.say(line)
        return Answer(self._known(), exit_code=INTERRUPTED)

    def _leave_question(self) -> Answer:
        """Tell how to get back to the question that was open."""
        if self._showing.is_kept and self._goal_id is not None:
            self.say("Interrupted; the goal keeps waiting. To answer, resume it:")
            self.say(f"  {exact(self.options, 'run', '--resume', self._goal_id)}")
        else:
            self.say("Interrupted.")
        return Answer(self._known(), exit_code=INTERRUPTED)

    def leave(self, exit_code: int) -> None:
        """Tell how to go on, and go at once, whatever still runs; from any thread."""
        try:
            answer = self.cut_short()
            if self._showing.options.json:
                self._writer.out(to_json(answer.data) + "\n")
        except RuntimeError:  # the state has changed while we looked
            command = exact(self._showing.options, "goal", "resume", self._goal_id or "ID")
            self.say(f"Interrupted. Resume it: {command}")
        leave(exit_code, self._writer, _PATIENCE_S)

    def _timeline(self) -> Table:
        """Lay out what is known to be stored; what was not yet stored at the end is not told."""
        state, seen = self._state, self._seen
        is_stored = state is not None and seen is not None and state.head.seq == seen.summary.last_seq
        return timeline(state) if state is not None and is_stored else Table((), ())

    def _cut_off(self) -> list[str]:
        return cut_off(self._state) if self._state is not None and self._seen is not None else []

    async def close(self, *, is_clean: bool) -> None:
        """Restore the terminal; a stopped terminal or a pipe without a reader is not waited for."""
        if not is_clean:
            self.view.clear()
        await self._writer.finish(_PATIENCE_S)

    def _see(self, events: Sequence[Event], state: GoalState) -> None:
        self._state, self._seen = state, GoalView.of_state(state, queue=self._queue)
        for event in events:
            self.view.see(event, state)
            if isinstance(self.view, Lines) and isinstance(body := decode(event), OutcomeUnknown):
                self._said_unknown.add(body.call_id)

    def _hints(self, seen: GoalView) -> list[str]:
        if self._showing.is_kept:
            return next_lines(self._showing.options, seen)
        return [] if seen.is_final else ["It was ephemeral: nothing of it is kept, so it cannot be resumed."]

    def _known(self) -> Mapping[str, Any]:
        """Return what is known to be stored at an end in the middle, without asking the store."""
        if self._seen is None:
            return {"id": self._goal_id, "status": "interrupted"}
        return self._wire(GoalDetailView(self._seen))

    def _wire(self, shown: GoalDetailView) -> "GoalDetail":
        """Return the JSON form of a goal; no command can continue one that is not kept."""
        wire = shown.wire()
        return wire if self._showing.is_kept else {**wire, "next": []}


async def staged(showing: Showing, act: Callable[[Stage], Awaitable[RunResult]]) -> Answer:
    """Run a goal in the terminal, from opening the home to the last line of output.

    Raises: whatever running it raises; the terminal is left as it was.
    """
    stage = Stage(showing)
    is_clean = False
    with stage.interrupts:
        try:
            with prints_aside(is_needed=showing.is_for_program):
                result = await act(stage)
            answer = await stage.end(result)
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


def _has_terminal() -> bool:
    """Tell whether this process may read from its terminal: one in the background would be stopped."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return True  # it is not the terminal that controls us, and does not stop us


def view_of(showing: Showing, writer: Writer) -> View:
    """Choose how a goal is seen: by a program, on a terminal, or in plain lines."""
    if showing.is_jsonl:
        return JsonLines(writer)
    if showing.options.json:
        return Quiet(writer)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not showing.options.verbose:
        from perdure.interfaces.cli.goals.run_ui.live import LiveView

        return LiveView(writer)
    return Lines(writer)


def raise_failure(failure: OSError | None) -> None:
    """Tell when standard output cannot be written any more.

    Raises: BrokenPipeError when the reader has closed the pipe; Unavailable.
    """
    if isinstance(failure, BrokenPipeError):
        with suppress(OSError):  # a terminal that has gone too
            print(UNREAD, file=sys.stderr, flush=True)
        raise failure
    if failure is not None:
        raise Unavailable(f"Standard output cannot be written: {failure.strerror}. The history has it all.")
