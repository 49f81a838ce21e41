"""What is printed about a goal: its next commands, which can be pasted, why it failed, and a call to be allowed."""

import json
import shlex
from collections.abc import Iterator

from perdure.app.home.server_mark import is_served
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_commands import NextCommand
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.output.terminal import lines, one_line
from perdure.interfaces.cli.shell_hints import exact
from perdure.kernel.events import ToolCall, ToolError
from perdure.kernel.fold import GoalState


def next_lines(options: Options, view: GoalView) -> list[str]:
    """Write the next commands of a goal for the same home, each below what it is for."""
    said = [line for each in view.next for line in (one_line(each.why), f"  {pasted(options, each)}")]
    return [*said, *_waking_lines(options, view)]


def _waking_lines(options: Options, goal: GoalView) -> list[str]:
    """Say whether a server will wake a goal that sleeps, and what else would; nothing for any other goal."""
    is_asleep = goal.status == "waiting" and goal.summary.waiting_for == "timer" and goal.summary.queue == "cli"
    if not is_asleep:
        return []
    if options.server is not None or is_served(options.settings().home):
        return ["The server that runs on this home resumes it when it is due."]
    all_due, serve = exact(options, "goal", "resume", "--due"), exact(options, "serve")
    return [f"No server runs on this home. `{serve}` would resume it, and so would", f"`{all_due}`."]


def pasted(options: Options, each: NextCommand) -> str:
    """Return a command as it can be pasted here: with this program's name and home, if it is one of Perdure's."""
    program, *words = shlex.split(each.command)
    return exact(options, *words) if program == "perdure" else one_line(each.command)


def failure_lines(error: ToolError | None) -> list[str]:
    """Write the traceback of a failure, indented; nothing where there is none."""
    written = error.traceback if error is not None else None
    return [] if not written else [f"    {line}" for line in lines(written).rstrip().splitlines()]


def caught_failures(state: GoalState) -> Iterator[str]:
    """Write the tracebacks of steps that failed, apart from those that are part of the goal's own."""
    last = {call.call.step: call for call in state.calls.values()}
    ended = state.termination.error if state.termination is not None else None
    told = (ended.traceback if ended is not None else None) or ""
    for step, call in last.items():
        error = call.outcome.error if call.outcome is not None else None
        if error is not None and error.traceback is not None and error.traceback.rstrip() not in told:
            yield one_line(f"step {step}: {error.message}")
            yield from failure_lines(error)


def cut_off(state: GoalState) -> list[str]:
    """Say what becomes of the calls that were ended in the middle."""
    said = []
    for call in state.open_calls.values():
        if call.runs and isinstance(call.call, ToolCall):
            asks = "when it is resumed, its check is asked whether it happened, or you are"
            then = asks if call.call.effect == "once" else f"it is {call.call.effect}, so a resume runs it again"
            said.append(one_line(f"{call.call.call_id} was cut off: {then}."))
    return said


def shown_call(call: ToolCall) -> str:
    """Return a tool call in full, exactly as it will be run, for a person to allow it."""
    arguments = json.dumps(call.arguments, indent=2, ensure_ascii=False)
    return f"{one_line(f'{call.call_id}: {call.tool}, {call.effect}')}\n{lines(arguments)}"
