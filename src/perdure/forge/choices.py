"""Suggestions from past choices, with the number of choices that support them."""

from collections import Counter
from collections.abc import Callable, Sequence

from perdure.forge.state import BuilderState, PastChoice
from perdure.forge.turns import Suggestion
from perdure.forge.vocabulary import BotPurpose

_MOST_COMPARED = 3

_KINDS: dict[BotPurpose, str] = {
    BotPurpose.CUSTOMER_SERVICE: "customer service",
    BotPurpose.PERSONAL_ASSISTANT: "everyday",
    BotPurpose.ON_CALL: "on-call",
    BotPurpose.GAMES: "game",
}
_ONE_PURPOSE = (BotPurpose.CODING, BotPurpose.RESEARCH, BotPurpose.CUSTOMER_SERVICE)
"""Purposes that are the only one of their category: a past choice without a purpose belongs to them."""


def similar_choices(state: BuilderState) -> Sequence[PastChoice]:
    """Return the last choices for bots of the same purpose, newest first; a custom purpose has none."""
    if state.purpose is BotPurpose.OTHER:
        return []
    return [past for past in state.context.past if _purpose(past) == state.purpose][:_MOST_COMPARED]


def _purpose(past: PastChoice) -> BotPurpose | None:
    known = [purpose for purpose in _ONE_PURPOSE if purpose.category == past.category]
    return past.purpose or (known[0] if known else None)


def suggest_most_chosen(
    state: BuilderState, value_of: Callable[[PastChoice], str], verb: str, option_of: Callable[[str], str]
) -> Suggestion | None:
    """Suggest the most frequent past choice for bots of the same purpose; of several, the newest."""
    values = [value for each in similar_choices(state) if (value := value_of(each))]
    if not values:
        return None
    counts = Counter(values)
    best = max(counts, key=lambda value: (counts[value], -values.index(value)))
    kind = _KINDS.get(state.purpose, str(state.purpose))
    many = {"was": "were", "has": "have", "uses": "use"}[verb]
    if len(values) == 1:
        reason = f"your last {kind} bot {verb} {best}"
    else:
        reason = f"{counts[best]} of your last {len(values)} {kind} bots {many} {best}"
    return Suggestion(option_id=option_of(best), reason=reason)
