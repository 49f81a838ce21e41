"""What is seen of a goal while it runs: plain lines, events as JSON, or nothing; on a terminal see `live`."""

import json
import sys
from typing import Protocol

from perdure.app.wire.calls import deadline, duration_ms, waits
from perdure.interfaces.cli.command_result import Table, print_table
from perdure.interfaces.cli.goals.display.timeline import told, tries_again
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.interfaces.cli.output.terminal import lines, one_line, wrapped_for
from perdure.interfaces.cli.output.times import in_words
from perdure.kernel.calls.holding import describe_hold
from perdure.kernel.conversation.conversation import text_of
from perdure.kernel.events import (
    Ask,
    Body,
    Decision,
    Event,
    ForkedFrom,
    GoalBegun,
    Hold,
    LimitRaised,
    LimitReached,
    Message,
    ModelFailure,
    ModelTurn,
    OutcomeUnknown,
    Released,
    Reopened,
    Signal,
    ToolCall,
    ToolOutput,
    Wait,
    decode,
)
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import Call
from perdure.tools.exec.capture import left_out_bytes


class View(Protocol):
    """An observer of a goal; it is notified of events after they are durable."""

    def begin(self, state: GoalState, *, is_after_question: bool = False) -> None:
        """A run of a goal begins, new or resumed, or continues after it was interrupted by a question."""
        ...

    def see(self, event: Event, state: GoalState) -> None:
        """An event is durable."""
        ...

    def see_child(self, name: str, event: Event, state: GoalState) -> None:
        """An event of a child of the goal is durable; `name` is the step that started the child."""
        ...

    def show_again(self, state: GoalState) -> None:
        """A goal that had ended before was asked for."""
        ...

    def say(self, line: str) -> None:
        """There is something to say to a person."""
        ...

    def end(self, table: Table, said: list[str]) -> None:
        """The run is over: this is how it went."""
        ...

    def clear(self) -> None:
        """The run is over before its end: leave the terminal as it was."""
        ...


class Quiet:
    """Shows nothing but what must be said; for `--json`."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def begin(self, state: GoalState, *, is_after_question: bool = False) -> None: ...
    def see(self, event: Event, state: GoalState) -> None: ...
    def see_child(self, name: str, event: Event, state: GoalState) -> None: ...
    def show_again(self, state: GoalState) -> None: ...
    def end(self, table: Table, said: list[str]) -> None: ...
    def clear(self) -> None: ...

    def say(self, line: str) -> None:
        """See View.say."""
        self._writer.err(wrapped_for(one_line(line), sys.stderr) + "\n")


class JsonLines(Quiet):
    """Writes each event as one line of JSON when it is durable; for `--jsonl`."""

    def see(self, event: Event, state: GoalState) -> None:  # noqa: ARG002 (an event stands for itself)
        """See View.see."""
        self._writer.out(json.dumps(event.wire(), ensure_ascii=True) + "\n")


class Lines:
    """Says on standard error what happens, and writes what the tools print to standard output."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def begin(self, state: GoalState, *, is_after_question: bool = False) -> None:
        """See View.begin."""
        if state.head.seq > 1 and not is_after_question:
            self.say(f"goal {state.goal_id}: resumed after event {state.head.seq}")
            for call in state.open_calls.values():
                if isinstance(call.call, Wait):
                    self.say(f"step {call.call.step}: {_opening(call.call)}")

    def see(self, event: Event, state: GoalState) -> None:
        """See View.see."""
        if event.seq == 1:
            self.say(f"goal {event.goal_id}: begun")
        body = decode(event)
        line = line_about(body, state)
        if line is not None:
            self.say(line)
        if isinstance(body, ToolOutput):
            write_output(state.calls[body.call_id].call.step, body, self._writer)

    def see_child(self, name: str, event: Event, state: GoalState) -> None:
        """See View.see_child; what its tools print is left to those who watch the child itself."""
        line = f"goal {event.goal_id}: begun" if event.seq == 1 else line_about(decode(event), state)
        if line is not None:
            self.say(f"[{name}] {line}")

    def show_again(self, state: GoalState) -> None:
        """See View.show_again."""
        show_outputs(state, self._writer)

    def end(self, table: Table, said: list[str]) -> None:
        """See View.end."""
        self._writer.do(lambda: print_end(table, said))

    def clear(self) -> None:
        """See View.clear."""

    def say(self, line: str) -> None:
        """See View.say."""
        self._writer.err(wrapped_for(one_line(line), sys.stderr) + "\n")


