"""Views of a running goal: plain lines, events as JSON, or nothing. For a terminal, see `live`."""

import json
import sys
from typing import Protocol

from perdure.app.goals.values import (
    Ask,
    Body,
    Call,
    Decision,
    Event,
    ForkedFrom,
    GoalBegun,
    GoalState,
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
    describe_hold,
    is_answer,
    left_out_bytes,
    text_of,
)
from perdure.app.wire.calls import deadline, duration_ms, waits
from perdure.interfaces.cli.command_result import Table, print_table
from perdure.interfaces.cli.goals.display.timeline import describe_state, tries_again
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.interfaces.cli.output.terminal import lines, one_line, value_text, wrapped_for
from perdure.interfaces.cli.output.times import in_words


class View(Protocol):
    """Shows a goal; it is called with events after they are durable."""

    def begin(self, state: GoalState, *, is_after_question: bool = False) -> None:
        """Show the start of a run, new or resumed, or its continuation after a question."""
        ...

    def show_event(self, event: Event, state: GoalState) -> None:
        """Show a durable event."""
        ...

    def show_child_event(self, name: str, event: Event, state: GoalState) -> None:
        """Show a durable event of a child; `name` is the step that started the child."""
        ...

    def show_again(self, state: GoalState) -> None:
        """Show the outputs of a goal that is not run, because it has ended or is on hold."""
        ...

    def say(self, line: str) -> None:
        """Print a text for a person."""
        ...

    def end(self, table: Table, said: list[str]) -> None:
        """Show the timeline and the final lines after a run."""
        ...

    def clear(self) -> None:
        """Restore the terminal, also when a run is aborted."""
        ...


class Quiet:
    """Prints only messages for a person, on standard error; for `--json`."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def begin(self, state: GoalState, *, is_after_question: bool = False) -> None: ...
    def show_event(self, event: Event, state: GoalState) -> None: ...
    def show_child_event(self, name: str, event: Event, state: GoalState) -> None: ...
    def show_again(self, state: GoalState) -> None: ...
    def end(self, table: Table, said: list[str]) -> None: ...
    def clear(self) -> None: ...

    def say(self, line: str) -> None:
        """See View.say."""
        self._writer.err(wrapped_for(one_line(line), sys.stderr) + "\n")


class JsonLines(Quiet):
    """Prints each durable event as one line of JSON; for `--jsonl`."""

    def show_event(self, event: Event, state: GoalState) -> None:  # noqa: ARG002 (the event has all the data)
        """See View.show_event."""
        self._writer.out(json.dumps(event.wire(), ensure_ascii=True) + "\n")


class Lines:
    """Prints progress on standard error, and the outputs of tools on standard output."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def begin(self, state: GoalState, *, is_after_question: bool = False) -> None:
        """See View.begin."""
        if state.head.seq > 1 and not is_after_question:
            self.say(f"goal {state.goal_id}: resumed after event {state.head.seq}")
            for call in state.open_calls.values():
                if isinstance(call.call, Wait):
                    self.say(f"step {call.call.step}: {_opening(call.call)}")

    def show_event(self, event: Event, state: GoalState) -> None:
        """See View.show_event."""
        if event.seq == 1:
            self.say(f"goal {event.goal_id}: begun")
        body = decode(event)
        line = line_about(body, state)
        if line is not None:
            self.say(line)
        if isinstance(body, ToolOutput):
            write_output(state.calls[body.call_id].call.step, body, self._writer)

    def show_child_event(self, name: str, event: Event, state: GoalState) -> None:
        """See View.show_child_event; the outputs of its tools are not printed."""
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
    """Print the timeline, then the lines."""
    if table.rows:
        print_table(table, sys.stderr)
    for line in said:
        print(wrapped_for(one_line(line), sys.stderr), file=sys.stderr, flush=True)


def write_output(step: str, outcome: ToolOutput, writer: Writer) -> None:
    """Write the recorded output of a tool: unchanged for a program, with escaped control characters for a terminal."""
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
    """Return a note about the missing part of an output."""
    count = left_out_bytes(text)
    missing = "a part" if count is None else f"{count} bytes"
    return f"{missing} of its {name} were dropped; only the first and last 512 KiB of an output are recorded"


def write_value(state: GoalState, writer: Writer) -> None:
    """Write what a flow returned or a model answered: a text as it is, anything else as JSON."""
    value = state.termination.value if state.termination else None
    if state.begun.mind.kind in ("flow", "model") and value is not None:
        text = value_text(value)
        writer.out(_whole_lines(text) if sys.stdout.isatty() else f"{text}\n")


def _whole_lines(text: str) -> str:
    shown = lines(text)
    return shown if shown.endswith("\n") else shown + "\n"


def show_outputs(state: GoalState, writer: Writer) -> None:
    """Write the recorded outputs of all tools of a goal that is not run."""
    why = "has ended already" if state.termination is not None else "is on hold"
    writer.err(f"{state.goal_id} {why}; nothing was run.\n")
    for call in state.calls.values():
        if call.outcome is not None:
            write_output(call.call.step, call.outcome, writer)


def line_about(body: Body, state: GoalState) -> str | None:
    """Return a line about an event, or None if it is not shown."""
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
            return _line_from_outside(body, state)


def _line_about_turn(body: Reopened | Hold | Released) -> str:
    match body:
        case Reopened(by=by, reason=reason):
            return f"goal: retried by {by}" + ("" if reason is None else f": {reason}")
        case Hold():
            return describe_hold(body)
        case Released(by=by):
            return f"goal: released by {by}"


def _line_from_outside(body: Body, state: GoalState) -> str | None:
    match body:
        case LimitRaised():
            return f"limit: {body.name} raised to {body.value:g}"
        case LimitReached():
            return f"limit: {body.left:g} {body.name} are left, and the next request may need {body.needed:g}"
        case Signal(name=name):
            return f"signal {name}"
        case _:
            return _line_of_conversation(body, state)


def _line_of_conversation(body: Body, state: GoalState) -> str | None:
    match body:
        case Message(role="user", text=text):
            return text
        case ModelTurn() if state.begun.mind.chat or not is_answer(body):  # what ends a run is its value
            return text_of(body) or None
        case ModelFailure():
            return f"model: {body.message}"
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
            return None  # the line before has the reason of the repetition
        case Decision(decision="approve"):
            return f"step {step}: approved by {body.by}"
        case Decision():
            return f"step {step}: {describe_state(state, call)}"
        case ToolOutput(ok=True):
            return f"step {step}: done in {in_words(duration_ms(call) or 0)}"
        case ToolOutput():
            why = body.error.message if body.error else "no reason was recorded"
            return f"step {step}: failed after {in_words(duration_ms(call) or 0)}: {why}{tries_again(state, call)}"
