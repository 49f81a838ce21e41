"""Text about a goal: its next commands, its failure, and a call to approve."""

import json
import shlex
from collections.abc import Iterator

from perdure.app.goals.values import GoalState, ToolCall, ToolError
from perdure.app.home.server_mark import is_served
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_commands import NextCommand
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.output.terminal import lines, one_line
from perdure.interfaces.cli.shell_hints import exact


def next_lines(options: Options, view: GoalView) -> list[str]:
    """Return the next commands of a goal for the same home, each below its purpose."""
    commands = [line for each in view.next for line in (one_line(each.why), f"  {pasteable_command(options, each)}")]
    return [*commands, *_waking_lines(options, view)]


def _waking_lines(options: Options, goal: GoalView) -> list[str]:
    """Return how a sleeping goal is resumed: by a server, or by which commands; empty for any other goal."""
    is_asleep = goal.status == "waiting" and goal.summary.waiting_for == "timer" and goal.summary.queue == "cli"
    if not is_asleep:
        return []
    if options.server is not None or is_served(options.settings().home):
        return ["The server of this home resumes it when it is due."]
    all_due, serve = exact(options, "goal", "resume", "--due"), exact(options, "serve")
    return [f"No server runs on this home. Start one: `{serve}`", f"or resume due goals: `{all_due}`"]


def pasteable_command(options: Options, each: NextCommand) -> str:
    """Return a command that can be pasted; a command of Perdure gets this program's name and home."""
    program, *words = shlex.split(each.command)
    return exact(options, *words) if program == "perdure" else one_line(each.command)


def failure_lines(error: ToolError | None) -> list[str]:
    """Return the indented traceback of a failure; empty without one."""
    traceback = error.traceback if error is not None else None
    return [] if not traceback else [f"    {line}" for line in lines(traceback).rstrip().splitlines()]


def caught_failures(state: GoalState) -> Iterator[str]:
    """Yield the tracebacks of failed steps that are not part of the goal's own traceback."""
    last = {call.call.step: call for call in state.calls.values()}
    ended = state.termination.error if state.termination is not None else None
    shown = (ended.traceback if ended is not None else None) or ""
    for step, call in last.items():
        error = call.outcome.error if call.outcome is not None else None
        if error is not None and error.traceback is not None and error.traceback.rstrip() not in shown:
            yield one_line(f"step {step}: {error.message}")
            yield from failure_lines(error)


def interrupted_lines(state: GoalState) -> list[str]:
    """Return lines about the interrupted calls, and how a resume handles them."""
    found = []
    for call in state.open_calls.values():
        if call.runs and isinstance(call.call, ToolCall):
            asks = "at a resume, its check finds out whether it had its effect, or you are asked"
            then = asks if call.call.effect == "once" else f"it is {call.call.effect}, so a resume runs it again"
            found.append(one_line(f"{call.call.call_id} was interrupted: {then}."))
    return found


def call_text(call: ToolCall) -> str:
    """Return a tool call in full, exactly as it will be run, for approval."""
    arguments = json.dumps(call.arguments, indent=2, ensure_ascii=False)
    return f"{one_line(f'{call.call_id}: {call.tool}, {call.effect}')}\n{lines(arguments)}"
