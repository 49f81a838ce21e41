"""Limits the next request of a goal to what is left of its limits."""

from collections.abc import Sequence
from dataclasses import replace

from perdure.kernel.conversation.messages import Message, ModelTurn
from perdure.kernel.events import LimitReached
from perdure.kernel.fold import GoalState
from perdure.minds.model.ports import ModelClient, ModelParts, ModelSettings, TokenUsage
from perdure.minds.model.request import bytes_of, messages_of

BYTES_PER_TOKEN = 3
_SHORTEST = 256
"""The minimum length of an answer in tokens; shorter ones are not requested."""


def context_tokens(state: GoalState, beside_bytes: int) -> int:
    """Estimate the tokens of the next request: those of the last turn, plus later messages by their size."""
    newest = next((pair for pair in reversed(state.conversation.entries) if not isinstance(pair[1], Message)), None)
    if newest is not None and isinstance(newest[1], ModelTurn) and newest[1].usage.total:
        since = [each for each in messages_of(state, newest[0] - 1) if not isinstance(each, ModelParts)]
        return newest[1].usage.total + bytes_of(since) // BYTES_PER_TOKEN
    return (beside_bytes + bytes_of(messages_of(state))) // BYTES_PER_TOKEN


def affordable(
    state: GoalState, client: ModelClient, models: Sequence[str], settings: ModelSettings, context: int
) -> ModelSettings | LimitReached:
    """Return settings whose longest answer fits the limits, or the limit that is too low."""
    longest = settings.max_tokens or _SHORTEST
    if state.limits.tokens is not None:
        left = state.limits.tokens - state.used.tokens
        if left - context < _SHORTEST:
            return LimitReached("tokens", max(left, 0), context + longest)
        longest = min(longest, left - context)
    if state.limits.usd is not None:
        left_usd = state.limits.usd - state.used.usd
        while _cost(client, models, context, longest) > left_usd:
            if longest <= _SHORTEST:
                return LimitReached("usd", max(left_usd, 0.0), _cost(client, models, context, longest))
            longest = max(longest // 2, _SHORTEST)
    return replace(settings, max_tokens=longest)


def unknown_price(state: GoalState, client: ModelClient, models: Sequence[str]) -> str | None:
    """Return a model whose price is unknown, in a goal with a limit in money."""
    if state.limits.usd is None:
        return None
    return next((model for model in models if client.cost_usd(model, TokenUsage(1, 1)) is None), None)


def _cost(client: ModelClient, models: Sequence[str], context: int, longest: int) -> float:
    return max(client.cost_usd(model, TokenUsage(context, longest)) or 0.0 for model in models)
