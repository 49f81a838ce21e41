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
from perdure.app.goals.values import Event, GoalState, Loop, OutcomeUnknown, RunResult, decode
from perdure.app.wire.goal_detail import GoalDetailView
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Unavailable
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import CommandResult, Table, to_json
from perdure.interfaces.cli.confirm import can_ask
from perdure.interfaces.cli.goals.display.hints import failure_lines, interrupted_lines, next_lines
from perdure.interfaces.cli.goals.display.timeline import exit_code_of, headline, origin, timeline
from perdure.interfaces.cli.goals.run_ui.flows import redirect_prints
from perdure.interfaces.cli.goals.run_ui.interrupts import INTERRUPTED, Interrupts
from perdure.interfaces.cli.goals.run_ui.progress import JsonLines, Lines, Quiet, View, write_value
from perdure.interfaces.cli.goals.run_ui.step_progress import ProgressLines
from perdure.interfaces.cli.goals.run_ui.writer import Writer, leave
from perdure.interfaces.cli.shell_hints import exact

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import GoalDetail

_PATIENCE_S = 1.0
UNREAD = "Standard output was closed by its reader, so the exit code is 1. The goal continued; see its history."


@dataclass(frozen=True)
class Showing:
    """The form of the output, and whether the goal is durable."""

    options: Options
    is_jsonl: bool = False
    is_kept: bool = True

    @property
    def is_for_program(self) -> bool:
        """Return whether standard output has JSON for a program, and nothing else may be printed there."""
        return self.is_jsonl or self.options.json


