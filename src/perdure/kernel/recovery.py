"""Recovers calls that were started and have no outcome: runs them again, asks their check, or asks a person."""

from collections.abc import Callable, Mapping, Sequence

from perdure.errors import Conflict, PerdureError
from perdure.kernel.deciding.admission import tool_for
from perdure.kernel.events import Body, Decision, OutcomeUnknown, ToolCall, ToolOutput
from perdure.kernel.journal import Journal
from perdure.kernel.tool import CallContext, KnownOutput, Tool
from perdure.text.storable import escape_surrogates

Environment = Callable[[ToolCall], Mapping[str, str]]
EXHAUSTION = (OSError, RuntimeError, MemoryError)
"""Exceptions of Python when descriptors, processes, threads, memory or disk space run out."""
_LONGEST_REASON = 2_000
BAD_RESULT = "bad_result"
"""The error code of a successful call whose result cannot be stored."""
LOST_RESULT = "lost_result"
"""The error code of a successful call whose result is unknown and must not be null."""
WITHOUT_RESULT = (
    "its check says that it happened, but not with which result; return Happened(value), or decide: skip --value JSON"
)
_GIVE_RESULT = (
    "Change the function to return a value that can be stored. Then decide: `skip` with the result as JSON, or `retry`"
    " to run the step again."
)
_WHY = "The worker ended between the start of this call and the record of its outcome"


def no_environment(_call: ToolCall) -> Mapping[str, str]:
    """Return an empty environment."""
    return {}


async def recover(
    journal: Journal, tools: Mapping[str, Tool], workdir: str, environment: Environment = no_environment
) -> None:
    """Settle open calls in the order they were started, or prepare to run them again; record events for each.

    First the remaining processes of the call are ended. A pure or idempotent call is run again with its key. A `once`
    call is not repeated: its check says whether it happened, and if the check does not know, the outcome is unknown and
    the call waits for a decision. The same applies to a call that is not pure and whose processes may still run,
    because they cannot be proven to belong to the call. Nothing is durable before the next commit of the journal, so a
    crash during recovery changes nothing.
    """
    for state in list(journal.state.open_calls.values()):
        call = state.call
        if isinstance(call, ToolCall) and state.runs:
            context = CallContext(journal.goal_id, call, workdir, environment(call))
            journal.record(*await _recover_call(tool_for(call, tools), context))


async def give_up(journal: Journal, tools: Mapping[str, Tool]) -> None:
    """End the processes of open calls, and record unknown outcomes: the goal will not be resumed.

    The tool of the steps of a flow is not in `tools`: their processes are ended when the goal of a dead worker is
    claimed.
    """
    for state in list(journal.state.open_calls.values()):
        call = state.call
        if isinstance(call, ToolCall) and state.runs:
            try:
                if call.tool in tools:
                    await tools[call.tool].reap(journal.goal_id, call.call_id)
            except Conflict as error:
                journal.record(OutcomeUnknown(call.call_id, f"{_WHY}. {error.detail}"))
                continue
            if call.effect == "once":
                journal.record(OutcomeUnknown(call.call_id, f"{_WHY}."))


async def settle_once(tool: Tool, context: CallContext, why: str, not_happened: Sequence[Body]) -> list[Body]:
    """Return the events for a `once` call without an outcome, according to its check.

    If the check says that it did not happen, the events are `not_happened`. If it does not know, the call is unknown.
    """
    call_id = context.call.call_id
    try:
        found = await tool.check(context)
    except (PerdureError, *EXHAUSTION) as error:
        reason = error.detail if isinstance(error, PerdureError) else describe(error)
        return [OutcomeUnknown(call_id, f"{why}, and its check cannot tell: {reason}")]
    match found:
        case "happened" | KnownOutput():
            output = found.output if isinstance(found, KnownOutput) else None
            happened = ToolOutput(call_id, ok=True, output=output)
            return [OutcomeUnknown(call_id, f"{why}; its check says that its effect exists."), happened]
        case "lost_result":
            return [OutcomeUnknown(call_id, f"{why}; {WITHOUT_RESULT}.")]
        case "not_happened":
            return [*not_happened]
        case "unknown":
            return [OutcomeUnknown(call_id, f"{why}.")]


def unknown_if_lost(call: ToolCall, output: ToolOutput) -> ToolOutput | OutcomeUnknown:
    """Return the outcome of a call, or `OutcomeUnknown` for a `once` call whose result is lost.

    The call has happened, so a failure would be wrong and would invite a repetition; but its result is not stored.
    """
    error = output.error
    if call.effect != "once" or error is None or error.code not in (BAD_RESULT, LOST_RESULT):
        return output
    if error.code == LOST_RESULT:
        return OutcomeUnknown(call.call_id, error.message)
    return OutcomeUnknown(call.call_id, f"{error.message} {_GIVE_RESULT}")


def describe(error: BaseException) -> str:
    """Return the class and message of an exception as storable text."""
    return escape_surrogates(f"{type(error).__name__}: {error}"[:_LONGEST_REASON])


async def _recover_call(tool: Tool, context: CallContext) -> list[Body]:
    """Return the events for a call that an earlier process started, and whose outcome is not recorded."""
    call = context.call
    try:
        await tool.reap(context.goal_id, call.call_id)
    except Conflict as error:
        if call.effect != "pure":
            return [OutcomeUnknown(call.call_id, f"{_WHY}. {error.detail}")]
    if call.effect != "once":
        return _again(call, f"{_WHY}; it is {call.effect}, so it is run again.", by="effect")
    again = _again(call, f"{_WHY}; its check says that it had no effect, so it is run again.", by="check")
    return await settle_once(tool, context, _WHY, again)


def _again(call: ToolCall, why: str, *, by: str) -> list[Body]:
    """Return the events that let a call run again under its key."""
    return [OutcomeUnknown(call.call_id, why), Decision(call.call_id, "approve", by=by)]
