"""The annotations of a function, and how a value is read as one of them says."""

import asyncio
import collections.abc
import functools
import inspect
import types
import typing
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args, get_origin

import orjson

from perdure.minds.flow.values.comparison import is_same
from perdure.minds.flow.values.hints import (
    fits_plain_hint,
    instances,
    is_json_hint,
    is_open,
    is_type,
    list_of,
    names_any,
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
    """One annotation. Where it names nothing but JSON's own types, or cannot be used, a value is not changed."""

    def __init__(self, hint: Any, names: Mapping[str, Any]) -> None:
        self._hint = hint
        self._names = names
        self.unsupported = "it does not name a concrete type"
        """Why pydantic cannot read it; only for an annotation that is not usable."""

    @property
    def name(self) -> str:
        """The annotation as text."""
        return self._hint.__qualname__ if isinstance(self._hint, type) else str(self._hint)

    @functools.cached_property
    def is_json(self) -> bool:
        """Whether a value that has JSON's own types needs no reading."""
        try:
            return is_json_hint(self._hint)
        except Exception:  # noqa: BLE001 (an annotation is whatever its author wrote)
            return True

    @property
    def is_usable(self) -> bool:
        """Whether it says how a value is read."""
        return not self.is_json and self._adapter is not None

    @functools.cached_property
    def leaves_open(self) -> bool:
        """Whether it leaves the type of the value, or of a part of it, open."""
        try:
            return names_any(self._hint)
        except Exception:  # noqa: BLE001 (an annotation is whatever its author wrote)
            return True

    @property
    def is_class(self) -> bool:
        """Whether it is a class, without parts."""
        return isinstance(self._hint, type) and get_origin(self._hint) is None

    @property
    def is_type(self) -> bool:
        """Whether it is a type at all: an annotation may be anything."""
        return is_type(self._hint)

    @functools.cached_property
    def accepts_none(self) -> bool:
        """Whether None fits it; also where it does not say what fits."""
        try:
            self.validate(None)
        except ValueError:
            return False
        return True

    def read(self, value: Any) -> Any:
        """Return a value of its JSON form.

        Raises: ValueError when it does not fit.
        """
        return value if self.is_json or self._adapter is None else self._validated(self._adapter, value)

    def validate(self, value: Any) -> None:
        """Check a JSON form that no function has returned, also where the annotation names only JSON's own types.

        A value of those is handed over as it is, so it must be of the very type: "7" does not fit an int.

        Raises: ValueError when it does not fit.
        """
        if self.is_json and fits_plain_hint(value, self._hint):
            return  # without pydantic, whose import takes a fifth of the time to start a flow
        if self._adapter is not None:
            self._validated(self._adapter, value, is_strict=self.is_json)

    def fits_scalar(self, form: Any) -> bool:
        """Tell whether a JSON form fits where the annotation is one type of JSON without parts; any other is not read.

        It costs a look-up, so that it is affordable for every step.
        """
        return self._scalar is None or isinstance(form, self._scalar)

    @property
    def is_scalar(self) -> bool:
        """Whether it is one type of JSON without parts; see `fits_scalar`."""
        return self._scalar is not None

    @functools.cached_property
    def _scalar(self) -> type | tuple[type, ...] | None:
        """What fits an annotation that is one type of JSON without parts, as for a type checker."""
        is_hashable = self._hint is None or isinstance(self._hint, type)
        return _SCALARS.get(self._hint) if is_hashable else None

    def is_of_type(self, value: Any) -> bool:
        """Tell whether a Python value is what the annotation names, without any conversion.

        pydantic makes a model of a dict, strictly, too; so for this the annotation takes only instances of models.
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
        """Return the JSON form that pydantic gives a value by the annotation.

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
        """What reads a list of one such value: a list takes a configuration, a model or a dataclass does not."""
        from pydantic import ConfigDict, TypeAdapter

        config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
        try:
            if is_open(self._hint):
                return None
            adapter: TypeAdapter[list[Any]] = TypeAdapter(list_of(supported(self._hint)), config=config)
            if not adapter.pydantic_complete:
                adapter.rebuild(raise_errors=True, _types_namespace=dict(self._names))
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 (what pydantic cannot handle is as no annotation)
            self.unsupported = _first_line(error)
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


NONE = Annotation(Any, {})


class Annotations:
    """The annotations of a function: by parameter, and of its result."""

    def __init__(self, hints: Mapping[str, Any], names: Mapping[str, Any]) -> None:
        made = {name: Annotation(hint, names) for name, hint in hints.items()}
        self.result = made.pop("return", NONE)
        self.parameters = made


def annotations_of(fn: Callable[..., Any]) -> Annotations:
    """Return the annotations of a callable of any kind; what cannot be resolved is as if it was not annotated.

    They are cached on the function itself, so that the cache keeps nothing alive.
    """
    function, made = (fn, None) if type(fn) is types.FunctionType else _function_of(fn)
    if function is None:
        return Annotations({} if made is None else {"return": made}, {})
    known = function.__dict__.get(_CACHE)
    if known is not None and known[0]() is function and known[1] is made:  # a decorator may have copied the dict
        found: Annotations = known[2]
        return found
    names = _names_of(inspect.unwrap(function))
    hints = {name: _resolved(hint, names) for name, hint in _written_at(function).items()}
    hints["return"] = _awaited(hints.get("return", Any)) if made is None else made
    found = Annotations(hints, names)
    function.__dict__[_CACHE] = weakref.ref(function), made, found
    return found


def _function_of(fn: Any) -> tuple[types.FunctionType | None, type | None]:
    """Return the Python function behind a callable, and the class that a call makes an instance of."""
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
    """Return the names that annotations of a function may use: of its module, and of what it encloses."""
    names = dict(getattr(function, "__globals__", {}))
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False) if names else ()
    for name, cell in cells:
        try:
            names[name] = cell.cell_contents
        except ValueError:  # it is not assigned yet
            continue
    return names


def _written_at(function: types.FunctionType) -> Mapping[str, Any]:
    """Return the annotations of a function as they were written; evaluating them may fail from Python 3.14 on."""
    try:
        return function.__annotations__
    except Exception:  # noqa: BLE001 (it runs code of its author)
        return {}


def _resolved(hint: Any, names: dict[str, Any]) -> Any:
    """Return an annotation with its texts evaluated; Any for one that cannot be."""
    try:
        holder = types.SimpleNamespace(__annotations__={"it": hint})
        return typing.get_type_hints(holder, names, names, include_extras=True)["it"]
    except Exception:  # noqa: BLE001 (evaluating it runs code of its author)
        return Any


def _awaited(hint: Any) -> Any:
    """Return what a step gets that awaits what its function returns."""
    return get_args(hint)[-1] if get_origin(hint) in _AWAITED and get_args(hint) else hint


def _first_line(error: Exception) -> str:
    """Say in one line why pydantic does not know an annotation."""
    text = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
    return text[:_LONGEST_REASON] or type(error).__name__


def _reason(error: BaseException) -> str:
    """Say in one line why a value does not fit, without the value."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}"
    found = error.errors(include_url=False, include_context=False, include_input=False)
    said = [f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg']}".removeprefix(": ") for each in found[:3]]
    return "; ".join(said) + ("; …" if len(found) > len(said) else "")
