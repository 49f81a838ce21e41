"""The JSON form of Python values by their types, independent of hash order."""

import base64
import dataclasses
import enum
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from pathlib import PurePath
from typing import Any
from uuid import UUID

import orjson

_EXACT = frozenset({str, int, bool, type(None)})
_NOT_FINITE = "JSON has no NaN and no infinity: use None or a string"


class NoJsonForm(ValueError):
    """A value, or a part of it, has no JSON form; `advice` is the remedy."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(reason)
        self._reason = reason
        self._advice = f"; {advice}" if advice else ""
        self._place: list[str] = []

    def inside(self, key: object) -> "NoJsonForm":
        """Return the error with an enclosing key in its place."""
        self._place.insert(0, f"[{key!r}]" if not isinstance(key, str) else f".{key}")
        return self

    def __str__(self) -> str:
        place = f" (at {''.join(self._place)})" if self._place else ""
        return f"{self._reason}{place}{self._advice}"


class UnknownType(NoJsonForm):
    """A value, or a part of it, has a type without a JSON form; an annotation may give it one."""

    def __init__(self, value: object) -> None:
        super().__init__(f"a value of type {type_name(value)}", "use JSON, a dataclass or a type that pydantic knows")


@dataclass(frozen=True)
class Form:
    """Options of the JSON form."""

    has_text_keys: bool = True
    """Whether keys must be text; else other keys are written as text, and an annotation reads them back."""
    bytes_as: str = "base64"
    """Like the setting `val_json_bytes` of pydantic; a model reads bytes by its own configuration."""

    def of_class(self, config: Mapping[str, Any] | None, default: str) -> "Form":
        """Return the options for the fields of a class with a pydantic configuration."""
        return Form(has_text_keys=False, bytes_as=(config or {}).get("val_json_bytes", default))


BARE = Form()
ANNOTATED = Form(has_text_keys=False)


def is_json(value: Any) -> bool:
    """Return whether a value has exactly the types of JSON, so that it is unchanged by a round trip."""
    try:
        return _is_json(value)
    except RecursionError:  # it contains itself
        return False


def _is_json(value: Any) -> bool:
    kind = type(value)
    if kind in _EXACT:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(_is_json, value))
    if kind is dict:
        return all([type(key) is str for key in value]) and all(map(_is_json, value.values()))  # noqa: C419 (faster)
    return False


def json_form(value: Any, form: Form = BARE) -> Any:
    """Return the JSON form of a value.

    Raises: NoJsonForm, with the type and its place in the value; RecursionError when the value contains itself.
    """
    kind = type(value)
    if kind in _EXACT:
        return value
    if kind is dict:
        return _object(value, form)
    if kind is list or kind is tuple:
        return _array(value, form)
    return _writer(kind)(value, form)


def _writer(kind: type) -> Callable[[Any, Form], Any]:
    for base, write in _BY_TYPE:
        if issubclass(kind, base):
            return write
    if _is_model(kind):
        return _model
    return _dataclass if dataclasses.is_dataclass(kind) else _known_to_pydantic


def _object(value: Mapping[Any, Any], form: Form) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for key, item in value.items():
        text = key if type(key) is str else _key(key, form)
        if text in written:
            raise NoJsonForm(f"two keys of a {type_name(value)} are {text!r} as text")
        try:
            written[text] = json_form(item, form)
        except NoJsonForm as error:
            raise error.inside(text) from None
    return written


def _key(key: Any, form: Form) -> str:
    if form.has_text_keys and not isinstance(key, str):
        raise NoJsonForm(f"a key of type {type_name(key)}; an annotation such as dict[{type_name(key)}, …] stores it")
    written = json_form(key, form)
    if isinstance(written, bool):
        return "true" if written else "false"
    if isinstance(written, str | int | float):
        return str(written)
    raise NoJsonForm(f"a key of type {type_name(key)}")


def _array(value: Iterable[Any], form: Form) -> list[Any]:
    written: list[Any] = []
    for item in value:
        try:
            written.append(json_form(item, form))
        except NoJsonForm as error:
            raise error.inside(len(written)) from None
    return written


def _set(value: Iterable[Any], form: Form) -> list[Any]:
    return sorted((json_form(item, form) for item in value), key=partial(orjson.dumps, option=orjson.OPT_SORT_KEYS))


def _float(value: float, _form: Form) -> float:
    if not math.isfinite(value):
        raise NoJsonForm(f"the number {value}", _NOT_FINITE)
    return float.__float__(value)


def _decimal(value: Decimal, _form: Form) -> str:
    if not value.is_finite():
        raise NoJsonForm(f"the Decimal {value}", _NOT_FINITE)
    return str(value)


def _bytes(value: bytes | bytearray, form: Form) -> str:
    """Return bytes as text; base64 has the URL-safe alphabet, as pydantic writes it."""
    if form.bytes_as == "base64":
        return base64.urlsafe_b64encode(value).decode()
    if form.bytes_as == "hex":
        return value.hex()
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise NoJsonForm(
            "bytes that are not UTF-8 in a pydantic model;"
            ' set model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64") there'
        ) from None


def _timedelta(value: timedelta, _form: Form) -> str:
    """Return a duration in ISO 8601, exact to the microsecond."""
    length = abs(value)
    sign = "-" if value < timedelta(0) else ""
    fraction = f".{length.microseconds:06}" if length.microseconds else ""
    return f"{sign}P{length.days}DT{length.seconds}{fraction}S"


def _iso(value: date | time, _form: Form) -> str:
    return value.isoformat()


def _text(value: object, _form: Form) -> str:
    return str(value)


_BY_TYPE: tuple[tuple[type, Callable[[Any, Form], Any]], ...] = (
    (float, _float),
    (enum.Enum, lambda value, form: json_form(value.value, form)),
    (str, lambda value, _form: str.__str__(value)),
    (int, lambda value, _form: int.__index__(value)),
    (datetime, _iso),
    (date, _iso),
    (time, _iso),
    (timedelta, _timedelta),
    (Decimal, _decimal),
    (UUID, _text),
    (PurePath, _text),
    (bytes, _bytes),
    (bytearray, _bytes),
    (set, _set),
    (frozenset, _set),
    (tuple, _array),
    (list, _array),
    (deque, _array),
    (Mapping, _object),
)
"""The writers of types and their subclasses; the first match is used."""


def _is_model(kind: type) -> bool:
    """Return whether a class is a pydantic model; False if pydantic is not loaded."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and issubclass(kind, pydantic.BaseModel)


