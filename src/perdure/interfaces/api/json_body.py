"""The edge of the API for values: JSON as strict as both databases are, whatever a client sends."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from perdure.errors import Invalid
from perdure.interfaces.api.problems import BrokenJson

DEEPEST = 64
LARGEST_INTEGER = 1 << 63
MOST_ON_LOOP_BYTES = 8 * 1024
"""A larger text is parsed in a thread of its own: a mebibyte of small numbers takes as long as a hundred requests."""

_MANY_DIGITS = re.compile(rb"[0-9]{19}")
_PARSER = ThreadPoolExecutor(1, "perdure-json")
"""One thread, however many clients send large bodies: the event loop then waits for one other thread at most."""


async def parse_json(body: bytes, what: str = "The body") -> Any:
    """Parse as `read_json` does; a large text is parsed beside the event loop, one at a time.

    Raises: as `read_json`.
    """
    if len(body) <= MOST_ON_LOOP_BYTES:
        return read_json(body, what)
    return await asyncio.get_running_loop().run_in_executor(_PARSER, read_json, body, what)


def read_json(body: bytes, what: str = "The body") -> Any:
    """Read a body, or what else was sent, as JSON.

    Raises: BrokenJson; Invalid for what is JSON and still no value of ours.
    """
    try:
        integer = partial(_integer, what) if _MANY_DIGITS.search(body) else None
        value = json.loads(body.decode("utf-8"), parse_constant=partial(_refuse_constant, what), parse_int=integer)
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
        level = _inside(level, what)
    if any(isinstance(each, list | dict) for each in level):
        raise _too_deep(what)
    _inside(level, what)


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


def _inside(level: list[Any], what: str) -> list[Any]:
    """Return what the containers of a level contain, after a check of everything else that is there."""
    found: list[Any] = []
    for each in level:
        kind = type(each)
        if kind is list:
            found += each
        elif kind is dict:
            for key in each:
                require_text(key, what)
            found += each.values()
        elif kind is str:
            require_text(each, what)
        elif kind is int or kind is float:
            _require_number(each, what)
    return found


def _integer(what: str, digits: str) -> int:
    """Read an integer; one of very many digits is not even made."""
    if len(digits) > len(str(-LARGEST_INTEGER)):
        raise _too_large(what)
    return int(digits)


def _require_number(value: float, what: str) -> None:
    if -LARGEST_INTEGER <= value < LARGEST_INTEGER:
        return
    if isinstance(value, int):
        raise _too_large(what)
    if value in (float("inf"), float("-inf")):
        raise Invalid(f"{what} has a number that is too large.")


def _too_large(what: str) -> Invalid:
    return Invalid(f"{what} has an integer of more than 64 bits.")


def _too_deep(what: str) -> Invalid:
    return Invalid(f"{what} is nested deeper than {DEEPEST} levels.")


def _refuse_constant(what: str, name: str) -> None:
    raise Invalid(f"{what} has {name}, which JSON does not have.")
