"""What a mind wants, looked at before anything of it is recorded or run.

A tool that nobody knows, arguments that make no sense, and what the policy denies are recorded with their outcome and
never run. The words `ask` and `done` are tools of every mind that chooses tools: the kernel itself answers them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from perdure.errors import Invalid, PerdureError
from perdure.kernel.calls.decisions import denied
from perdure.kernel.events import Action, Ask, Body, Decision, Termination, ToolCall, ToolError, ToolOutput, encode
from perdure.kernel.fold import GoalState
from perdure.kernel.tool import Policy, Tool


def admit(actions: Sequence[Action], state: GoalState, tools: Mapping[str, Tool], policy: Policy) -> list[Body]:
    """Return what is to be recorded for the actions of one decision."""
    is_alone = len(actions) == 1 and not state.open_calls
    admitted: list[Body] = []
    for action in actions:
        if isinstance(action, ToolCall):
            admitted += _admit_call(action, state, tools, policy, is_alone=is_alone)
        else:
            admitted.append(action)
    return admitted


def _admit_call(
    call: ToolCall, state: GoalState, tools: Mapping[str, Tool], policy: Policy, *, is_alone: bool
) -> list[Body]:
    try:
        if state.is_governed:
            encode(call)
    except Invalid as error:
        call = replace(call, arguments={})
        return [call, _refused(call, error)]
    try:
        match call.tool:
            case "ask":
                return [_question(call)]
            case "done":
                return [_end(call, is_alone=is_alone)]
            case "child" if state.begun.mind.kind == "flow":
                return [call]
            case _:
                tool_for(call, tools).validate(call.arguments)
    except PerdureError as error:
        return [call, _refused(call, error)]
    return [call, *(_judged(call, policy) if state.is_governed else [])]


def tool_for(call: ToolCall, tools: Mapping[str, Tool]) -> Tool:
    """Return the tool that a call names.

    Raises: Invalid
    """
    try:
        return tools[call.tool]
    except KeyError:
        known = ", ".join(sorted([*tools, "ask", "done"]))
        raise Invalid(f"There is no tool {call.tool!r}; known are {known}.") from None


def _judged(call: ToolCall, policy: Policy) -> list[Body]:
    match policy.judge(call):
        case "allow":
            return [Decision(call.call_id, "approve", by=policy.name)]
        case "deny":
            decision = Decision(call.call_id, "deny", by=policy.name)
            return [decision, denied(decision)]
        case "ask":
            return []


def _refused(call: ToolCall, error: PerdureError) -> ToolOutput:
    return ToolOutput(call.call_id, ok=False, error=ToolError(error.code, error.detail))


def _question(call: ToolCall) -> Ask:
    question, options = call.arguments.get("question"), call.arguments.get("options")
    _require_known(call, "question", "options")
    if not isinstance(question, str) or not question.strip():
        raise Invalid("ask was expected to have a question, a text.")
    if options is not None and not _are_texts(options):
        raise Invalid("The options of ask were expected to be a list of texts, at least one.")
    return Ask(call.call_id, call.step, question, None if options is None else tuple(options))


def _end(call: ToolCall, *, is_alone: bool) -> Termination:
    _require_known(call, "value")
    if not is_alone:
        raise Invalid("done was expected alone, when nothing else is begun or open.")
    return Termination("done", value=call.arguments.get("value"))


def _require_known(call: ToolCall, *names: str) -> None:
    if unknown := sorted(call.arguments.keys() - set(names)):
        raise Invalid(f"{call.tool} has no argument {unknown[0]!r}. It has: {', '.join(names)}.")


def _are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(text, str) for text in value)
