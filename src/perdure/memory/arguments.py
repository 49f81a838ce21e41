"""Validates the arguments of queries; an error names the argument."""

import math
import os
from collections.abc import Iterable
from typing import Any

from perdure.errors import Invalid
from perdure.memory.normalise import fingerprint

LARGEST_LIMIT = 1_000_000
LONGEST_DAYS = 36_500


def text_of(value: Any, name: str) -> str:
    """Return the value if it is text.

    Raises: Invalid when it is another type, or cannot be encoded as UTF-8.
    """
    if not isinstance(value, str):
        raise Invalid(f"{name} must be text, not {type(value).__name__}.")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{name} is {value!r}, which cannot be encoded as UTF-8.") from None
    return value


def word_of(value: Any, name: str) -> str:
    """Return the text without surrounding whitespace; an empty text for None.

    Raises: what `text_of` raises.
    """
    return "" if value is None else text_of(value, name).strip()


def fingerprint_of(value: Any) -> str:
    """Return a fingerprint as one text; an empty text for None.

    Raises: Invalid
    """
    for part in value if isinstance(value, list | tuple) else [value]:
        if isinstance(part, str):
            text_of(part, "fingerprint")
    return "" if value is None else fingerprint(value)


def paths_of(value: Any) -> list[str]:
    """Return paths as texts; a single path needs no list.

    Raises: Invalid
    """
    listed = list(value) if isinstance(value, Iterable) and not isinstance(value, str | os.PathLike) else [value]
    if not all(isinstance(path, str | os.PathLike) for path in listed):
        raise Invalid("paths must be a list of paths.")
    return [text_of(str(path), "paths") for path in listed]


def limit_of(value: Any) -> int:
    """Return the maximum number of results.

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
