"""What to do with calls that were begun by somebody who died: by their effect, run again, ask, or leave to a person."""

from collections.abc import Callable, Mapping

from perdure.kernel.admission import tool_for
from perdure.kernel.events import OutcomeUnknown, ToolCall, ToolOutput
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
    """Settle what is open, in the order it was begun; a call that stays as it was is to be run again.

    Before anything is asked or repeated, what is left of the call's processes is ended. A pure or idempotent call is
    run again with its key. Any other was started at most once and is not repeated: its own check says whether it
    happened, and where that does not know, the call becomes unknown and waits for a decision. Nothing is durable before
    the journal's next commit, so that a crash in here changes nothing.
    """
    for state in list(journal.state.open_calls.values()):
        call = state.call
        if not (isinstance(call, ToolCall) and state.runs):
            continue
        tool = tool_for(call, tools)
        await tool.reap(journal.goal_id, call.call_id)
        if call.effect != "once":
            continue
        match await tool.check(CallContext(journal.goal_id, call, workdir, environment(call))):
            case "happened":
                journal.record(
                    OutcomeUnknown(call.call_id, f"{_WHY}; its check says that it happened."),
                    ToolOutput(call.call_id, ok=True),
                )
            case "not_happened":
                pass
            case "unknown":
                journal.record(OutcomeUnknown(call.call_id, f"{_WHY}."))
