"""Python values as JSON and back: what a step or a flow is given, and what it returns."""

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import orjson

from perdure.errors import Invalid
from perdure.minds.flow.values.annotations import NONE, Annotation, annotations_of
from perdure.minds.flow.values.changes import change_of, does_not_fit, is_parsed
from perdure.minds.flow.values.comparison import is_same
from perdure.minds.flow.values.json_form import ANNOTATED, BARE, NoJsonForm, UnknownType, is_json, json_form

_DIGEST_BYTES = 12
_DEPTH_OF_EVENT = 8
"""A value is encoded inside this many lists as a test, because it must still be JSON inside an event."""
_MOST_SHALLOW = 400
"""A text of this size cannot be nested too deep: orjson allows 254 levels, and each of them takes two bytes."""


def to_json(value: Any, what: str) -> Any:
    """Return the JSON form of a value by its own type: a dataclass is an object, a set a sorted list, bytes base64.

    Raises: Invalid, naming the type that has none.
    """
    return _stored(value, NONE, what)


def arguments_to_json(
    called: str, fn: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, is_given_goal: bool = False
) -> dict[str, Any]:
    """Return the arguments of a function as JSON has them; with `is_given_goal`, its first parameter is not theirs.

    Raises: Invalid, naming the argument that has no JSON form, and its type.
    """
    given = {"args": [*args], "kwargs": kwargs}
    if is_json(given["args"]) and is_json(kwargs):
        kept: dict[str, Any] = _copied(given, f"An argument of {called}", _DEPTH_OF_EVENT - 1)
        return kept
    names = _names(fn, int(is_given_goal))
    known = annotations_of(fn).parameters

    def stored(value: Any, parameter: str | None, shown: str) -> Any:
        return _stored(value, known.get(parameter or "", NONE), f"The argument {shown} of {called}")

    positional = [
        stored(value, names.at(place), names.positional.get(place, f"number {place + 1}"))
        for place, value in enumerate(args)
    ]
    named = {name: stored(value, name if name in known else names.others, name) for name, value in kwargs.items()}
    return {"args": positional, "kwargs": named}


def result_to_json(fn: Callable[..., Any], value: Any, what: str) -> Any:
    """Return the JSON form of what a function returned, which its return annotation reads as an equal value.

    Raises: Invalid, naming the type, when there is none.
    """
    annotation = annotations_of(fn).result
    form = _stored(value, annotation, what, is_read=True)
    if not annotation.fits_scalar(form):
        raise Invalid(f"{what} does not fit its return annotation {annotation.name}: it is {type(value).__name__}.")
    return form


def flow_result_to_json(fn: Callable[..., Any], value: Any, what: str) -> Any:
    """Return the JSON form of the result of a flow, which fits the return annotation.

    A step whose result does not fit is recorded, and its flow gets the error. Nothing would report that of a flow.

    Raises: Invalid, naming the type, when there is none, or it does not fit.
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
    """Return the JSON form of a value that a check gives for the result of a function. See `result_to_json`.

    Raises: Invalid, also when it does not fit the return annotation: the check is wrong, and the step has happened.
    """
    form = result_to_json(fn, value, what)
    try:
        require_result(fn, form)
    except ValueError as error:
        raise Invalid(f"{what} does not fit what the step returns: {error}.") from error
    return form


def read_arguments(fn: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a flow as it gets them: what its annotations say, else the JSON form.

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
    """Check that a flow gets its arguments as they were given, once they are read from their JSON form.

    Raises: Invalid, naming the argument that does not fit, or that comes back as another value.
    """
    read_args, read_kwargs = read_arguments(fn, given["args"], given["kwargs"])
    bound = inspect.signature(fn).bind(None, *args, **kwargs)
    read = inspect.signature(fn).bind(None, *read_args, **read_kwargs)
    known = annotations_of(fn).parameters
    for name, value in list(bound.arguments.items())[1:]:
        annotation, parameter = known.get(name, NONE), bound.signature.parameters[name]
        for each, found in _single(parameter, value, read.arguments.get(name)):
            if annotation.is_json:
                _require_fitting(annotation, found, fn, name)
            if (changed := change_of(annotation, each, found)) is not None:
                raise Invalid(f"The argument {name} of {fn.__qualname__} is {changed}.")


def reader_of(fn: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return what makes a function's result of its JSON form: as the return annotation says, else the JSON form.

    Nothing is always None: a step that was skipped, or whose check says that it happened, has no value.
    The reader raises: ValueError, which says what to do, when the value does not fit.
    """
    annotation = annotations_of(fn).result
    return _as_it_is if annotation.is_json else partial(_read_result, annotation)


