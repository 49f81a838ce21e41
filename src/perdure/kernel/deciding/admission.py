"""The check of what a mind proposes, before anything is recorded or run.

Calls of unknown tools, calls with invalid arguments, and calls that the policy denies are recorded with their outcome
and never run.
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
    """Return the events to record for the actions of one proposal.

    With `in_order`, each admitted call waits for the one before it, and is judged when that is settled.
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
    """Return the decision of the policy on a call of a model; nothing when a person has to decide."""
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
            return [_answer_by_kernel(kernel_tool, call, is_alone=is_alone)]
        if call.child is not None and not is_governed:
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
        raise Invalid(f"There is no tool {call.tool!r}; the tools are {known}.") from None


def _answer_by_kernel(tool: KernelTool, call: ToolCall, *, is_alone: bool) -> Body:
    answer = tool.answer(call)
    if tool.is_alone and not is_alone:
        raise Invalid(f"{call.tool} must be called alone, when no other call begins or is open.")
    return answer


def _refused(call: ToolCall, error: PerdureError) -> ToolOutput:
    return ToolOutput(call.call_id, ok=False, error=ToolError(error.code, error.detail))
