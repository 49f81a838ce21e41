"""What past choices speak for, with their support."""

from collections import Counter
from collections.abc import Callable, Sequence

from perdure.forge.state import BuilderState, PastChoice
from perdure.forge.turns import Suggestion
from perdure.forge.vocabulary import BotPurpose

_LOOKED_AT = 3

_SPOKEN: dict[BotPurpose, str] = {
    BotPurpose.CUSTOMER_SERVICE: "customer service",
    BotPurpose.PERSONAL_ASSISTANT: "everyday",
    BotPurpose.ON_CALL: "on-call",
    BotPurpose.GAMES: "game",
}
_ONE_PURPOSE = (BotPurpose.CODING, BotPurpose.RESEARCH, BotPurpose.CUSTOMER_SERVICE)
"""Purposes that have a category of their own: a past choice that names the category alone is one of theirs."""


def alike(state: BuilderState) -> Sequence[PastChoice]:
    """Return the last choices for bots of the same purpose, the newest first; one of its own is like no other."""
    if state.purpose is BotPurpose.OTHER:
        return []
    return [past for past in state.surroundings.past if _purpose(past) == state.purpose][:_LOOKED_AT]


def _purpose(past: PastChoice) -> BotPurpose | None:
    known = [purpose for purpose in _ONE_PURPOSE if purpose.category == past.category]
    return past.purpose or (known[0] if known else None)


def favourite(
    state: BuilderState, value_of: Callable[[PastChoice], str], verb: str, option_of: Callable[[str], str]
) -> Suggestion | None:
    """Suggest what was chosen most often for bots like this one; of several, the newest."""
    values = [value for each in alike(state) if (value := value_of(each))]
    if not values:
        return None
    counts = Counter(values)
    best = max(counts, key=lambda value: (counts[value], -values.index(value)))
    kind = _SPOKEN.get(state.purpose, str(state.purpose))
    many = {"was": "were", "has": "have", "uses": "use"}[verb]
    if len(values) == 1:
        reason = f"your last {kind} bot {verb} {best}"
    else:
        reason = f"{counts[best]} of your last {len(values)} {kind} bots {many} {best}"
    return Suggestion(option_id=option_of(best), reason=reason)
