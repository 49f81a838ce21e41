"""What a step gave, as the history has it."""

import json
from typing import Any

from perdure.errors import NotFound
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.command_result import Answer
from perdure.interfaces.cli.goals.run_ui.progress import write_output
from perdure.interfaces.cli.goals.run_ui.run_ui import raise_failure
from perdure.interfaces.cli.goals.run_ui.writer import Writer
from perdure.interfaces.cli.remote.opened import goals_of
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.step_names import named_step

VALUE = "value"
"""Names what the goal returned, unless a step has that name."""


async def output_of(options: Options, goal: str, name: str) -> Answer:
    """Print the output of a step, which is that of its last call, or of a call; or the goal's value.

    Raises: NotFound when there is no such step, or it has no output yet; Invalid when the name is ambiguous.
    """
    async with goals_of(options) as goals:
        state = await goals.reader.state((await goals.reader.find(goal)).id)
    if name == VALUE and state.termination is not None and not _has_step(state, VALUE):
        value = state.termination.value
        return Answer({"output": value}, [_text(value)])
    call = _found(state, name)
    given = call.outcome.output if call.outcome else call.decision.value if call.decision else None
    data = {"call_id": call.call.call_id, "step": call.call.step, "output": given}
    if not options.json and call.outcome is not None and isinstance(given, dict) and "stdout" in given:
        writer = Writer()
        write_output(call.call.step, call.outcome, writer)
        await writer.drained()
        writer.close()
        raise_failure(writer.failure)
        return Answer(data)
    return Answer(data, [_text(given)])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _has_step(state: GoalState, name: str) -> bool:
    return any(call.call.step == name for call in state.calls.values())


def _found(state: GoalState, name: str) -> CallState:
    """Return the last call with an output of the step that a name stands for, or the call that it stands for.

    Raises: NotFound; Invalid when the name is ambiguous.
    """
    named = named_step(state, name)
    ended = [call for call in named.calls if not call.is_open]
    if not ended:
        known = dict.fromkeys(call.call.step for call in state.calls.values() if not call.is_open)
        have = f"Steps that have one: {', '.join(known)}." if known else "No step has one."
        raise NotFound(f"{named.step} of {state.goal_id} has no output yet. {have}")
    return ended[-1]
