"""Python values as JSON and back: what a step is given and what it returns."""

import dataclasses
import functools
import hashlib
import inspect
import math
import typing
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from perdure.errors import Invalid

_DIGEST_BYTES = 12
_DEPTH_OF_EVENT = 8
"""A value is tried inside so many lists, because it must still be JSON inside an event."""


def to_json(value: Any, what: str) -> Any:
    """Return a value as JSON has it: a dataclass or a pydantic model is an object, a tuple is a list.

    Raises: Invalid, saying what it was, when it does not go through JSON.
    """
    try:
        text = orjson.dumps([[[[[[[[value]]]]]]]], default=_plain, option=orjson.OPT_PASSTHROUGH_SUBCLASS)
        again = orjson.loads(text[_DEPTH_OF_EVENT:-_DEPTH_OF_EVENT])
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{what} does not go through JSON: {error}.") from error
    if has_odd_number(value):
        raise Invalid(f"{what} does not go through JSON: NaN and infinity are no numbers there.")
    return again


def arguments_to_json(
    called: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, is_given_goal: bool = False
) -> dict[str, Any]:
    """Return the arguments of a function as JSON has them; with `is_given_goal`, its first parameter is not theirs.

    Raises: Invalid, naming the argument that does not go through JSON.
    """
    try:
        what = f"An argument of {called}"
        return {"args": to_json(list(args), what), "kwargs": to_json(kwargs, what)}
    except Invalid:
        named = {**_by_name(fn, args, int(is_given_goal)), **kwargs}
        for name, value in named.items():
            to_json(value, f"The argument {name} of {called}")
        raise


def _by_name(fn: Callable[..., Any], args: Sequence[Any], skipped: int) -> dict[str, Any]:
    """Return positional arguments under the names of their parameters, or under their numbers."""
    try:
        parameters = [*inspect.signature(fn).parameters.values()][skipped:]
    except (TypeError, ValueError):  # a function of C may have none
        parameters = []
    is_single = [each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters]
    names = [each.name for each, single in zip(parameters, is_single, strict=True) if single]
    return {names[at] if at < len(names) else f"number {at + 1}": value for at, value in enumerate(args)}


def has_odd_number(value: Any) -> bool:
    """Tell whether a value holds a number that JSON does not know, which orjson would turn into null."""
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(has_odd_number(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(has_odd_number(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(has_odd_number(getattr(value, field.name)) for field in dataclasses.fields(value))
    return has_odd_number(value.model_dump()) if hasattr(value, "model_dump") else False


def digest(value: Any) -> str:
    """Return a short hash of a JSON value: enough to notice that it is another, not to prove it to an enemy."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).digest()[:_DIGEST_BYTES].hex()


def read_arguments(fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a flow as it gets them: a dataclass or model where an annotation names one, else JSON.

    Raises: Invalid when they do not fit.
    """
    signature = inspect.signature(fn)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise Invalid(f"{fn.__qualname__} cannot be called like that: {error}.") from None
    for name, read in _argument_readers(fn).items():
        if name not in bound.arguments:
            continue
        value = bound.arguments[name]
        try:
            match signature.parameters[name].kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    bound.arguments[name] = tuple(read(each) for each in value)
                case inspect.Parameter.VAR_KEYWORD:
                    bound.arguments[name] = {key: read(each) for key, each in value.items()}
                case _:
                    bound.arguments[name] = read(value)
        except ValueError as error:
            said = " ".join(str(error).split())
            raise Invalid(f"{fn.__qualname__} cannot be called like that: {name} does not fit. {said}") from error
    return list(bound.args[1:]), bound.kwargs


@functools.lru_cache(maxsize=1024)
def _argument_readers(fn: Callable[..., Any]) -> dict[str, Callable[[Any], Any]]:
    hints = _hints(fn)
    names = [name for name in list(inspect.signature(fn).parameters)[1:] if _names_model(hints.get(name))]
    return {name: _reader(hints[name]) for name in names}


@functools.lru_cache(maxsize=1024)
def reader_of(fn: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes a function's result of its JSON: what the return annotation names, else the JSON itself."""
    hint = _hints(fn).get("return")
    return _reader(hint) if _names_model(hint) else lambda value: value


def _hints(fn: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(fn)
    except (NameError, TypeError):
        return {}


def _reader(hint: Any) -> Callable[[Any], Any]:
    from pydantic import TypeAdapter

    adapter: TypeAdapter[Any] = TypeAdapter(typing.cast("type[Any]", hint))
    return lambda value: adapter.validate_json(orjson.dumps(value))


def _names_model(hint: Any) -> bool:
    """Tell whether an annotation names a dataclass or a pydantic model, itself or inside a list, dict or union."""
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or hasattr(hint, "model_validate")):
        return True
    return any(_names_model(part) for part in typing.get_args(hint))


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump") and not inspect.isclass(value):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} is not JSON")
