"""What to do with calls that were begun by somebody who died: by their effect, run again, ask, or leave to a person."""

from collections.abc import Mapping

from perdure.errors import Invalid
from perdure.kernel.events import OutcomeUnknown, ToolCall, ToolOutput
from perdure.kernel.journal import Journal
from perdure.kernel.ports import CallContext, Tool


async def recover(journal: Journal, tools: Mapping[str, Tool], workdir: str) -> list[ToolCall]:
    """Settle what is open, in the order it was begun, and return the calls to be run again.

    Before anything is asked or repeated, what is left of the call's processes is ended. A pure or idempotent call is
    run again with its key. Any other was started at most once and is not repeated: its own check says whether it
    happened, and where that does not know, the call becomes unknown and waits for a decision. Nothing is durable before
    the journal's next commit, so that a crash in here changes nothing.
    """
    again: list[ToolCall] = []
    for state in list(journal.state.open_calls.values()):
        call = state.call
        if not isinstance(call, ToolCall) or state.unknown is not None:
            continue
        tool = tool_for(call, tools)
        await tool.reap(journal.goal_id, call.call_id)
        if call.effect != "once":
            again.append(call)
            continue
        match await tool.check(CallContext(journal.goal_id, call, workdir)):
            case "happened":
                journal.record(ToolOutput(call.call_id, ok=True, output={"checked": "happened"}))
            case "not_happened":
                again.append(call)
            case "unknown":
                why = "We stopped between the start of this call and the record of its outcome."
                journal.record(OutcomeUnknown(call.call_id, why))
    return again


def tool_for(call: ToolCall, tools: Mapping[str, Tool]) -> Tool:
    """Return the tool that a call names.

    Raises: Invalid
    """
    try:
        return tools[call.tool]
    except KeyError:
        raise Invalid(f"There is no tool {call.tool!r}; known are {', '.join(sorted(tools))}.") from None
