"""What is recorded of the answer of a model that a person has stopped."""

from collections.abc import Sequence
from dataclasses import replace

from perdure.kernel.conversation.conversation import has_calls
from perdure.kernel.conversation.parts import ToolCallPart
from perdure.kernel.events import Body, ModelTurn
from perdure.kernel.fold import GoalState
from perdure.kernel.mind import Proposal


def interrupted(state: GoalState, proposal: Proposal | None = None) -> Sequence[Body]:
    """Return what is recorded when the answer of a model is stopped; `proposal` is what its mind had by then.

    The calls of an answer that was complete by then are dropped, because none of them has begun. Where no answer was
    on its way, an empty turn records that the model is not asked again before the next message. A goal that waits for
    a message, or has no model, is left alone.
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
    """Return a turn without its calls, as one that was interrupted."""
    if not isinstance(body, ModelTurn) or not has_calls(body):
        return body
    parts = tuple(part for part in body.parts if not isinstance(part, ToolCallPart))
    return replace(body, parts=parts, finish_reason="interrupted")
