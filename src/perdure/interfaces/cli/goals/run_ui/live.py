"""The live view of a running goal on a terminal: one line per step, redrawn in place; the timeline at the end.

Imported only if standard error is a terminal. Drawing runs on the thread of the writer.
"""

import sys
import time
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table as RichTable
from rich.text import Text

from perdure.app.goals.values import Body, CallState, Event, GoalState, ToolOutput, decode
from perdure.app.wire.calls import duration_ms
from perdure.interfaces.cli.command_result import Table
from perdure.interfaces.cli.goals.display.timeline import describe_state
from perdure.interfaces.cli.goals.run_ui.progress import print_end, show_outputs, write_output
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.interfaces.cli.output.terminal import one_line, wrapped_for
from perdure.interfaces.cli.output.times import in_words

_STYLES = {"done": "green", "failed": "red", "outcome": "yellow", "asks": "yellow", "needs": "yellow"}


@dataclass
class Line:
    """The shown state of a step."""

    step: str
    state: str
    is_running: bool
    took_ms: int | None = None
    since_s: float = field(default_factory=time.monotonic)


class LiveView:
    """Shows the steps of a running goal. See View."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lines: dict[str, Line] = {}
        self._title = ""
        self._is_shown = False
        self._console = Console(file=sys.stderr)
        self._spinner = Spinner("dots" if "utf" in self._console.encoding.lower() else "line")
        self._live: Live | None = None

    def begin(self, state: GoalState, *, is_after_question: bool = False) -> None:  # noqa: ARG002 (everything is redrawn)
        """See View.begin."""
        title = f"{one_line(state.begun.text)}  {state.goal_id}"
        calls = [(call, describe_state(state, call)) for call in state.calls.values()]
        self._writer.do(lambda: self._start(title, calls))

    def show_event(self, event: Event, state: GoalState) -> None:
        """See View.show_event."""
        body = decode(event)
        self._show_call(body, state)
        if isinstance(body, ToolOutput):
            self._print_output_above(state.calls[body.call_id].call.step, body)

    def show_child_event(self, name: str, event: Event, state: GoalState) -> None:
        """See View.show_child_event."""
        self._show_call(decode(event), state, f"[{name}] ")

    def _show_call(self, body: Body, state: GoalState, prefix: str = "") -> None:
        """Redraw the lines of a step, each with the prefix."""
        call = state.calls.get(getattr(body, "call_id", ""))
        if call is not None:
            same = [each for each in state.calls.values() if each.call.step == call.call.step]
            said = [
                (each, describe_state(state, each)) for each in same
            ]  # an earlier try no longer says when the next one is due
            self._writer.do(lambda: self._update_lines(said, prefix))

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
        """Print a text above the steps."""
        self._writer.do(self._stop_live)
        self._writer.err(wrapped_for(one_line(line), sys.stderr) + "\n")
        self._writer.do(self._start_live)

    def _print_output_above(self, step: str, outcome: ToolOutput) -> None:
        """Print the output of a tool above the steps."""
        if isinstance(outcome.output, dict) and (outcome.output.get("stdout") or outcome.output.get("stderr")):
            self._writer.do(self._stop_live)
            write_output(step, outcome, self._writer)
            self._writer.do(self._start_live)

    def _start(self, title: str, calls: list[tuple[CallState, str]]) -> None:
        self._title, self._is_shown = title, True
        for call, said in calls:
            self._update_line(call, said)
        self._start_live()

    def _update_lines(self, calls: list[tuple[CallState, str]], prefix: str) -> None:
        for call, said in calls:
            self._update_line(call, said, prefix)
        self._tick()

    def _update_line(self, call: CallState, said: str, prefix: str = "") -> None:
        about = call.call
        line = self._lines.setdefault(prefix + about.call_id, Line(prefix + about.step, "", is_running=True))
        line.is_running = call.runs
        line.state = "running" if call.runs else said
        if call.outcome is not None:
            line.took_ms = duration_ms(call)

    def _start_live(self) -> None:
        """Start a new live display below the printed text; restarting a stopped one would erase some of it."""
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
        self._stop_live()

    def _stop_live(self) -> None:
        self._writer.tick = None
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _tick(self) -> None:
        if self._live is not None:
            self._live.update(self._picture(), refresh=True)

    def _picture(self) -> Group:
        """Return the lines that fit on the screen: all running steps, and the newest finished ones."""
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
    """Return the lines without the oldest finished ones that do not fit."""
    too_many = max(len(lines) - room, 0)
    old = [id(line) for line in lines if not line.is_running][:too_many]
    return [line for line in lines if id(line) not in old][-room:]
