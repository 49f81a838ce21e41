"""Validation of texts and JSON in the rows of drafts, choices and bots."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import orjson

from perdure.errors import Damaged, Invalid
from perdure.text.storable import require_storable


def require_texts(what: str, values: Any) -> None:
    """Check that all texts in a dataclass can be stored, at any depth.

    Raises: Invalid, with the name of the field.
    """
    for field in fields(values):
        for text in _texts(getattr(values, field.name)):
            require_storable(text, f"The {field.name} of {what}")


def require_limit(limit: int) -> None:
    """Validate a number of rows.

    Raises: Invalid
    """
    if not 1 <= limit <= 2**31:
        raise Invalid(f"A limit must be 1 or more, not {limit}.")


def from_json(what: str, text: str) -> Any:
    """Return the value of a JSON column.

    Raises: Damaged
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise damaged(what) from error


def damaged(what: str) -> Damaged:
    """Return the error for a damaged column."""
    return Damaged(f"The {what} is damaged. It was not changed.")


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for key, each in value.items():
                yield str(key)
                yield from _texts(each)
        case list() | tuple():
            for each in value:
                yield from _texts(each)
