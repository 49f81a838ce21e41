"""The sentence about matches that are not shown: how many more there are, and the call that shows them."""

from collections.abc import Mapping
from typing import Any

MOST_SHOWN = 20
"""The largest `--limit` of related history."""


def further_matches(shown: int, more: Mapping[str, Any] | None, call: str) -> str | None:
    """Return the sentence about matches beyond those that are shown; None when there are none.

    `more` is a value of the result of `related`. `call` is the command that shows more, with `{limit}` in place of the
    number.
    """
    if more is None:
        return None
    count = more["count"]
    many = f"{count} more {'record matches' if count == 1 else 'records match'}"
    first = f"At least {many}" if not more["is_exact"] else many
    if count == 0:
        first = "There may be more"
    if shown >= MOST_SHOWN:
        return f"{first}. Narrow the search to see the others: fewer paths, or `--text` with words."
    if more["is_exact"] and shown + count <= MOST_SHOWN:
        return f"{first}: {call.format(limit=shown + count)} shows {'it' if count == 1 else 'them'}."
    return f"{first}: {call.format(limit=MOST_SHOWN)} shows up to {MOST_SHOWN}."
