"""Converts arguments and results of steps and flows to JSON and back."""

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from perdure.errors import Invalid
from perdure.minds.flow.values.annotations import UNANNOTATED, Annotation, annotations_of
from perdure.minds.flow.values.changes import change_of, does_not_fit, is_parsed
from perdure.minds.flow.values.comparison import is_same
from perdure.minds.flow.values.json_form import ANNOTATED, BARE, NoJsonForm, UnknownType, is_json, json_form

_DIGEST_BYTES = 12
_DEPTH_OF_EVENT = 8
"""The depth at which a value is nested in an event: it must still be valid JSON there."""
_MOST_SHALLOW = 400
"""A JSON text up to this size cannot be nested too deep: orjson allows 254 levels of two bytes each."""
_LONGEST_NAME = 200
"""The length of type names in messages."""


def to_json(value: Any, what: str) -> Any:
    """Return the JSON form of a value by its own type: a dataclass is an object, a set a sorted list, bytes base64.

    Raises: Invalid, with the type that has no JSON form.
    """
    return _stored(value, UNANNOTATED, what)


def arguments_to_json(
    called: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, is_given_goal: bool = False
) -> dict[str, Any]:
    """Return the JSON form of the arguments of a function; with `is_given_goal`, its first parameter is the goal.

    Raises: Invalid, with the argument that has no JSON form, and its type.
    """
    given = {"args": [*args], "kwargs": kwargs}
    if is_json(given["args"]) and is_json(kwargs):
        kept: dict[str, Any] = _copied(given, f"An argument of {called}", _DEPTH_OF_EVENT - 1)
        return kept
    names = _names(fn, int(is_given_goal))
    known = annotations_of(fn).parameters

    def stored(value: Any, parameter: str | None, shown: str) -> Any:
        return _stored(value, known.get(parameter or "", UNANNOTATED), f"The argument {shown} of {called}")

    positional = [
        stored(value, names.at(place), names.positional.get(place, f"number {place + 1}"))
        for place, value in enumerate(args)
    ]
    named = {name: stored(value, name if name in known else names.others, name) for name, value in kwargs.items()}
    return {"args": positional, "kwargs": named}


def result_to_json(fn: Callable[..., Any], value: Any, what: str) -> Any:
    """Return the JSON form of a result, which the return annotation reads back as an equal value.

    Raises: Invalid, with the type, when there is no such form.
    """
    annotation = annotations_of(fn).result
    form = _stored(value, annotation, what, is_read=True)
    if not annotation.fits_scalar(form):
        raise Invalid(f"{what} does not fit its return annotation {annotation.name}: it is {type(value).__name__}.")
    return form


def flow_result_to_json(fn: Callable[..., Any], value: Any, what: str) -> Any:
    """Return the JSON form of the result of a flow, which fits the return annotation.

    A result of a step that does not fit is recorded, and the flow receives the error when it reads the result. A flow
    has no such reader, so its result is checked here.

    Raises: Invalid, with the type, when there is no such form, or it does not fit.
    """
    form = result_to_json(fn, value, what)
    annotation = annotations_of(fn).result
    try:
        if not annotation.is_scalar:
            annotation.validate(form)
    except ValueError as error:
        raise Invalid(f"{what} does not fit its return annotation {annotation.name}: {error}.") from error
    return form


def known_result_to_json(fn: Callable[..., Any], value: Any, what: str) -> Any:
    """Return the JSON form of a result that a check returns for a function. See `result_to_json`.

    Raises: Invalid, also when it does not fit the return annotation.
    """
    form = result_to_json(fn, value, what)
    try:
        require_result(fn, form)
    except ValueError as error:
        raise Invalid(f"{what} does not fit the return type of the step: {error}.") from error
    return form


