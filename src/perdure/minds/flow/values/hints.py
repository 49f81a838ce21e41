"""Analyses annotations: whether they have only types of JSON, and whether pydantic supports them."""

import collections.abc
import dataclasses
import math
import re
import sys
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, get_args, get_origin

from perdure.minds.flow.values.json_form import is_json

_JSON_TYPES = {Any, object, None, type(None), str, int, float, bool, list, dict, typing.NoReturn, typing.Never}
_ARRAYS = {list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection}
_OBJECTS = {dict, collections.abc.Mapping, collections.abc.MutableMapping}
_UNSTORABLE = {
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncIterator,
    collections.abc.AsyncGenerator,
    collections.abc.Callable,
    type,
}
"""Types whose values cannot be stored: pydantic does not read them from JSON, or reads them as an iterator."""
_UNIONS = {Union, types.UnionType}
_BARE = {list, dict, tuple, set, frozenset, collections.deque, *_ARRAYS, *_OBJECTS, collections.abc.Set}
"""Containers whose parts have any type without type arguments."""
_SHORT_INT = 2**63
"""orjson rejects larger integers."""
_NAMES_ANY = re.compile(r"\b(Any|object)\b")


def is_json_hint(hint: Any) -> bool:
    """Return whether an annotation has only types of JSON."""
    return _is_json(hint, frozenset())


def _is_json(hint: Any, outer: frozenset[int]) -> bool:
    """Return the same for a part of an annotation; `outer` has the ids of the enclosing parts, to stop recursion."""
    if id(hint) in outer or isinstance(hint, TypeVar):
        return True
    outer = outer | {id(hint)}
    origin, args = get_origin(hint), get_args(hint)
    if origin is None:
        return hint in _JSON_TYPES or _is_json_by_name(hint, outer)
    if origin is Literal:
        return all(is_json(each) for each in args)
    if origin is Annotated:
        has_code = any(hasattr(type(each), "__get_pydantic_core_schema__") for each in args[1:])
        return not has_code and _is_json(args[0], outer)
    if origin in _OBJECTS:
        return args[0] in (str, Any) and _is_json(args[1], outer)
    return (origin in _UNIONS or origin in _ARRAYS) and all(_is_json(each, outer) for each in args)


def _is_json_by_name(hint: Any, outer: frozenset[int]) -> bool:
    """Return the same for an annotation that refers to others: a NewType, an alias, a TypedDict."""
    if isinstance(hint, NewType):
        return _is_json(hint.__supertype__, outer)
    if _is_alias(hint):
        return _is_json(hint.__value__, outer)
    if _is_typed_dict(hint):
        return all(_is_json(each, outer) for each in typing.get_type_hints(hint).values())
    return False


_FITS: dict[type, Callable[[Any], bool]] = {
    type(None): lambda value: value is None,
    bool: lambda value: type(value) is bool,
    int: lambda value: type(value) is int and abs(value) < _SHORT_INT,
    float: lambda value: type(value) is float and math.isfinite(value),
    str: lambda value: type(value) is str and value.isascii(),
}
"""Tests for values that pydantic accepts in strict mode. They reject some valid values, but accept no invalid one."""


def fits_plain_hint(value: Any, hint: Any) -> bool:
    """Return whether a JSON form certainly fits an annotation of JSON types; if False, pydantic must decide."""
    if hint is None or isinstance(hint, type):
        fits = _FITS.get(type(None) if hint is None else hint)
        return fits is not None and fits(value)
    origin, args = get_origin(hint), get_args(hint)
    if origin is list:
        return type(value) is list and all(fits_plain_hint(each, args[0]) for each in value)
    if origin is dict and args[0] is str:
        is_plain = type(value) is dict and all(fits_plain_hint(key, str) for key in value)
        return is_plain and all(fits_plain_hint(each, args[1]) for each in value.values())
    return origin in _UNIONS and any(fits_plain_hint(value, each) for each in args)


def rejects_none(hint: Any) -> bool:
    """Return whether an annotation certainly does not accept None; if False, pydantic must decide."""
    is_plain_class = isinstance(hint, type) and hint in _FITS and hint is not type(None)
    return is_plain_class or get_origin(hint) in (list, dict)


def is_type(hint: Any) -> bool:
    """Return whether an annotation is a type, or None, which stands for its type."""
    return hint is None or isinstance(hint, type | NewType) or get_origin(hint) is not None or _is_alias(hint)


