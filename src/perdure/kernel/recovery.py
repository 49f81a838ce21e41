"""What to do with calls that were begun and have no outcome: by their effect, run again, ask, or leave to a person."""

from collections.abc import Callable, Mapping, Sequence

from perdure.errors import Conflict, PerdureError
from perdure.kernel.deciding.admission import tool_for
from perdure.kernel.events import Body, Decision, OutcomeUnknown, ToolCall, ToolOutput
from perdure.kernel.journal import Journal
from perdure.kernel.tool import CallContext, KnownOutput, Tool

Environment = Callable[[ToolCall], Mapping[str, str]]
EXHAUSTION = (OSError, RuntimeError, MemoryError)
"""What Python raises when descriptors, processes, threads, memory or disk space run out."""
_LONGEST_REASON = 2_000
BAD_RESULT = "bad_result"
"""The error code of a call that was done, and whose result cannot be stored."""
LOST_RESULT = "lost_result"
"""The error code of a call that was done, and whose result is not known: null cannot stand for it."""
WITHOUT_RESULT = (
    "its check says that it happened, but not with which result; return Happened(value), or decide: skip --value JSON"
)
_GIVE_RESULT = (
    "Change the function to return a value that can be stored. Then decide: `skip` with the result as JSON, or `retry`"
    " to run the step again."
)
_WHY = "The worker ended between the start of this call and the record of its outcome"


def no_environment(_call: ToolCall) -> Mapping[str, str]:
    """Let a check see nothing of earlier outcomes."""
    return {}


async def recover(
    journal: Journal, tools: Mapping[str, Tool], workdir: str, environment: Environment = no_environment
) -> None:
    """Settle what is open, in the order it was begun, or let it be run again; each leaves its trace in the history.

    Before anything is asked or repeated, what is left of the call's processes is ended. A pure or idempotent call is
    run again with its key. Any other was started at most once and is not repeated: its own check says whether it
    happened, and where that does not know, the call becomes unknown and waits for a decision. So does a call that is
    not pure and whose processes may still run, because they are not provably ours to end. Nothing is durable before
    the journal's next commit, so that a crash in here changes nothing.
    """
    for state in list(journal.state.open_calls.values()):
        call = state.call
        if isinstance(call, ToolCall) and state.runs:
            context = CallContext(journal.goal_id, call, workdir, environment(call))
            journal.record(*await _recovered(tool_for(call, tools), context), is_recovery=True)


async def give_up(journal: Journal, tools: Mapping[str, Tool]) -> None:
    """End what is left of open calls, and mark as unknown what may have happened: the goal will not be resumed.

    The tool of a flow's steps is not given: what they forked is ended when the goal of a dead worker is claimed.
    """
    for state in list(journal.state.open_calls.values()):
        call = state.call
        if isinstance(call, ToolCall) and state.runs:
            try:
                if call.tool in tools:
                    await tools[call.tool].reap(journal.goal_id, call.call_id)
            except Conflict as error:
                journal.record(OutcomeUnknown(call.call_id, f"{_WHY}. {error.detail}"), is_recovery=True)
                continue
            if call.effect == "once":
                journal.record(OutcomeUnknown(call.call_id, f"{_WHY}."), is_recovery=True)


async def settle_once(tool: Tool, context: CallContext, why: str, not_happened: Sequence[Body]) -> list[Body]:
    """Return what to record of a `once` call that was begun and has no outcome, as its own check says.

    Where the check says that it did not happen, that is `not_happened`. Where it cannot say, the call is unknown.
    """
    call_id = context.call.call_id
    try:
        found = await tool.check(context)
    except (PerdureError, *EXHAUSTION) as error:
        reason = error.detail if isinstance(error, PerdureError) else told(error)
        return [OutcomeUnknown(call_id, f"{why}, and its check cannot tell: {reason}")]
    match found:
        case "happened" | KnownOutput():
            output = found.output if isinstance(found, KnownOutput) else None
            happened = ToolOutput(call_id, ok=True, output=output)
            return [OutcomeUnknown(call_id, f"{why}; its check says that it happened."), happened]
        case "lost_result":
            return [OutcomeUnknown(call_id, f"{why}; {WITHOUT_RESULT}.")]
        case "not_happened":
            return [*not_happened]
        case "unknown":
            return [OutcomeUnknown(call_id, f"{why}.")]


def unknown_if_lost(call: ToolCall, output: ToolOutput) -> ToolOutput | OutcomeUnknown:
    """Return the outcome of a call; a `once` call that was done, and whose result is not known or stored, is unknown.

    It has happened, so a failure would be wrong and would invite a repetition; but its result exists nowhere.
    """
    error = output.error
    if call.effect != "once" or error is None or error.code not in (BAD_RESULT, LOST_RESULT):
        return output
    if error.code == LOST_RESULT:
        return OutcomeUnknown(call.call_id, error.message)
    return OutcomeUnknown(call.call_id, f"{error.message} {_GIVE_RESULT}")


def told(error: BaseException) -> str:
    """Return the class and the text of an exception, as text that can be recorded."""
    return f"{type(error).__name__}: {error}"[:_LONGEST_REASON].encode(errors="backslashreplace").decode()


async def _recovered(tool: Tool, context: CallContext) -> list[Body]:
    """Return what is to be recorded of a call that an earlier process began and did not record."""
    call = context.call
    try:
        await tool.reap(context.goal_id, call.call_id)
    except Conflict as error:
        if call.effect != "pure":
            return [OutcomeUnknown(call.call_id, f"{_WHY}. {error.detail}")]
    if call.effect != "once":
        return _again(call, f"{_WHY}; it is {call.effect}, so it is run again.", by="effect")
    again = _again(call, f"{_WHY}; its check says that it did not happen, so it is run again.", by="check")
    return await settle_once(tool, context, _WHY, again)


def _again(call: ToolCall, why: str, *, by: str) -> list[Body]:
    """Let a call be run again under its own key, and leave a trace of it."""
    return [OutcomeUnknown(call.call_id, why), Decision(call.call_id, "approve", by=by)]
