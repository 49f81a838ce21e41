"""What can be stored as text: the same on both databases, where each refuses something else, or nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import orjson

from perdure.errors import Damaged, Invalid


def is_text(value: str) -> bool:
    """Tell whether a text can be stored: PostgreSQL takes no NUL, and nobody takes a lone surrogate."""
    if "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_texts(what: str, values: Any) -> None:
    """Refuse a dataclass with a text in it that cannot be stored, however deep inside.

    Raises: Invalid, naming the field.
    """
    for field in fields(values):
        if not all(map(is_text, _texts(getattr(values, field.name)))):
            raise Invalid(f"The {field.name} of {what} contains a NUL or a lone surrogate, which is no text.")


def require_limit(limit: int) -> None:
    """Refuse a number of rows that makes no sense.

    Raises: Invalid
    """
    if not 1 <= limit <= 2**31:
        raise Invalid(f"A limit was expected to be 1 or more, not {limit}.")


def to_json(what: str, value: Any) -> str:
    """Write a value as it is stored.

    Raises: Invalid
    """
    try:
        return orjson.dumps(value, default=_plain).decode()
    except TypeError as error:
        raise Invalid(f"The {what} cannot be kept as JSON: {error}.") from error


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
    return Damaged(f"The {what} is not what was written. It was left as it is.")


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


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
