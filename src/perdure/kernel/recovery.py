"""What to do with calls that were begun by somebody who died: by their effect, run again, ask, or leave to a person."""

from collections.abc import Callable, Mapping

from perdure.errors import PerdureError
from perdure.kernel.admission import tool_for
from perdure.kernel.events import Body, Decision, OutcomeUnknown, ToolCall, ToolOutput
from perdure.kernel.journal import Journal
from perdure.kernel.ports import CallContext, Tool

Environment = Callable[[ToolCall], Mapping[str, str]]
_WHY = "We stopped between the start of this call and the record of its outcome"


def no_environment(_call: ToolCall) -> Mapping[str, str]:
    """Let a check see nothing of earlier outcomes."""
    return {}


async def recover(
    journal: Journal, tools: Mapping[str, Tool], workdir: str, environment: Environment = no_environment
) -> None:
    """Settle what is open, in the order it was begun, or let it be run again; each leaves its trace in the history.

    Before anything is asked or repeated, what is left of the call's processes is ended. A pure or idempotent call is
    run again with its key. Any other was started at most once and is not repeated: its own check says whether it
    happened, and where that does not know, the call becomes unknown and waits for a decision. Nothing is durable before
    the journal's next commit, so that a crash in here changes nothing.
    """
    for state in list(journal.state.open_calls.values()):
        call = state.call
        if isinstance(call, ToolCall) and state.runs:
            tool = tool_for(call, tools)
            await tool.reap(journal.goal_id, call.call_id)
            context = CallContext(journal.goal_id, call, workdir, environment(call))
            journal.record(*await _settled(tool, context))


async def give_up(journal: Journal, tools: Mapping[str, Tool]) -> None:
    """End what is left of open calls, and call unknown what may have happened: nobody will go on with the goal."""
    for state in list(journal.state.open_calls.values()):
        call = state.call
        if isinstance(call, ToolCall) and state.runs:
            await tool_for(call, tools).reap(journal.goal_id, call.call_id)
            if call.effect == "once":
                journal.record(OutcomeUnknown(call.call_id, f"{_WHY}."))


async def _settled(tool: Tool, context: CallContext) -> list[Body]:
    """Return what is to be recorded of a call that was begun and has no outcome."""
    call = context.call
    if call.effect != "once":
        return _again(call, f"{_WHY}; it is {call.effect}, so it is run again.", by="effect")
    try:
        found = await tool.check(context)
    except PerdureError as error:
        return [OutcomeUnknown(call.call_id, f"{_WHY}, and its check cannot tell: {error.detail}")]
    match found:
        case "happened":
            why = f"{_WHY}; its check says that it happened."
            return [OutcomeUnknown(call.call_id, why), ToolOutput(call.call_id, ok=True)]
        case "not_happened":
            return _again(call, f"{_WHY}; its check says that it did not happen, so it is run again.", by="check")
        case "unknown":
            return [OutcomeUnknown(call.call_id, f"{_WHY}.")]


def _again(call: ToolCall, why: str, *, by: str) -> list[Body]:
    """Let a call be run again under its own key, and leave a trace of it."""
    return [OutcomeUnknown(call.call_id, why), Decision(call.call_id, "approve", by=by)]