def _is_alias(hint: Any) -> bool:
    """Return whether an annotation is a type alias of a `type` statement, which Python 3.11 does not have."""
    return type(hint).__name__ == "TypeAliasType"


def _is_typed_dict(hint: Any) -> bool:
    """Return whether an annotation is a TypedDict, of the standard library or of typing_extensions."""
    return type(hint).__name__ == "_TypedDictMeta"


def contains_unstorable(hint: Any) -> bool:
    """Return whether an annotation contains an iterator, a callable or a type, which cannot be stored."""
    return (get_origin(hint) or hint) in _UNSTORABLE or any(contains_unstorable(each) for each in _parts(hint))


def names_any(hint: Any) -> bool:
    """Return whether an annotation does not specify the type of the value, or of a part of it."""
    return _names_any(hint, frozenset())


def _names_any(hint: Any, outer: frozenset[int]) -> bool:
    if id(hint) in outer:
        return False
    outer = outer | {id(hint)}
    if hint in (Any, object) or isinstance(hint, TypeVar):
        return True
    if isinstance(hint, NewType):
        return _names_any(hint.__supertype__, outer)
    if _is_alias(hint):
        return _names_any(hint.__value__, outer)
    if _is_typed_dict(hint):
        return any(_names_any(each, outer) for each in typing.get_type_hints(hint).values())
    is_bare = not get_args(hint) and (get_origin(hint) or hint) in _BARE
    return is_bare or any(_names_any(each, outer) for each in _parts(hint) if each is not ...)


def fields_of_unspecified_type(kind: Any) -> frozenset[str]:
    """Return the fields of a dataclass, model or named tuple whose annotations do not specify all types."""
    if issubclass(kind, tuple):
        hints = dict.fromkeys(kind._fields, Any) | getattr(kind, "__annotations__", {})
    elif hasattr(kind, "model_fields"):
        hints = {name: field.annotation for name, field in kind.model_fields.items()}
    else:
        hints = {field.name: field.type for field in dataclasses.fields(kind)}
    if any(isinstance(hint, str) for hint in hints.values()):
        with suppress(Exception):  # it may use names that only the enclosing function has
            hints.update(typing.get_type_hints(kind, include_extras=True))
    return frozenset(name for name, hint in hints.items() if _has_unspecified_type(hint))


def _has_unspecified_type(hint: Any) -> bool:
    try:
        return _NAMES_ANY.search(hint) is not None if isinstance(hint, str) else names_any(hint)
    except Exception:  # noqa: BLE001 (an annotation is whatever its author wrote)
        return False


def instances(hint: Any) -> Any:
    """Return an annotation that accepts instances of dataclasses and pydantic models, without constructing them."""
    from pydantic import BaseModel, InstanceOf

    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, BaseModel)):
        instance_of: Any = InstanceOf
        return instance_of[hint]
    return _with_parts(hint, tuple(map(instances, _parts(hint))))


def list_of(hint: Any) -> Any:
    """Return the annotation of a list of such values."""
    return list[hint]


def _parts(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Literal:
        return ()
    return get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint)


def supported(hint: Any) -> Any:
    """Return an annotation with unsupported parts replaced by equivalents that pydantic supports."""
    if hint is bytearray:
        from pydantic import AfterValidator

        return Annotated[bytes, AfterValidator(bytearray)]
    if sys.version_info < (3, 12) and typing.is_typeddict(hint):
        return _typed_dict(hint)
    return _with_parts(hint, tuple(map(supported, _parts(hint))))


def _with_parts(hint: Any, parts: tuple[Any, ...]) -> Any:
    """Return an annotation with other parts."""
    if all(new is old for new, old in zip(parts, _parts(hint), strict=True)):
        return hint
    origin: Any = get_origin(hint)
    if origin is Annotated:
        return Annotated[(parts[0], *hint.__metadata__)]
    return Union[parts] if origin in _UNIONS else origin[parts]  # noqa: UP007 (of a tuple)


def _typed_dict(hint: Any) -> Any:
    """Return the same TypedDict from typing_extensions, which pydantic requires."""
    import typing_extensions

    hints = typing.get_type_hints(hint, include_extras=True)
    fields = {name: _field(supported(each), is_required=name in hint.__required_keys__) for name, each in hints.items()}
    make: Any = typing_extensions.TypedDict
    return make(hint.__name__, fields)


def _field(hint: Any, *, is_required: bool) -> Any:
    if get_origin(hint) in (typing.Required, typing.NotRequired):
        hint = get_args(hint)[0]
    return hint if is_required else typing.NotRequired[hint]