def read_arguments(fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a flow, converted by its annotations.

    Raises: Invalid when they do not fit.
    """
    signature = inspect.signature(fn)
    try:
        bound = signature.bind(None, *args, **kwargs)
    except TypeError as error:
        raise Invalid(f"{fn.__qualname__} cannot be called like that: {error}.") from None
    known = annotations_of(fn).parameters
    for name in [name for name in list(bound.arguments)[1:] if name in known]:
        try:
            bound.arguments[name] = _each(signature.parameters[name], known[name].read, bound.arguments[name])
        except ValueError as error:
            raise Invalid(f"{fn.__qualname__} cannot be called like that: {name} does not fit. {error}") from error
    return list(bound.args[1:]), bound.kwargs


def require_readable(
    fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Check that the arguments of a flow are unchanged after they are stored as JSON and read back.

    Raises: Invalid, with the argument that does not fit or changes.
    """
    read_args, read_kwargs = read_arguments(fn, given["args"], given["kwargs"])
    bound = inspect.signature(fn).bind(None, *args, **kwargs)
    read = inspect.signature(fn).bind(None, *read_args, **read_kwargs)
    known = annotations_of(fn).parameters
    for name, value in list(bound.arguments.items())[1:]:
        annotation, parameter = known.get(name, UNANNOTATED), bound.signature.parameters[name]
        for each, found in _single(parameter, value, read.arguments.get(name)):
            if annotation.is_json:
                _require_fitting(annotation, found, fn, name)
            if (changed := change_of(annotation, each, found)) is not None:
                raise Invalid(f"The argument {name} of {fn.__qualname__} is {changed}.")


def reader_of(fn: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return a function that converts the JSON form of a result by the return annotation.

    None stays None: a step that was skipped, or whose check says that it happened, has no result.
    The reader raises: ValueError, with a remedy, when the value does not fit.
    """
    annotation = annotations_of(fn).result
    return _unchanged if annotation.is_json else partial(_read_result, annotation)


def _unchanged(value: Any) -> Any:
    return value


def _read_result(annotation: Annotation, value: Any) -> Any:
    try:
        return None if value is None else annotation.read(value)
    except ValueError as error:
        what = f"the recorded value does not fit the annotation {annotation.name}: {error}"
        raise ValueError(f"{what}. The value is still stored: correct the annotation") from error


def require_result(fn: Callable[..., Any], value: Any) -> None:
    """Check a result that a person entered for a function; None for no result.

    Raises: ValueError when it does not fit the return annotation.
    """
    if value is not None:
        annotations_of(fn).result.validate(value)


def needs_result(fn: Callable[..., Any]) -> bool:
    """Return whether the return annotation of a function does not accept None."""
    return not annotations_of(fn).result.accepts_none


def needed_result(fn: Callable[..., Any]) -> str | None:
    """Return the return annotation of a function as text; None if it accepts None."""
    return annotations_of(fn).result.name[:_LONGEST_NAME] if needs_result(fn) else None


def digest(value: Any) -> str:
    """Return a short hash of a JSON value, to detect changes; it does not resist an attacker."""
    text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).digest()[:_DIGEST_BYTES].hex()


def _stored(value: Any, annotation: Annotation, what: str, *, is_read: bool = False) -> Any:
    """Return the JSON form of a value; with `is_read`, one that the annotation reads as an equal value."""
    if is_json(value) and annotation.is_json:
        return _copied(value, what)
    try:
        return _copied(_form(value, annotation, is_read=is_read), what)
    except RecursionError:
        raise Invalid(f"{what} cannot be stored as JSON: it contains itself, or is nested too deep.") from None
    except NoJsonForm as error:
        raise Invalid(f"{what} cannot be stored as JSON: {error}.") from error.__cause__


def _form(value: Any, annotation: Annotation, *, is_read: bool) -> Any:
    """Return the JSON form of a value by its own type, or by the annotation if that form cannot be read back.

    Raises: NoJsonForm; RecursionError
    """
    if not annotation.converts:
        return _unread(value, annotation, is_read=is_read)
    try:
        form = json_form(value, ANNOTATED)
        changed = _read_back(annotation, value, form) if is_read else None
        if changed is None:
            return form
        found = NoJsonForm(changed)
    except UnknownType as error:
        found = error
    try:
        form = json_form(annotation.dump(value), BARE)
        if not is_read or is_same(value, annotation.read(form), is_exact=annotation.has_unspecified_type):
            return form
    except ValueError:
        raise found from None
    raise found


def _unread(value: Any, annotation: Annotation, *, is_read: bool) -> Any:
    """Return the JSON form of a value whose annotation does not convert it.

    Raises: NoJsonForm; RecursionError
    """
    form = json_form(value, BARE)
    changed = change_of(annotation, value, form) if is_read else None
    if changed is not None:
        raise NoJsonForm(changed)
    return form


def _read_back(annotation: Annotation, value: Any, form: Any) -> str | None:
    """Read a value back from its JSON form; describe the change if it is not the same."""
    try:
        read = None if form is None else annotation.read(form)
    except ValueError as error:
        # JSON that does not fit is stored: reading it reports the error, and the annotation can be corrected.
        return None if is_parsed(annotation, value) else does_not_fit(annotation, value, error)
    return change_of(annotation, value, read)


def _single(parameter: inspect.Parameter, value: Any, read: Any) -> Iterable[tuple[Any, Any]]:
    """Return an argument with its value read back; for `*args` and `**kwargs`, one pair for each item."""
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL:
            return zip(value, read, strict=True)
        case inspect.Parameter.VAR_KEYWORD:
            return ((each, read[key]) for key, each in value.items())
        case _:
            return ((value, read),)


def _require_fitting(annotation: Annotation, form: Any, fn: Callable[..., Any], name: str) -> None:
    """Check an argument with an annotation of JSON types, which is passed unchanged."""
    try:
        annotation.validate(form)
    except ValueError as error:
        raise Invalid(f"{fn.__qualname__} cannot be called like that: {name} does not fit. {error}") from error


def _each(parameter: inspect.Parameter, read: Callable[[Any], Any], value: Any) -> Any:
    """Convert an argument, or each item of `*args` or `**kwargs`."""
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL:
            return tuple(read(each) for each in value)
        case inspect.Parameter.VAR_KEYWORD:
            return {key: read(each) for key, each in value.items()}
        case _:
            return read(value)


def _inside_lists(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = [value]
    return value


def _copied(value: Any, what: str, depth: int = _DEPTH_OF_EVENT) -> Any:
    """Return a copy of a JSON value.

    Raises: Invalid for a number over 64 bits, half a surrogate pair, or a value that is nested too deep for an event.
    """
    try:
        text = orjson.dumps(value)
        if len(text) > _MOST_SHALLOW:
            orjson.dumps(_inside_lists(value, depth))
        return orjson.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(f"{what} cannot be stored as JSON: {error}.") from error


@dataclasses.dataclass(frozen=True)
class _Names:
    """The parameters of a function, for names in messages and annotations."""

    positional: dict[int, str]
    rest: str | None
    """The parameter that takes all further positional arguments."""
    others: str | None
    """The parameter that takes all further named arguments."""

    def at(self, place: int) -> str | None:
        """Return the parameter of a positional argument."""
        return self.positional.get(place, self.rest)


def _names(fn: Callable[..., Any], skipped: int) -> _Names:
    try:
        parameters = [*inspect.signature(fn).parameters.values()][skipped:]
    except (TypeError, ValueError):  # a function of C may have none
        parameters = []
    single = [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    by_kind = {each.kind: each.name for each in parameters}
    rest, others = by_kind.get(inspect.Parameter.VAR_POSITIONAL), by_kind.get(inspect.Parameter.VAR_KEYWORD)
    return _Names(dict(enumerate(single)), rest, others)