def _dataclass(value: Any, form: Form) -> Any:
    config = getattr(type(value), "__pydantic_config__", None)
    inner = replace(form, has_text_keys=False) if config is None else form.of_class(config, form.bytes_as)
    if getattr(type(value), "__pydantic_decorators__", None) is not None and _serialized_by_hand(type(value), {}):
        return _as_pydantic_writes(value, inner)
    return _object({field.name: getattr(value, field.name) for field in dataclasses.fields(value)}, inner)


def _model(value: Any, form: Form) -> Any:
    """Return the JSON form of a model: without excluded and computed fields, and with its own serializers."""
    kind = type(value)
    inner = form.of_class(kind.model_config, "utf8")
    if _serialized_by_hand(kind, kind.model_fields):
        return _as_pydantic_writes(value, inner)
    if "root" in kind.model_fields and getattr(kind, "__pydantic_root_model__", False):
        return json_form(value.root, inner)
    stored = {name: value.__dict__[name] for name, field in kind.model_fields.items() if not field.exclude}
    return _object({**stored, **(value.__pydantic_extra__ or {})}, inner)


def _serialized_by_hand(kind: Any, fields: Mapping[str, Any]) -> bool:
    """Return whether a class has custom serializers."""
    from pydantic import PlainSerializer, WrapSerializer

    known = kind.__pydantic_decorators__
    if known.field_serializers or known.model_serializers:
        return True
    return any(
        isinstance(each, PlainSerializer | WrapSerializer) for field in fields.values() for each in field.metadata
    )


def _known_to_pydantic(value: Any, form: Form) -> Any:
    """Return the JSON form of a type that pydantic supports, such as an IP address.

    Raises: NoJsonForm when pydantic does not know the type.
    """
    if isinstance(value, type) or callable(value):
        raise UnknownType(value)
    return _as_pydantic_writes(value, form)


def _as_pydantic_writes(value: Any, form: Form) -> Any:
    from pydantic import PydanticSchemaGenerationError, TypeAdapter

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(type(value))
        written = adapter.dump_python(value, mode="json", round_trip=True, by_alias=False, warnings="error")
    except MemoryError:
        raise
    except PydanticSchemaGenerationError:
        raise UnknownType(value) from None
    except Exception as error:  # also from a serializer of the user
        raise UnknownType(value) from error
    return _array(written, form) if isinstance(written, list) else _written(value, written, form)


def _written(value: Any, written: Any, form: Form) -> Any:
    if not isinstance(written, str | int | float | dict | None):
        raise UnknownType(value)
    return json_form(written, form)


def type_name(value: object) -> str:
    """Return the name of the type of a value, with its module."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
