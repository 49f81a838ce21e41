"""Prints the recorded output of a step or a goal."""

from perdure.app.goals.values import CallState, GoalState, named_step
from perdure.errors import NotFound
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import CommandResult
from perdure.interfaces.cli.goals.run_ui.progress import write_output
from perdure.interfaces.cli.goals.run_ui.run_ui import raise_failure
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.interfaces.cli.output.terminal import value_text
from perdure.interfaces.cli.remote.opened import goals_of

VALUE = "value"
"""The name of the goal's result, unless a step has that name."""


async def output_of(options: Options, goal: str, name: str) -> CommandResult:
    """Print the output of a call, of a step's last call, or the result of the goal.

    Raises: NotFound when there is no such step, or it has no output yet; Invalid when the name is ambiguous.
    """
    async with goals_of(options) as goals:
        state = await goals.reader.state((await goals.reader.find(goal)).id)
    if name == VALUE and state.termination is not None and not _has_step(state, VALUE):
        value = state.termination.value
        return CommandResult({"output": value}, [value_text(value)])
    call = _require_call_with_output(state, name)
    output = call.decision.value if call.decision else None
    if call.outcome:
        output = call.outcome.output
    data = {"call_id": call.call.call_id, "step": call.call.step, "output": output}
    if not options.json and call.outcome is not None and isinstance(output, dict) and "stdout" in output:
        writer = Writer()
        write_output(call.call.step, call.outcome, writer)
        await writer.drain()
        writer.close()
        raise_failure(writer.failure)
        return CommandResult(data)
    return CommandResult(data, [value_text(output)])


def _has_step(state: GoalState, name: str) -> bool:
    return any(call.call.step == name for call in state.calls.values())


def _require_call_with_output(state: GoalState, name: str) -> CallState:
    """Return the named call, or the last call with an output of the named step.

    Raises: NotFound; Invalid when the name is ambiguous.
    """
    named = named_step(state, name)
    ended = [call for call in named.calls if not call.is_open]
    if not ended:
        steps = dict.fromkeys(call.call.step for call in state.calls.values() if not call.is_open)
        hint = f"Steps with an output: {', '.join(steps)}." if steps else "No step has an output."
        raise NotFound(f"{named.step} of {state.goal_id} has no output yet. {hint}")
    return ended[-1]
