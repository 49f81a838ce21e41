"""Whether a value that was read from its JSON form is the one that was stored, and where it is another."""

import dataclasses
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from perdure.minds.flow.values.hints import open_fields

_Part = tuple[str, Any, Any, bool]
"""A part of two values: its place, what was given, what was read, and whether the types must be the same."""

_FIELDS: "weakref.WeakKeyDictionary[type, tuple[tuple[str, bool], ...]]" = weakref.WeakKeyDictionary()
"""The fields of a class that are part of its value, each with whether its annotation leaves the type open."""
_LEAVES = frozenset({str, int, bool, float, type(None), bytes, Decimal, UUID, date})
"""Types whose values are the same when they are equal."""
_NOTHING = object()


class Difference(NamedTuple):
    """A part of a value that was read as another value."""

    place: str
    """Where the part is, such as `.lines[0].price`; empty for the whole value."""
    given: Any
    read: Any


def is_same(given: Any, read: Any, *, is_exact: bool = False) -> bool:
    """Tell whether a value that was read is the one that was given. See `differences`."""
    return next(differences(given, read, is_exact=is_exact), None) is None


def differences(given: Any, read: Any, *, is_exact: bool = False) -> Iterator[Difference]:
    """Yield the parts of a value that were read as another value.

    Parts are compared by value. The type of a part may be another where an annotation names it, so that a tuple that
    is declared as a list is read as a list. Where an annotation leaves the type open, and everywhere with `is_exact`,
    the types must be the same.
    """
    if is_exact and type(given) is not type(read):
        yield Difference("", given, read)
        return
    parts = _parts(given, read, is_exact=is_exact)
    if parts is None:
        if not _is_equal(given, read):
            yield Difference("", given, read)
        return
    for place, part, other, is_part_exact in parts:
        if type(part) is type(other) and type(part) in _LEAVES and part == other:
            continue
        for found in differences(part, other, is_exact=is_part_exact):
            yield found._replace(place=place + found.place)


def _parts(given: Any, read: Any, *, is_exact: bool) -> Iterable[_Part] | None:
    """Return the parts to compare one by one; None when two values are compared as a whole."""
    kind = type(given)
    if isinstance(given, dict) and isinstance(read, dict):
        is_alike = given.keys() == read.keys() and _has_same_factory(given, read)
        return ((_place(key), item, read[key], is_exact) for key, item in given.items()) if is_alike else None
    is_one_class = kind is type(read)
    if is_one_class and (dataclasses.is_dataclass(kind) or (issubclass(kind, tuple) and hasattr(kind, "_fields"))):
        return _fields(given, read)
    if _are_arrays(given, read):
        items = enumerate(zip(given, read, strict=True))
        return ((f"[{number}]", item, other, is_exact) for number, (item, other) in items)
    if is_one_class and hasattr(kind, "model_fields"):
        return chain(_fields(given, read), _extra(given.__pydantic_extra__ or {}, read.__pydantic_extra__ or {}))
    return None


def _are_arrays(given: Any, read: Any) -> bool:
    """Tell whether two values are compared item by item; a list and a tuple may stand for each other."""
    if isinstance(given, deque):
        return isinstance(read, deque) and len(given) == len(read) and given.maxlen == read.maxlen
    if not isinstance(given, list | tuple) or not isinstance(read, list | tuple) or len(given) != len(read):
        return False
    return isinstance(given, type(read)) or type(given) in (list, tuple)


def _has_same_factory(given: Any, read: Any) -> bool:
    is_default = isinstance(given, defaultdict) and isinstance(read, defaultdict)
    return not is_default or given.default_factory is read.default_factory


def _fields(given: Any, read: Any) -> Iterator[_Part]:
    kind = type(given)
    fields = _FIELDS.get(kind)
    if fields is None:
        exact = open_fields(kind)
        fields = _FIELDS[kind] = tuple((name, name in exact) for name in _names(kind))
    for name, is_exact in fields:
        yield f".{name}", getattr(given, name, None), getattr(read, name, None), is_exact


def _names(kind: Any) -> list[str]:
    """Return the fields that are part of a value: not those that are excluded, or only derived and not compared."""
    if dataclasses.is_dataclass(kind):
        return [each.name for each in dataclasses.fields(kind) if each.init or each.compare]
    if issubclass(kind, tuple):
        return [*kind._fields]
    return [name for name, field in kind.model_fields.items() if not field.exclude]


def _extra(given: Mapping[str, Any], read: Mapping[str, Any]) -> Iterator[_Part]:
    """Yield the fields of a model that its class does not name."""
    return ((_place(name), each, read.get(name, _NOTHING), True) for name, each in given.items())


def _place(key: object) -> str:
    return f".{key}" if isinstance(key, str) else f"[{key!r}]"


def _is_equal(given: Any, read: Any) -> bool:
    if isinstance(given, datetime | time):
        return isinstance(read, datetime | time) and _is_same_moment(given, read)
    if dataclasses.is_dataclass(type(given)) and type(given) is not type(read):
        return False
    if isinstance(given, dict | deque) and type(given) is type(read):
        return False  # their keys, lengths or other properties are not the same
    try:
        return bool(given == read)
    except Exception:  # noqa: BLE001 (the comparison is code of a user)
        return False


def _is_same_moment(given: Any, read: Any) -> bool:
    """Tell whether two moments, or times of a day, have one clock time and one offset from UTC.

    The name of a zone is not stored. An offset says which of two equal clock times is meant, as `fold` does without it.
    """
    offset = given.utcoffset()
    if (given.tzinfo is None, offset) != (read.tzinfo is None, read.utcoffset()):
        return False
    is_same_clock: bool = given.replace(tzinfo=None, fold=0) == read.replace(tzinfo=None, fold=0)
    return is_same_clock and (offset is not None or given.fold == read.fold)
