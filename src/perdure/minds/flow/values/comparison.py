"""Compares a value with the one read back from its JSON form, and finds the differences."""

import dataclasses
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple
from uuid import UUID

from perdure.minds.flow.values.hints import fields_of_unspecified_type

_Part = tuple[str, Any, Any, bool]
"""A part of two values: its place, the original, the value read back, and whether their types must be equal."""

_FIELDS: "weakref.WeakKeyDictionary[type, tuple[tuple[str, bool], ...]]" = weakref.WeakKeyDictionary()
"""The compared fields of a class; the flag is set if the annotation does not specify the type."""
_LEAVES = frozenset({str, int, bool, float, type(None), bytes, Decimal, UUID, date})
"""Types whose equal values are the same."""
_NOTHING = object()


class Difference(NamedTuple):
    """A part of a value that was read as another value."""

    place: str
    """The path of the part, such as `.lines[0].price`; empty for the whole value."""
    given: Any
    read: Any


def is_same(given: Any, read: Any, *, is_exact: bool = False) -> bool:
    """Return whether a value that was read back is the same. See `differences`."""
    return next(differences(given, read, is_exact=is_exact), None) is None


def differences(given: Any, read: Any, *, is_exact: bool = False) -> Iterator[Difference]:
    """Yield the parts of a value that differ after reading it back.

    Parts are compared by value. If an annotation specifies the type of a part, its type may differ: a tuple that is
    annotated as a list is read as a list. If it does not, and everywhere with `is_exact`, the types must be equal.
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
    """Return the parts to compare; None if the values are compared as a whole."""
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
    """Return whether two values are compared item by item; a list may match a tuple."""
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
        exact = fields_of_unspecified_type(kind)
        fields = _FIELDS[kind] = tuple((name, name in exact) for name in _names(kind))
    for name, is_exact in fields:
        yield f".{name}", getattr(given, name, None), getattr(read, name, None), is_exact


def _names(kind: Any) -> list[str]:
    """Return the compared fields of a class, without excluded and derived ones."""
    if dataclasses.is_dataclass(kind):
        return [each.name for each in dataclasses.fields(kind) if each.init or each.compare]
    if issubclass(kind, tuple):
        return [*kind._fields]
    return [name for name, field in kind.model_fields.items() if not field.exclude]


def _extra(given: Mapping[str, Any], read: Mapping[str, Any]) -> Iterator[_Part]:
    """Return the extra fields of a model."""
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
    """Return whether two moments, or times of day, have the same clock time and UTC offset.

    The name of a zone is not stored. The offset distinguishes two equal clock times; without one, `fold` does.
    """
    offset = given.utcoffset()
    if (given.tzinfo is None, offset) != (read.tzinfo is None, read.utcoffset()):
        return False
    is_same_clock: bool = given.replace(tzinfo=None, fold=0) == read.replace(tzinfo=None, fold=0)
    return is_same_clock and (offset is not None or given.fold == read.fold)