class RunUi:
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
        """The goal at its last stored event."""
        self._detail: GoalDetailView | None = None
        """The goal in detail after its run, for --json."""
        self._has_asked = self._is_asking = False
        self._said_unknown: set[str] = set()

    @property
    def options(self) -> Options:
        """The options of the command."""
        return self._showing.options

    def say(self, line: str) -> None:
        """Print a text for a person in the present view."""
        self.view.say(line)

    def watch(self, loop: Loop) -> None:
        """Show the events of a loop, and let the first interrupt stop it."""
        self.interrupts.watch(loop)
        self._goal_id = loop.journal.goal_id
        self._state = loop.state
        if loop.state.begun.mind.kind == "flow" and not self._showing.is_for_program:
            self.view = Lines(self._writer)  # prints of its steps would break a live view
        self._queue = loop.journal.queue
        self._seen = GoalView.of_state(loop.state, queue=self._queue) if loop.state.head.seq > 1 else None
        self.view.begin(loop.state, is_after_question=self._has_asked)
        loop.journal.listen(self._see)
        if not self._showing.is_for_program:
            lines = ProgressLines(self.say)
            loop.progress.listen(lambda progress: lines.show(loop.state, progress.call_id, progress.text))

    def run_options(self, jobs: int = 4, *, yes: bool = False, model: str | None = None) -> RunOptions:
        """Return the options of a run on this terminal: shown, and released as soon as it waits for a person.

        With `yes`, all calls of a model are approved. `model` replaces the model of the goal.
        """
        return RunOptions(jobs, yes, watch=self.watch, tell=self.say, parks_for_person=True, model=model)

    async def settle_in_place(self, goals: Goals, result: RunResult, run_options: RunOptions) -> RunResult:
        """Ask the questions of a goal on the terminal, and continue it; without one, return the result unchanged.

        Raises: the errors of Goals.resume_run.
        """
        if self.may_ask(result):
            from perdure.interfaces.cli.goals.run_ui.in_place import InPlace

            result = await InPlace(self, goals, run_options).run(result)
        if self.options.json:
            self._detail = await detail_of(goals, result.state)
        return result

    def may_ask(self, result: RunResult) -> bool:
        """Return whether a goal waits for a person, and this terminal can ask and was not interrupted."""
        is_there = can_ask(self.options) and not self._showing.is_jsonl and _has_terminal()
        waits = result.outcome == "waiting" and result.state.waiting_for == "person"
        return waits and is_there and not self.interrupts.count

    def has_printed_reason(self, call_id: str) -> bool:
        """Return whether the reason of a call's unknown outcome was already printed."""
        return call_id in self._said_unknown

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Hand over the terminal and the signals to a prompt inside the block."""
        self.view.clear()
        await self._writer.drain()
        self._has_asked = self._is_asking = True
        with self.interrupts.delegate_to_loop():
            yield
        self._is_asking = False  # stays set after an interrupt, which then prints how to return to the question

    async def end(self, result: RunResult) -> CommandResult:
        """Show the outcome of a run, and return the result of the command.

        Raises: Unavailable, BrokenPipeError when the output could not be written completely.
        """
        state = result.state
        seen = replace(
            GoalView.of_state(state, queue=result.queue, start_key=result.start_key),
            next_goals=result.next_goals,
            child_effects=result.child_effects,
        )
        if self._goal_id != state.goal_id:
            self.view.show_again(state)
        why = state.termination.detail if state.termination else None
        failure = [*([why] if why else []), *failure_lines(seen.error)]
        said = [headline(seen), *origin(state), *failure, *self._hints(seen)]
        if not self._showing.is_for_program:
            self.view.clear()  # a live view would erase what is written below it
            write_value(state, self._writer)
        self.view.end(timeline(state), said)
        await self._writer.drain()
        raise_failure(self._writer.failure)
        return CommandResult(self._wire(self._detail or GoalDetailView(seen)), exit_code=exit_code_of(result))

    def end_interrupted(self) -> CommandResult:
        """Print how to resume an interrupted run, and return the result of the command."""
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
        return CommandResult(self._known(), exit_code=INTERRUPTED)

    def _leave_question(self) -> CommandResult:
        """Print how to return to the open question."""
        if self._showing.is_kept and self._goal_id is not None:
            self.say("Interrupted; the goal keeps waiting. To answer, resume it:")
            self.say(f"  {exact(self.options, 'run', '--resume', self._goal_id)}")
        else:
            self.say("Interrupted.")
        return CommandResult(self._known(), exit_code=INTERRUPTED)

    def leave(self, exit_code: int) -> None:
        """Print how to resume, and exit the process at once; callable from any thread."""
        try:
            answer = self.end_interrupted()
            if self._showing.options.json:
                self._writer.out(to_json(answer.data) + "\n")
        except RuntimeError:  # the loop changed the state during the iteration
            command = exact(self._showing.options, "goal", "resume", self._goal_id or "ID")
            self.say(f"Interrupted. Resume it: {command}")
        leave(exit_code, self._writer, _PATIENCE_S)

    def _timeline(self) -> Table:
        """Return the timeline of the stored events; empty if the last events were not stored yet."""
        state, seen = self._state, self._seen
        is_stored = state is not None and seen is not None and state.head.seq == seen.summary.last_seq
        return timeline(state) if state is not None and is_stored else Table((), ())

    def _cut_off(self) -> list[str]:
        return interrupted_lines(self._state) if self._state is not None and self._seen is not None else []

    async def close(self, *, is_clean: bool) -> None:
        """Restore the terminal, without waiting for a stopped terminal or a blocked pipe."""
        if not is_clean:
            self.view.clear()
        await self._writer.finish(_PATIENCE_S)

    def _see(self, events: Sequence[Event], state: GoalState) -> None:
        self._state, self._seen = state, GoalView.of_state(state, queue=self._queue)
        for event in events:
            self.view.show_event(event, state)
            if isinstance(self.view, Lines) and isinstance(body := decode(event), OutcomeUnknown):
                self._said_unknown.add(body.call_id)

    def _hints(self, seen: GoalView) -> list[str]:
        if self._showing.is_kept:
            return next_lines(self._showing.options, seen)
        return [] if seen.is_final else ["The goal was ephemeral: nothing is stored, so it cannot be resumed."]

    def _known(self) -> Mapping[str, Any]:
        """Return the JSON form of the goal at its last stored event, without reading the store."""
        if self._seen is None:
            return {"id": self._goal_id, "status": "interrupted"}
        return self._wire(GoalDetailView(self._seen))

    def _wire(self, shown: GoalDetailView) -> "GoalDetail":
        """Return the JSON form of a goal; an ephemeral goal has no next commands."""
        wire = shown.wire()
        return wire if self._showing.is_kept else {**wire, "next": []}


async def run_goal(showing: Showing, act: Callable[[RunUi], Awaitable[RunResult]]) -> CommandResult:
    """Run a goal in the terminal, from opening the home to the last line of output.

    Raises: the errors of the run. The terminal is restored.
    """
    ui = RunUi(showing)
    is_clean = False
    with ui.interrupts:
        try:
            with redirect_prints(is_needed=showing.is_for_program):
                result = await act(ui)
            answer = await ui.end(result)
            is_clean = True
        except asyncio.CancelledError:
            if not ui.interrupts.forget():
                raise
            ui.view.clear()
            answer = ui.end_interrupted()
            is_clean = True
        finally:
            await ui.close(is_clean=is_clean)
    return answer


def _has_terminal() -> bool:
    """Return whether this process may read from its terminal: reading in the background would stop it."""
    try:
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except OSError:
        return True  # it is not the controlling terminal, so reading does not stop the process


def view_of(showing: Showing, writer: Writer) -> View:
    """Return the view of a goal: JSON for a program, a live view on a terminal, or plain lines."""
    if showing.is_jsonl:
        return JsonLines(writer)
    if showing.options.json:
        return Quiet(writer)
    if sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not showing.options.verbose:
        from perdure.interfaces.cli.goals.run_ui.live import LiveView

        return LiveView(writer)
    return Lines(writer)


def raise_failure(failure: OSError | None) -> None:
    """Raise the error of an earlier write to standard output, if any.

    Raises: BrokenPipeError when the reader has closed the pipe; Unavailable.
    """
    if isinstance(failure, BrokenPipeError):
        with suppress(OSError):  # the terminal may be closed, too
            print(UNREAD, file=sys.stderr, flush=True)
        raise failure
    if failure is not None:
        raise Unavailable(f"Standard output cannot be written: {failure.strerror}. The history has all outputs.")