def _as_it_is(value: Any) -> Any:
    return value


def _read_result(annotation: Annotation, value: Any) -> Any:
    try:
        return None if value is None else annotation.read(value)
    except ValueError as error:
        what = f"the recorded value does not fit the annotation {annotation.name}: {error}"
        raise ValueError(f"{what}. The value is kept: correct the annotation") from error


def require_result(fn: Callable[..., Any], value: Any) -> None:
    """Check a value that a person has given in place of a function's result; None means without one.

    Raises: ValueError when it does not fit the return annotation.
    """
    if value is not None:
        annotations_of(fn).result.validate(value)


def needs_result(fn: Callable[..., Any]) -> bool:
    """Tell whether the return annotation of a function does not accept None."""
    return not annotations_of(fn).result.accepts_none


def digest(value: Any) -> str:
    """Return a short hash of a JSON value: enough to notice that it is another, not to prove it to an enemy."""
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
        raise Invalid(f"{what} cannot be stored as JSON: {error}.") from error


def _form(value: Any, annotation: Annotation, *, is_read: bool) -> Any:
    """Return a value by its own type, or, where that has no form that can be read, as the annotation writes it.

    Raises: NoJsonForm; RecursionError
    """
    if not annotation.is_usable:
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
        if not is_read or is_same(value, annotation.read(form), is_exact=annotation.leaves_open):
            return form
    except ValueError:
        raise found from None
    raise found


def _unread(value: Any, annotation: Annotation, *, is_read: bool) -> Any:
    """Return the JSON form of a value that is not read by its annotation.

    Raises: NoJsonForm; RecursionError
    """
    form = json_form(value, BARE)
    changed = change_of(annotation, value, form) if is_read else None
    if changed is not None:
        raise NoJsonForm(changed)
    return form


def _read_back(annotation: Annotation, value: Any, form: Any) -> str | None:
    """Read a value from its JSON form; return what is wrong when it is not the value that it was."""
    try:
        read = None if form is None else annotation.read(form)
    except ValueError as error:
        # JSON that does not fit is kept: reading it says so, and the annotation can be corrected.
        return None if is_parsed(annotation, value) else does_not_fit(annotation, value, error)
    return change_of(annotation, value, read)


def _single(parameter: inspect.Parameter, value: Any, read: Any) -> Iterable[tuple[Any, Any]]:
    """Return an argument as it was given and as it is read, or each of those that `*args` or `**kwargs` takes."""
    match parameter.kind:
        case inspect.Parameter.VAR_POSITIONAL:
            return zip(value, read, strict=True)
        case inspect.Parameter.VAR_KEYWORD:
            return ((each, read[key]) for key, each in value.items())
        case _:
            return ((value, read),)


def _require_fitting(annotation: Annotation, form: Any, fn: Callable[..., Any], name: str) -> None:
    """Check a value where the annotation names a type of JSON, so that it is not read but handed over as it is."""
    try:
        annotation.validate(form)
    except ValueError as error:
        raise Invalid(f"{fn.__qualname__} cannot be called like that: {name} does not fit. {error}") from error


def _each(parameter: inspect.Parameter, read: Callable[[Any], Any], value: Any) -> Any:
    """Read an argument, or each of those that `*args` or `**kwargs` takes."""
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
    """The parameters that arguments go to."""

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
