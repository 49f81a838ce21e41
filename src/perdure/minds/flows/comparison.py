"""Whether a value that was read from its JSON form is the one that was stored."""

import dataclasses
from datetime import datetime, time
from typing import Any


def is_same(given: Any, read: Any) -> bool:
    """Tell whether a value that was read is the one that was given: of one type, and equal in all that is compared."""
    kind = type(given)
    if isinstance(given, dict) and isinstance(read, dict):
        return given.keys() == read.keys() and all(is_same(item, read[key]) for key, item in given.items())
    if isinstance(given, list | tuple) and isinstance(read, list | tuple):
        return len(given) == len(read) and all(map(is_same, given, read)) and _is_array_of(read, kind)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.compare]
        return kind is type(read) and all(is_same(getattr(given, name), getattr(read, name)) for name in names)
    if kind is type(read) and hasattr(kind, "model_fields"):
        names = [name for name, field in kind.model_fields.items() if not field.exclude]
        return all(is_same(getattr(given, name), getattr(read, name)) for name in names)
    try:
        return bool(given == read) and _has_same_offset(given, read)
    except Exception:  # noqa: BLE001 (the comparison is code of a user)
        return False


def _is_array_of(read: Any, kind: type) -> bool:
    """Tell whether a list or tuple has the type of another; the two builtin types may stand for each other."""
    return type(read) is kind or kind in (list, tuple)


def _has_same_offset(given: Any, read: Any) -> bool:
    """Tell whether two equal moments, or times of a day, have one offset from UTC; the name of a zone is not stored."""
    return not isinstance(given, datetime | time) or given.utcoffset() == read.utcoffset()