def print_end(table: Table, said: list[str]) -> None:
    """Print the timeline and what there is to say after it."""
    if table.rows:
        print_table(table, sys.stderr)
    for line in said:
        print(wrapped_for(one_line(line), sys.stderr), file=sys.stderr, flush=True)


def write_output(step: str, outcome: ToolOutput, writer: Writer) -> None:
    """Write what a tool printed, as far as it was kept: for a program as it is, else without control characters."""
    output = outcome.output if isinstance(outcome.output, dict) else {}
    printed, complained = output.get("stdout"), output.get("stderr")
    if isinstance(complained, str) and complained:
        writer.err(_whole_lines(complained))
    if isinstance(printed, str) and printed:
        writer.out(_whole_lines(printed) if sys.stdout.isatty() else printed)
    for name, text in (("stdout", printed), ("stderr", complained)):
        if isinstance(text, str) and output.get(f"{name}_truncated"):
            writer.err(one_line(f"step {step}: {_cut(name, text)}") + "\n")


def _cut(name: str, text: str) -> str:
    """Say how much of an output is not there."""
    count = left_out_bytes(text)
    missing = "a part" if count is None else f"{count} bytes"
    return f"{missing} of its {name} were left out; of what a step writes, the first and last 512 KiB are kept"


def write_value(state: GoalState, writer: Writer) -> None:
    """Write what a flow returned: a text as it is, anything else as JSON."""
    value = state.termination.value if state.termination else None
    if state.begun.mind.kind == "flow" and value is not None:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        writer.out(_whole_lines(text) if sys.stdout.isatty() else f"{text}\n")


def _whole_lines(text: str) -> str:
    shown = lines(text)
    return shown if shown.endswith("\n") else shown + "\n"


def show_outputs(state: GoalState, writer: Writer) -> None:
    """Write once more what all tools of a goal that is not run printed."""
    why = "has ended already" if state.termination is not None else "is on hold"
    writer.err(f"{state.goal_id} {why}; nothing was run.\n")
    for call in state.calls.values():
        if call.outcome is not None:
            write_output(call.call.step, call.outcome, writer)


def line_about(body: Body, state: GoalState) -> str | None:
    """Say in one line what happened, if it is worth one."""
    match body:
        case ToolCall() | Ask() | Wait():
            return f"step {body.step}: {_opening(body)}"
        case ToolOutput() | OutcomeUnknown() | Decision():
            return _line_about_call(body, state)
        case GoalBegun(forked_from=ForkedFrom(goal_id=origin, seq=seq)):
            return f"goal {state.goal_id}: forked from {origin} at event {seq}"
        case Reopened() | Hold() | Released():
            return _line_about_turn(body)
        case _:
            return _line_from_outside(body)


def _line_about_turn(body: Reopened | Hold | Released) -> str:
    match body:
        case Reopened(by=by, reason=reason):
            return f"goal: retried by {by}" + ("" if reason is None else f": {reason}")
        case Hold():
            return describe_hold(body)
        case Released(by=by):
            return f"goal: released by {by}"


def _line_from_outside(body: Body) -> str | None:
    match body:
        case LimitRaised():
            return f"limit: {body.name} raised to {body.value:g}"
        case LimitReached():
            return f"limit: {body.left:g} {body.name} are left, and the next request may need {body.needed:g}"
        case Signal(name=name):
            return f"signal {name}"
        case _:
            return _line_of_conversation(body)


def _line_of_conversation(body: Body) -> str | None:
    match body:
        case Message(role="user", text=text):
            return text
        case ModelTurn():
            return text_of(body) or None
        case ModelFailure():
            return f"model {body.model}: {body.message}"
        case _:
            return None


def _opening(call: Call) -> str:
    match call:
        case ToolCall(attempt=attempt):
            return "started" if attempt == 1 else f"started, attempt {attempt}"
        case Ask(question=question):
            return f"asks: {question}{deadline(call)}"
        case Wait():
            return waits(call)


def _line_about_call(body: ToolOutput | OutcomeUnknown | Decision, state: GoalState) -> str | None:
    call = state.calls[body.call_id]
    step = call.call.step
    match body:
        case OutcomeUnknown():
            return f"step {step}: {body.why}"
        case Decision(decision="approve", by="effect" | "check"):
            return None  # why it is run again was said just before
        case Decision(decision="approve"):
            return f"step {step}: approved by {body.by}"
        case Decision():
            return f"step {step}: {told(state, call)}"
        case ToolOutput(ok=True):
            return f"step {step}: done in {in_words(duration_ms(call) or 0)}"
        case ToolOutput():
            why = body.error.message if body.error else "no reason was given"
            return f"step {step}: failed after {in_words(duration_ms(call) or 0)}: {why}{tries_again(state, call)}"
