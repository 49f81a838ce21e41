"""What a step gave, as the history has it."""

import json

from perdure.app import open_home
from perdure.errors import NotFound
from perdure.interfaces.cli.answer import Answer
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.goals.progress import write_output
from perdure.interfaces.cli.goals.stage import raise_failure
from perdure.interfaces.cli.goals.writer import Writer
from perdure.kernel.fold import CallState, GoalState


async def output_of(options: Options, goal: str, name: str) -> Answer:
    """Print what a step gave, by its id for the last of its calls, or by the id of a call.

    Raises: NotFound when there is no such step, or it has given nothing yet.
    """
    async with open_home(options.settings(), debug=options.verbose) as p:
        state = await p.goals.state((await p.goals.find(goal)).summary.goal_id)
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
    return Answer(data, [given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)])


def _found(state: GoalState, name: str) -> CallState:
    ended = [call for call in state.calls.values() if not call.is_open]
    named = [call for call in ended if name in (call.call.call_id, call.call.step)]
    if not named:
        known = ", ".join(dict.fromkeys(call.call.step for call in ended)) or "none"
        raise NotFound(f"No step {name!r} of {state.goal_id} has given anything. Those that have: {known}.")
    return named[-1]
