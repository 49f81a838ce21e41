"""Checks that a value survives storage as JSON, and describes why not."""

import dataclasses
from datetime import datetime, time
from itertools import islice
from typing import Any

from perdure.minds.flow.values.annotations import Annotation
from perdure.minds.flow.values.comparison import Difference, differences
from perdure.minds.flow.values.json_form import is_json, type_name

_JSON_KINDS = (str, int, float, bool, type(None), list, dict)
_MOST_COMPARED = 1000
_EXACT_TYPE = "annotate its exact type, or use a value that the annotation names"
_ZONES = "only a clock time and an offset in whole minutes are stored: use a time zone with such an offset"
_MEMBERS = 'give each class of the union a field that tells them apart, such as kind: Literal["a"]'
_AGAIN = (
    "its class makes another value when it is created from its own fields: make __post_init__ and validators stable"
)
_CLASSES = "annotate the exact class, a dataclass or a pydantic model whose fields pydantic supports"


def change_of(annotation: Annotation, given: Any, read: Any) -> str | None:
    """Describe how a value changes when it is stored and read; None if it does not.

    JSON for another type is parsed by the annotation, for example a text for a Path. That does not count as a change,
    unless the annotation also allows the type of the JSON. If an annotation does not specify any type, and JSON has no
    type for the value, its JSON form is its value.
    """
    if annotation.converts:
        return _change_by_reading(annotation, given, read)
    if annotation.has_unspecified_type or not annotation.is_type or is_json(given):
        return None
    is_exact = annotation.is_class and not annotation.is_json
    found = next(differences(given, read, is_exact=is_exact), None)
    return None if found is None else _described(found, annotation)


def is_parsed(annotation: Annotation, given: Any) -> bool:
    """Return whether a value is JSON that its annotation converts to another type."""
    return type(given) in _JSON_KINDS and not annotation.accepts_unconverted(given)


def does_not_fit(annotation: Annotation, given: Any, error: Exception) -> str:
    """Describe that an annotation cannot read a returned value."""
    return f"{_a(given)} that its annotation {annotation.name} cannot read ({error}): {_EXACT_TYPE}"


def _change_by_reading(annotation: Annotation, given: Any, read: Any) -> str | None:
    found = list(islice(differences(given, read, is_exact=annotation.has_unspecified_type), _MOST_COMPARED))
    if not found or (all(map(_is_of_json, found)) and not annotation.accepts_unconverted(given)):
        return None
    return _described(found[0], annotation)


def _is_of_json(found: Difference) -> bool:
    """Return whether a difference is the conversion of JSON to another type."""
    return type(found.given) in _JSON_KINDS and not isinstance(found.read, type(found.given))


def _described(found: Difference, annotation: Annotation) -> str:
    where = f" (at {found.place})" if found.place else ""
    become = "another value" if type(found.given) is type(found.read) else _a(found.read)
    return (
        f"{_a(found.given)}{where} that would come back from the annotation {annotation.name} as {become}:"
        f" {_what_to_do(found, annotation)}"
    )


def _what_to_do(found: Difference, annotation: Annotation) -> str:
    given, read = found.given, found.read
    if isinstance(given, datetime | time) and isinstance(read, datetime | time):
        return _ZONES
    if isinstance(given, dict) and isinstance(read, dict) and (lost := [key for key in given if key not in read]):
        return f"the annotation has no key {lost[0]!r}; add it"
    if not annotation.converts and not annotation.is_json:
        return f"pydantic does not support that annotation ({annotation.unusable_reason}); {_CLASSES}"
    if _is_record(given) and _is_record(read):
        return _MEMBERS if not isinstance(given, type(read)) else _EXACT_TYPE
    return _AGAIN if type(given) is type(read) and found.place else _EXACT_TYPE


def _is_record(value: Any) -> bool:
    return dataclasses.is_dataclass(value) or hasattr(type(value), "model_fields")


def _a(value: Any) -> str:
    return f"a value of type {type_name(value)}"
