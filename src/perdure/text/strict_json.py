"""Strict JSON: reads only unique keys and values that can be stored, and writes every value without loss.

`json` of the standard library drops all but the last of equal keys and accepts NaN; orjson writes NaN as null.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from perdure.errors import Invalid
from perdure.text.storable import flaw_in

_MANY_DIGITS = re.compile(r"[0-9]{19}")
_SHOWN = 80
_ALWAYS_FINITE = frozenset({str, int, bool, type(None)})


class NotJson(Invalid):
    """A text is not valid JSON."""


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """The limits of values; every part of the system accepts the default."""

    deepest: int = 64
    """Maximum number of nested containers."""
    integers_below: int = 1 << 63
    """Integers are smaller than this, and at least -2^63."""
    allows_nul: bool = False
    """Whether a text may contain NUL: a payload escapes it, a column cannot hold it."""
    validates_values: bool = True
    """Whether values are validated; otherwise only the syntax and the uniqueness of keys."""


STORABLE = JsonLimits()
"""Values that may be stored in a column of their own."""
PAYLOAD = JsonLimits(deepest=200, integers_below=1 << 64, allows_nul=True)
"""Values that are stored only as a part of JSON; the depth is less than what orjson writes."""
SYNTAX = JsonLimits(validates_values=False)
"""Values that the caller validates, with its own messages."""


def parse_json(data: bytes | str, what: str, limits: JsonLimits = STORABLE) -> Any:
    """Parse untrusted JSON; `what` names it in messages.

    Raises: NotJson; Invalid, naming the place, for a duplicate key, NaN or infinity, an integer that is too
    large, a text that cannot be stored, and values that are nested too deeply.
    """
    try:
        text = data if isinstance(data, str) else data.decode("utf-8")
        has_long_integers = limits.validates_values and _MANY_DIGITS.search(text) is not None
        value = json.loads(
            text,
            parse_constant=partial(_reject_constant, what),
            parse_int=partial(_integer, what, limits) if has_long_integers else None,
            object_pairs_hook=partial(_unique, what),
        )
    except RecursionError:
        raise _too_deep(what, limits) from None
    except ValueError as error:
        raise NotJson(f"{what} is not JSON: {error}.") from None
    if limits.validates_values:
        require_json(value, what, limits)
    return value


def require_json(value: Any, what: str, limits: JsonLimits = STORABLE) -> None:
    """Validate a JSON value, level by level: a deep one needs no deep stack.

    Raises: Invalid, naming the place, as `parse_json`.
    """
    level = [value]
    for depth in range(limits.deepest + 1):
        for each in level:
            if not _is_valid(each, limits):
                raise _flaw_of(value, what, limits)
        if depth == limits.deepest and any(isinstance(each, list | dict) for each in level):
            raise _too_deep(what, limits)
        level = list(_inside(level))
        if not level:
            return


def require_finite(value: Any) -> None:
    """Check that a value has no number that orjson would turn into null.

    Raises: ValueError
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a number of JSON")
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            if type(item) not in _ALWAYS_FINITE:
                require_finite(item)
    elif isinstance(value, Mapping):
        require_finite(dict(value))


def dump_json(value: Any, what: str) -> bytes:
    """Write a value as compact JSON in UTF-8; any mapping is an object.

    Raises: Invalid for what JSON does not have: NaN, a lone surrogate, a key that is not text, an object of Python.
    """
    try:
        require_finite(value)
        return orjson.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{what} cannot be written as JSON: {error}.") from error


def _unique(what: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        raise Invalid(f"{what} has the key {_first_repeated(pairs)[:_SHOWN]!r} twice in one object.")
    return unique


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    seen = set[str]()
    return next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def _integer(what: str, limits: JsonLimits, digits: str) -> int:
    """Read an integer; one with too many digits is rejected without a conversion."""
    if len(digits) > len(str(-limits.integers_below)):
        raise Invalid(f"{what} has an integer of more than 64 bits.")
    return int(digits)


def _reject_constant(what: str, name: str) -> None:
    raise Invalid(f"{what} has {name}, which JSON does not have.")


def _is_valid(value: Any, limits: JsonLimits) -> bool:
    """Return whether a value is valid, apart from the values inside it."""
    kind = type(value)
    if kind is str:
        return flaw_in(value, allows_nul=limits.allows_nul) is None
    if kind is int:
        return bool(-(1 << 63) <= value < limits.integers_below)
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return flaw_in("".join(value), allows_nul=limits.allows_nul) is None
    return True


def _inside(level: Iterable[Any]) -> Iterator[Any]:
    """Yield the values in the containers of a level."""
    for each in level:
        if type(each) is list:
            yield from each
        elif type(each) is dict:
            yield from each.values()


def _flaw_of(value: Any, what: str, limits: JsonLimits) -> Invalid:
    """Find the first invalid value, and return the error that names its place."""
    path: list[str | int] = []
    waiting: list[Iterator[tuple[str | int, Any]]] = [iter([("", value)])]
    while waiting:
        found = next(waiting[-1], None)
        if found is None:
            waiting.pop()
            path = path[:-1]
            continue
        key, each = found
        if not _is_valid(each, limits):
            where = _path_text([*path, key])
            return Invalid(
                f"{what} at {where} {_describe_flaw(each, limits)}"
                if where
                else f"{what} {_describe_flaw(each, limits)}"
            )
        if type(each) is list or type(each) is dict:
            path.append(key)
            waiting.append(iter(each.items() if type(each) is dict else enumerate(each)))
    raise AssertionError("the invalid value was not found again")


def _path_text(path: list[str | int]) -> str:
    """Write a path, such as a.b[2]; the first step is the whole value, which has no name."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step[:_SHOWN]}" for step in path[1:])
    return "".join(steps).removeprefix(".")


def _describe_flaw(value: Any, limits: JsonLimits) -> str:
    """Describe the flaw of a value."""
    match value:
        case str():
            return f"contains {flaw_in(value, allows_nul=limits.allows_nul)}."
        case int():
            return "is an integer of more than 64 bits."
        case float():
            return "is a number that is too large."
    flaws = (flaw_in(key, allows_nul=limits.allows_nul) for key in value)
    return f"has a key that contains {next(flaw for flaw in flaws if flaw)}."


def _too_deep(what: str, limits: JsonLimits) -> Invalid:
    return Invalid(f"{what} is nested deeper than {limits.deepest} levels.")


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not a type of JSON")
