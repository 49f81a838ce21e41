"""The edge of the API for values: JSON as strict as both databases are, whatever a client sends."""

import json
from typing import Any

from perdure.errors import Invalid
from perdure.interfaces.api.problems import BrokenJson

DEEPEST = 64
LARGEST_INTEGER = 1 << 63
_TOO_DEEP = f"The body is nested deeper than {DEEPEST} levels."


def read_json(body: bytes) -> Any:
    """Read a body as JSON.

    Raises: BrokenJson; Invalid for what is JSON and still no value of ours.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise Invalid(_TOO_DEEP) from None
    except ValueError as error:
        raise BrokenJson(f"The body is not JSON: {error}.") from None
    require_plain(value)
    return value


def require_plain(value: Any) -> None:
    """See that a value can be stored everywhere.

    Raises: Invalid
    """
    level = [value]
    for _ in range(DEEPEST + 1):
        if not level:
            return
        level = [inner for each in level for inner in _inside(each)]
    if level:
        raise Invalid(_TOO_DEEP)


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


def _inside(value: Any) -> list[Any]:
    """Return what a value contains, having seen to the value itself."""
    match value:
        case list():
            return value
        case dict():
            for key in value:
                require_text(key, "A key of the body")
            return list(value.values())
        case str():
            require_text(value, "The body")
        case bool() | None:
            pass
        case int() | float():
            _require_number(value)
    return []


def _require_number(value: float) -> None:
    if isinstance(value, int) and not -LARGEST_INTEGER <= value < LARGEST_INTEGER:
        raise Invalid("The body has an integer of more than 64 bits.")
    if value in (float("inf"), float("-inf")):
        raise Invalid("The body has a number that is too large.")


def _refuse_constant(name: str) -> None:
    raise Invalid(f"The body has {name}, which JSON does not have.")
