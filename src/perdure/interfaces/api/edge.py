"""The edge of the API for values: JSON as strict as both databases are, whatever a client sends."""

import json
from functools import partial
from typing import Any

from perdure.errors import Invalid
from perdure.interfaces.api.problems import BrokenJson

DEEPEST = 64
LARGEST_INTEGER = 1 << 63


def read_json(body: bytes, what: str = "The body") -> Any:
    """Read a body, or what else was sent, as JSON.

    Raises: BrokenJson; Invalid for what is JSON and still no value of ours.
    """
    try:
        value = json.loads(
            body.decode("utf-8"), parse_constant=partial(_refuse_constant, what), parse_int=partial(_integer, what)
        )
    except RecursionError:
        raise _too_deep(what) from None
    except ValueError as error:
        raise BrokenJson(f"{what} is not JSON: {error}.") from None
    require_plain(value, what)
    return value


def require_plain(value: Any, what: str = "The body") -> None:
    """See that a value can be stored everywhere.

    Raises: Invalid
    """
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inside(each, what)]
    if any(isinstance(each, list | dict) for each in level):
        raise _too_deep(what)
    for each in level:
        _inside(each, what)


def require_text(text: str, where: str) -> None:
    """See that a text is text: no NUL, no lone surrogate.

    Raises: Invalid
    """
    if "\0" in text:
        raise Invalid(f"{where} contains a NUL character.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid(f"{where} contains a lone surrogate, which is no text.") from None


def _inside(value: Any, what: str) -> list[Any]:
    """Return what a value contains, having seen to the value itself."""
    match value:
        case list():
            return value
        case dict():
            for key in value:
                require_text(key, what)
            return list(value.values())
        case str():
            require_text(value, what)
        case bool() | None:
            pass
        case int() | float():
            _require_number(value, what)
    return []


def _integer(what: str, digits: str) -> int:
    """Read an integer; one of very many digits is not even made."""
    if len(digits) > len(str(-LARGEST_INTEGER)):
        raise _too_large(what)
    return int(digits)


def _require_number(value: float, what: str) -> None:
    if isinstance(value, int) and not -LARGEST_INTEGER <= value < LARGEST_INTEGER:
        raise _too_large(what)
    if value in (float("inf"), float("-inf")):
        raise Invalid(f"{what} has a number that is too large.")


def _too_large(what: str) -> Invalid:
    return Invalid(f"{what} has an integer of more than 64 bits.")


def _too_deep(what: str) -> Invalid:
    return Invalid(f"{what} is nested deeper than {DEEPEST} levels.")


def _refuse_constant(what: str, name: str) -> None:
    raise Invalid(f"{what} has {name}, which JSON does not have.")
