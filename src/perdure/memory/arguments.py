"""What callers ask by: each value is understood, or refused by its name."""

import math
import os
from collections.abc import Iterable
from typing import Any

from perdure.errors import Invalid
from perdure.memory.normalise import fingerprint

LARGEST_LIMIT = 1_000_000
LONGEST_DAYS = 36_500


def text_of(value: Any, name: str) -> str:
    """Return a text.

    Raises: Invalid when it is something else, or cannot be written as UTF-8.
    """
    if not isinstance(value, str):
        raise Invalid(f"{name} was expected to be text, not {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{name} is {value!r}, which is no text: it cannot be written as UTF-8.") from None
    return value


def word_of(value: Any, name: str) -> str:
    """Return a text without blanks around it; blank for what is not given.

    Raises: what `text_of` raises.
    """
    return "" if value is None else text_of(value, name).strip()


def fingerprint_of(value: Any) -> str:
    """Return a fingerprint as one text; blank for what is not given.

    Raises: Invalid
    """
    for part in value if isinstance(value, list | tuple) else [value]:
        if isinstance(part, str):
            text_of(part, "fingerprint")
    return "" if value is None else fingerprint(value)


def paths_of(value: Any) -> list[str]:
    """Return paths as texts; one alone may be given without a list.

    Raises: Invalid
    """
    listed = list(value) if isinstance(value, Iterable) and not isinstance(value, str | os.PathLike) else [value]
    if not all(isinstance(path, str | os.PathLike) for path in listed):
        raise Invalid("paths was expected to be a list of paths.")
    return [text_of(str(path), "paths") for path in listed]


def limit_of(value: Any) -> int:
    """Return how many are wanted at most.

    Raises: Invalid
    """
    if not isinstance(value, int) or not 0 <= value <= LARGEST_LIMIT:
        raise Invalid(f"limit is {value!r}; expected a whole number, 0 to {LARGEST_LIMIT:,}.")
    return int(value)


def number_of(value: Any, name: str) -> int | None:
    """Return a whole number of at most 64 bits, or None when it is not given.

    Raises: Invalid
    """
    if value is not None and (not isinstance(value, int) or not 0 <= value < 1 << 63):
        raise Invalid(f"{name} is {value!r}; expected a number.")
    return value


def budget_of(value: Any) -> float:
    """Return a time in milliseconds.

    Raises: Invalid
    """
    if not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise Invalid(f"budget_ms is {value!r}; expected a number of milliseconds, 0 or more.")
    return value


def days_of(value: Any) -> float:
    """Return a number of days.

    Raises: Invalid
    """
    if not isinstance(value, int | float) or not 0 <= value <= LONGEST_DAYS:
        raise Invalid(f"retention_days is {value!r}; expected a number of days, 0 to {LONGEST_DAYS:,}.")
    return value
