"""The view of a running goal on a terminal: one line per step, renewed in place; at the end it is the timeline.

Imported only where standard error is a terminal. All of it but the messages runs on the writer's thread.
"""

import sys
import time
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table as RichTable
from rich.text import Text

from perdure.app.wire.calls import duration_ms
from perdure.interfaces.cli.command_result import Table
from perdure.interfaces.cli.goals.display.timeline import told
from perdure.interfaces.cli.goals.run_ui.progress import print_end, show_outputs, write_output
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.interfaces.cli.output.terminal import one_line, wrapped_for
from perdure.interfaces.cli.output.times import in_words
from perdure.kernel.events import Body, Event, ToolOutput, decode
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState

_STYLES = {"done": "green", "failed": "red", "outcome": "yellow", "asks": "yellow", "needs": "yellow"}


@dataclass
class Line:
    """A step as it is shown."""

    step: str
    state: str
    is_running: bool
    took_ms: int | None = None
    since_s: float = field(default_factory=time.monotonic)


class LiveView:
    """Shows the steps while they run. See View."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lines: dict[str, Line] = {}
        self._title = ""
        self._is_shown = False
        self._console = Console(file=sys.stderr)
        self._spinner = Spinner("dots" if "utf" in self._console.encoding.lower() else "line")
        self._live: Live | None = None

    def begin(self, state: GoalState, *, is_after_question: bool = False) -> None:  # noqa: ARG002 (drawn anew)
        """See View.begin."""
        title = f"{one_line(state.begun.text)}  {state.goal_id}"
        calls = [(call, told(state, call)) for call in state.calls.values()]
        self._writer.do(lambda: self._start(title, calls))

    def see(self, event: Event, state: GoalState) -> None:
        """See View.see."""
        body = decode(event)
        self._show_call(body, state)
        if isinstance(body, ToolOutput):
            self._aside(state.calls[body.call_id].call.step, body)

    def see_child(self, name: str, event: Event, state: GoalState) -> None:
        """See View.see_child."""
        self._show_call(decode(event), state, f"[{name}] ")

    def _show_call(self, body: Body, state: GoalState, prefix: str = "") -> None:
        """Renew the lines of a step; a line begins with the prefix."""
        call = state.calls.get(getattr(body, "call_id", ""))
        if call is not None:
            same = [each for each in state.calls.values() if each.call.step == call.call.step]
            said = [
                (each, told(state, each)) for each in same
            ]  # an earlier try no longer says when the next one is due
            self._writer.do(lambda: self._renew(said, prefix))

    def show_again(self, state: GoalState) -> None:
        """See View.show_again."""
        show_outputs(state, self._writer)

    def end(self, table: Table, said: list[str]) -> None:
        """See View.end."""
        self.clear()
        self._writer.do(lambda: print_end(table, said))

    def clear(self) -> None:
        """See View.clear."""
        self._writer.do(self._finish)

    def say(self, line: str) -> None:
        """Say something above the steps."""
        self._writer.do(self._stop)
        self._writer.err(wrapped_for(one_line(line), sys.stderr) + "\n")
        self._writer.do(self._go_on)

    def _aside(self, step: str, outcome: ToolOutput) -> None:
        """Let a tool's output stand above the steps."""
        if isinstance(outcome.output, dict) and (outcome.output.get("stdout") or outcome.output.get("stderr")):
            self._writer.do(self._stop)
            write_output(step, outcome, self._writer)
            self._writer.do(self._go_on)

    def _start(self, title: str, calls: list[tuple[CallState, str]]) -> None:
        self._title, self._is_shown = title, True
        for call, said in calls:
            self._note(call, said)
        self._go_on()

    def _renew(self, calls: list[tuple[CallState, str]], prefix: str) -> None:
        for call, said in calls:
            self._note(call, said, prefix)
        self._tick()

    def _note(self, call: CallState, said: str, prefix: str = "") -> None:
        about = call.call
        line = self._lines.setdefault(prefix + about.call_id, Line(prefix + about.step, "", is_running=True))
        line.is_running = call.runs
        line.state = "running" if call.runs else said
        if call.outcome is not None:
            line.took_ms = duration_ms(call)

    def _go_on(self) -> None:
        """Show the steps, below all that was written; a Live that was stopped would erase some of it."""
        if self._is_shown:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
            self._writer.tick = self._tick
            self._tick()

    def _finish(self) -> None:
        self._is_shown = False
        self._stop()

    def _stop(self) -> None:
        self._writer.tick = None
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _tick(self) -> None:
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        """Lay out what fits on the screen: the newest steps, and all that run."""
        room = max(self._console.size.height - 3, 3)
        table = RichTable.grid(padding=(0, 2))
        for _ in range(4):
            table.add_column(no_wrap=True, overflow="ellipsis")
        for line in _newest(list(self._lines.values()), room):
            style = _STYLES.get(line.state.partition(" ")[0].rstrip(":,"), "")
            mark = self._spinner.render(time.monotonic()) if line.is_running else Text(" ")
            took_ms = round((time.monotonic() - line.since_s) * 1000) if line.is_running else line.took_ms
            took = "" if took_ms is None else in_words(took_ms)
            table.add_row(mark, Text(one_line(line.step)), Text(one_line(line.state), style=style), Text(took))
        return Group(Text(self._title, style="bold", no_wrap=True, overflow="ellipsis"), table)


def _newest(lines: list[Line], room: int) -> list[Line]:
    """Leave out the oldest of those that have ended, as many as do not fit."""
    too_many = max(len(lines) - room, 0)
    old = [id(line) for line in lines if not line.is_running][:too_many]
    return [line for line in lines if id(line) not in old][-room:]
