"""What past choices speak for, with their support."""

from collections import Counter
from collections.abc import Callable, Sequence

from perdure.forge.state import BuilderState, PastChoice
from perdure.forge.turns import Suggestion
from perdure.forge.vocabulary import PurposeCategory

_LOOKED_AT = 3

_SPOKEN: dict[str, str] = {
    PurposeCategory.SIMPLE_UTILITY: "utility",
    PurposeCategory.COMPLEX_ANALYST: "analyst",
    PurposeCategory.CUSTOMER_SERVICE: "customer service",
}


def alike(state: BuilderState) -> Sequence[PastChoice]:
    """Return the last choices for bots of the same category, the newest first."""
    return [past for past in state.surroundings.past if past.category == state.purpose_category][:_LOOKED_AT]


def favourite(
    state: BuilderState, value_of: Callable[[PastChoice], str], verb: str, option_of: Callable[[str], str]
) -> Suggestion | None:
    """Suggest what was chosen most often for bots like this one; of several, the newest."""
    values = [value for each in alike(state) if (value := value_of(each))]
    if not values:
        return None
    counts = Counter(values)
    best = max(counts, key=lambda value: (counts[value], -values.index(value)))
    kind = _SPOKEN.get(state.purpose_category, state.purpose_category)
    many = {"was": "were", "has": "have", "uses": "use"}[verb]
    if len(values) == 1:
        reason = f"your last {kind} bot {verb} {best}"
    else:
        reason = f"{counts[best]} of your last {len(values)} {kind} bots {many} {best}"
    return Suggestion(option_id=option_of(best), reason=reason)
