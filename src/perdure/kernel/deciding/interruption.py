"""The events that record an answer of a model that a person stopped."""

from collections.abc import Sequence
from dataclasses import replace

from perdure.kernel.conversation.conversation import has_calls
from perdure.kernel.conversation.parts import ToolCallPart
from perdure.kernel.events import Body, ModelTurn
from perdure.kernel.fold import GoalState
from perdure.kernel.mind import Proposal


def interrupted(state: GoalState, proposal: Proposal | None = None) -> Sequence[Body]:
    """Return the events to record when an answer is stopped; `proposal` is what the mind had decided by then.

    Calls in the answer are dropped, because none of them has started. If no answer has arrived, an empty turn records
    that the model is not asked again before the next message. Nothing is recorded in a goal that waits for a message or
    has no model.
    """
    events = () if proposal is None else [_without_calls(body) for body in proposal.events]
    if any(isinstance(body, ModelTurn) for body in events):
        return events
    if state.begun.mind.kind != "model" or state.conversation.awaits_message:
        return events
    model = state.conversation.prompt.model if state.conversation.prompt else state.begun.mind.model or ""
    turn = ModelTurn(state.conversation.turns + 1, model, model.partition(":")[0], finish_reason="interrupted")
    return [*events, turn]


def _without_calls(body: Body) -> Body:
    """Return a turn without its calls, marked as interrupted."""
    if not isinstance(body, ModelTurn) or not has_calls(body):
        return body
    parts = tuple(part for part in body.parts if not isinstance(part, ToolCallPart))
    return replace(body, parts=parts, finish_reason="interrupted")
