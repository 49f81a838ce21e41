"""The annotations of a function, and the conversion of JSON to annotated types."""

import asyncio
import collections.abc
import functools
import inspect
import types
import typing
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_origin

import orjson

from perdure.minds.flow.values.comparison import is_same
from perdure.minds.flow.values.hints import (
    contains_unstorable,
    fits_plain_hint,
    instances,
    is_json_hint,
    is_type,
    list_of,
    names_any,
    rejects_none,
    supported,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_CACHE = "__perdure_annotations__"
_LONGEST_REASON = 200
_AWAITED = {collections.abc.Awaitable, collections.abc.Coroutine}

_SCALARS: Mapping[Any, type | tuple[type, ...]] = {
    None: type(None),
    type(None): type(None),
    bool: bool,
    int: int,
    float: (float, int),
    str: str,
}


class Annotation:
    """One annotation. It converts values unless it has only types of JSON, or pydantic does not support it."""

    def __init__(self, hint: Any, names: Mapping[str, Any]) -> None:
        self._hint = hint
        self._names = names
        self.unusable_reason = "it does not name a concrete type"
        """Why pydantic does not support the annotation; only read if neither `is_json` nor `converts`."""

    @property
    def name(self) -> str:
        """The text of the annotation."""
        return self._hint.__qualname__ if isinstance(self._hint, type) else str(self._hint)

    @functools.cached_property
    def is_json(self) -> bool:
        """Whether the annotation has only types of JSON, so that values need no conversion."""
        try:
            return is_json_hint(self._hint)
        except Exception:  # noqa: BLE001 (an annotation is whatever its author wrote)
            return True

    @property
    def converts(self) -> bool:
        """Whether values are converted by it: it has more than types of JSON, and pydantic supports it."""
        return not self.is_json and self._adapter is not None

    @functools.cached_property
    def has_unspecified_type(self) -> bool:
        """Whether the type of the value, or of a part of it, is not specified."""
        try:
            return names_any(self._hint)
        except Exception:  # noqa: BLE001 (an annotation is whatever its author wrote)
            return True

    @property
    def is_class(self) -> bool:
        """Whether it is a class without type arguments."""
        return isinstance(self._hint, type) and get_origin(self._hint) is None

    @property
    def is_type(self) -> bool:
        """Whether it is a type; annotations can be any object."""
        return is_type(self._hint)

    @functools.cached_property
    def accepts_none(self) -> bool:
        """Whether None is a valid value; also True if pydantic does not support the annotation."""
        if rejects_none(self._hint):
            return False  # without pydantic, whose import takes a fifth of the time to start a flow
        try:
            self.validate(None)
        except ValueError:
            return False
        return True

    def read(self, value: Any) -> Any:
        """Convert the JSON form of a value.

        Raises: ValueError when it does not fit.
        """
        return value if self.is_json or self._adapter is None else self._validated(self._adapter, value)

    def validate(self, value: Any) -> None:
        """Check that a JSON form fits: an argument, a result that a person entered, or the result of a flow.

        A value of a JSON type is not converted, so it must have exactly that type: "7" does not fit an int.

        Raises: ValueError when it does not fit.
        """
        if self.is_json and fits_plain_hint(value, self._hint):
            return  # without pydantic, whose import takes a fifth of the time to start a flow
        if self._adapter is not None:
            self._validated(self._adapter, value, is_strict=self.is_json)

    def fits_scalar(self, form: Any) -> bool:
        """Return whether a JSON form fits a scalar annotation; True for any other annotation.

        It is one dict lookup, cheap enough for every step.
        """
        return self._scalar is None or isinstance(form, self._scalar)

    @property
    def is_scalar(self) -> bool:
        """Whether it is one JSON type without parts; see `fits_scalar`."""
        return self._scalar is not None

    @functools.cached_property
    def _scalar(self) -> type | tuple[type, ...] | None:
        """The Python types that fit a scalar annotation, as for a type checker."""
        is_hashable = self._hint is None or isinstance(self._hint, type)
        return _SCALARS.get(self._hint) if is_hashable else None

    def accepts_unconverted(self, value: Any) -> bool:
        """Return whether a Python value fits the annotation without any conversion.

        Even in strict mode, pydantic converts a dict to a model. So here the annotation accepts only instances of
        models.
        """
        from pydantic import TypeAdapter

        if self._adapter is None:
            return False
        try:
            adapter: TypeAdapter[list[Any]] = TypeAdapter(list_of(instances(supported(self._hint))))
            return is_same(value, adapter.validate_python([value], strict=True)[0])
        except Exception:  # noqa: BLE001 (validators of a user raise what they like)
            return False

    def dump(self, value: Any) -> Any:
        """Return the JSON form of a value by pydantic.

        Raises: ValueError
        """
        if self._adapter is None:
            raise ValueError("there is no usable annotation")
        try:
            return self._adapter.dump_python([value], mode="json", round_trip=True, by_alias=False, warnings="error")[0]
        except MemoryError:
            raise
        except Exception as error:
            raise ValueError(_reason(error)) from error

    @functools.cached_property
    def _adapter(self) -> "TypeAdapter[list[Any]] | None":
        """The adapter of a list with one such value: a list accepts a configuration, a model or dataclass does not."""
        from pydantic import ConfigDict, TypeAdapter

        config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
        try:
            if contains_unstorable(self._hint):
                return None
            adapter: TypeAdapter[list[Any]] = TypeAdapter(list_of(supported(self._hint)), config=config)
            if not adapter.pydantic_complete:
                adapter.rebuild(raise_errors=True, _types_namespace=dict(self._names))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 (what pydantic cannot handle is as no annotation)
            self.unusable_reason = _first_line(error)
            return None
        self._names = {}
        return adapter

    def _validated(self, adapter: "TypeAdapter[list[Any]]", value: Any, *, is_strict: bool = False) -> Any:
        try:
            text = orjson.dumps([value])
            return adapter.validate_json(text, strict=is_strict or None, by_alias=True, by_name=True)[0]
        except MemoryError:
            raise
        except (Exception, asyncio.CancelledError, GeneratorExit) as error:  # nothing is awaited: a validator raised it
            raise ValueError(_reason(error)) from error


UNANNOTATED = Annotation(Any, {})


class Annotations:
    """The annotations of a function: of its parameters and its result."""

    def __init__(self, hints: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        self.parameters = {name: Annotation(hint, names) for name, hint in hints.items()}
        self.result = self.parameters.pop("return", UNANNOTATED)


class _CacheEntry(NamedTuple):
    """The annotations of a callable, stored in the dict of its function."""

    function: "weakref.ref[types.FunctionType]"
    """The function of the entry: a decorator may copy the dict to another one."""
    constructed_class: type | None
    """The class whose `__init__` the function is; None if the callable is not a class."""
    annotations: Annotations


def annotations_of(fn: Callable[..., Any]) -> Annotations:
    """Return the annotations of any callable. An annotation that cannot be resolved is ignored.

    They are cached on the function itself, so that the cache keeps no object alive.
    """
    function, constructed_class = (fn, None) if type(fn) is types.FunctionType else _function_of(fn)
    if function is None:
        return Annotations({} if constructed_class is None else {"return": constructed_class}, {})
    cached: _CacheEntry | None = function.__dict__.get(_CACHE)
    if cached is not None and cached.function() is function and cached.constructed_class is constructed_class:
        return cached.annotations
    names = _names_of(inspect.unwrap(function))
    hints = {name: _resolved(hint, names) for name, hint in _raw_annotations(function).items()}
    hints["return"] = _awaited(hints.get("return", Any)) if constructed_class is None else constructed_class
    annotations = Annotations(hints, names)
    function.__dict__[_CACHE] = _CacheEntry(weakref.ref(function), constructed_class, annotations)
    return annotations


def _function_of(fn: Any) -> tuple[types.FunctionType | None, type | None]:
    """Return the Python function behind a callable; for a class, also the class."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if isinstance(fn, type):
        init = fn.__init__  # type: ignore[misc] # the class is only looked at
        return init if isinstance(init, types.FunctionType) else None, fn
    if not isinstance(fn, types.FunctionType | types.MethodType):
        fn = getattr(fn, "__wrapped__", None) or type(fn).__call__
    fn = getattr(fn, "__func__", fn)
    return (fn if isinstance(fn, types.FunctionType) else None), None


def _names_of(function: Any) -> dict[str, Any]:
    """Return the names that annotations of a function may use: globals and closure variables."""
    names = dict(getattr(function, "__globals__", {}))
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False) if names else ()
    for name, cell in cells:
        try:
            names[name] = cell.cell_contents
        except ValueError:  # it is not assigned yet
            continue
    return names


def _raw_annotations(function: types.FunctionType) -> Mapping[str, Any]:
    """Return the unevaluated annotations of a function; this may fail from Python 3.14 on."""
    try:
        return function.__annotations__
    except Exception:  # noqa: BLE001 (it runs code of its author)
        return {}


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    """Return an annotation with evaluated strings; Any if that fails."""
    try:
        holder = types.SimpleNamespace(__annotations__={"it": hint})
        return typing.get_type_hints(holder, names, names, include_extras=True)["it"]
    except Exception:  # noqa: BLE001 (evaluating it runs code of its author)
        return Any


def _awaited(hint: Any) -> Any:
    """Return the type of an awaited result."""
    return get_args(hint)[-1] if get_origin(hint) in _AWAITED and get_args(hint) else hint


def _first_line(error: Exception) -> str:
    """Describe in one line why pydantic does not support an annotation."""
    text = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return text[:_LONGEST_REASON] or type(error).__name__


def _reason(error: BaseException) -> str:
    """Describe in one line why a value does not fit, without the value."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}".removeprefix(": ") for each in found[:3]]
    return "; ".join(said) + ("; …" if len(found) > len(said) else "")
