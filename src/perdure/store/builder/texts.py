"""Rows of the builder: texts that every database can store, and JSON in them."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import orjson

from perdure.errors import Damaged, Invalid
from perdure.text.storable import require_storable


def require_texts(what: str, values: Any) -> None:
    """Refuse a dataclass with a text in it that cannot be stored, however deep inside.

    Raises: Invalid, naming the field.
    """
    for field in fields(values):
        for text in _texts(getattr(values, field.name)):
            require_storable(text, f"The {field.name} of {what}")


def require_limit(limit: int) -> None:
    """Refuse a number of rows that makes no sense.

    Raises: Invalid
    """
    if not 1 <= limit <= 2**31:
        raise Invalid(f"A limit must be 1 or more, not {limit}.")


def from_json(what: str, text: str) -> Any:
    """Read a value as it was stored.

    Raises: Damaged
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise damaged(what) from error


def damaged(what: str) -> Damaged:
    """Say what is damaged."""
    return Damaged(f"The {what} is not what was written. It was not changed.")


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
