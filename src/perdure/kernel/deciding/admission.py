"""What a mind proposes, looked at before anything of it is recorded or run.

A tool that is not known, arguments that make no sense, and what the policy denies are recorded with their outcome and
never run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from perdure.errors import Invalid, PerdureError
from perdure.kernel.calls.decisions import denied
from perdure.kernel.deciding.kernel_tools import KERNEL_TOOLS, KernelTool
from perdure.kernel.events import Action, Body, Decision, ToolCall, ToolError, ToolOutput, encode
from perdure.kernel.fold import GoalState
from perdure.kernel.tool import Policy, Tool


def admit(
    actions: Sequence[Action],
    state: GoalState,
    tools: Mapping[str, Tool],
    policy: Policy,
    *,
    in_order: bool = False,
) -> list[Body]:
    """Return what is to be recorded for the actions of one proposal.

    With `in_order`, each call that is to run waits for the one before it, and is judged when its turn comes.
    """
    is_alone = len(actions) == 1 and not state.open_calls
    admitted: list[Body] = []
    before: str | None = None
    for action in actions:
        if not isinstance(action, ToolCall):
            admitted.append(action)
            continue
        call = replace(action, after=before) if in_order and before is not None else action
        bodies = _admit_call(call, state, tools, policy, is_alone=is_alone)
        admitted += bodies
        if not any(isinstance(body, ToolOutput) for body in bodies):
            before = call.call_id
    return admitted


def judge(call: ToolCall, policy: Policy) -> list[Body]:
    """Return what the policy decides about a call of a model; nothing when a person has to."""
    judgement = policy.judge(call)
    match judgement.verdict:
        case "allow":
            return [Decision(call.call_id, "approve", by=judgement.by)]
        case "deny":
            decision = Decision(call.call_id, "deny", by=judgement.by)
            return [decision, denied(decision)]
        case "ask":
            return []


def _admit_call(
    call: ToolCall, state: GoalState, tools: Mapping[str, Tool], policy: Policy, *, is_alone: bool
) -> list[Body]:
    is_governed = state.is_governed(call)
    try:
        if is_governed:
            encode(call)
    except Invalid as error:
        call = replace(call, arguments={})
        return [call, _refused(call, error)]
    try:
        kernel_tool = KERNEL_TOOLS.get(call.tool)
        if kernel_tool is not None:
            return [_answered(kernel_tool, call, is_alone=is_alone)]
        if call.child is not None:
            return [call]
        tool = tool_for(call, tools)
        tool.validate(call.arguments)
    except PerdureError as error:
        return [call, _refused(call, error)]
    effect = tool.spec.effect_of(call.effect, is_governed=is_governed)
    if effect != call.effect:
        call = replace(call, effect=effect)
    return [call, *(judge(call, policy) if is_governed and call.after is None else [])]


def tool_for(call: ToolCall, tools: Mapping[str, Tool]) -> Tool:
    """Return the tool that a call names.

    Raises: Invalid
    """
    try:
        return tools[call.tool]
    except KeyError:
        known = ", ".join(sorted([*tools, *KERNEL_TOOLS]))
        raise Invalid(f"There is no tool {call.tool!r}; known are {known}.") from None


def _answered(tool: KernelTool, call: ToolCall, *, is_alone: bool) -> Body:
    answer = tool.answer(call)
    if tool.is_alone and not is_alone:
        raise Invalid(f"{call.tool} was expected alone, when nothing else is begun or open.")
    return answer


def _refused(call: ToolCall, error: PerdureError) -> ToolOutput:
    return ToolOutput(call.call_id, ok=False, error=ToolError(error.code, error.detail))
