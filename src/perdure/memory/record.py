"""A record: its keys, and how their values become JSON."""

import math
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import PurePath
from typing import Any, TypedDict
from uuid import UUID

import orjson

from perdure.errors import Invalid
from perdure.text.storable import require_storable

SCHEMA_VERSION = 1
LARGEST_BYTES = 1 << 20
"""Maximum size of a record as JSON."""
LOG_KEYS = ("_t", "_c")
"""Keys that the log adds at the end of a line: the arrival time, and the checksum of all earlier bytes of the line."""
TOMBSTONE = "_tombstone"
_SHOWN = 200
_CONTROLS = ("Cc", "Zl", "Zp")
"""Categories of Unicode: controls, and separators of lines and paragraphs."""

JsonObject = dict[str, Any]


class MemoryRecord(TypedDict, total=False):
    """A record of the memory. `add` requires `type` and fills in `id` and `timestamp`."""

    id: str
    type: str
    timestamp: str
    repo: str
    sha: str
    pr_number: int
    source: str
    severity: str
    fingerprint: str
    title: str
    summary: str
    paths: list[str]
    links: list[dict[str, Any]]
    metadata: dict[str, Any]
    key: str
    supersedes: list[str]
    v: int


def plain(record: Mapping[str, Any], *, is_lenient: bool = False) -> JsonObject:
    """Return a record as JSON values: dates, UUIDs and paths become text.

    With `is_lenient`, any other object becomes its text (`str`).

    Raises: Invalid, naming the place, for a value that JSON does not have: NaN, a lone surrogate, a key that is not
    text, an object.
    """
    if not isinstance(record, Mapping):
        raise Invalid(f"A record must be an object, not {type(record).__name__}.")
    for key in LOG_KEYS:
        if key in record:
            raise Invalid(f"A record cannot have {key!r}: that key is written by the log itself.")
    try:
        as_text = _any_as_text if is_lenient else _as_text
        return {_key(key, ""): _plain(value, _key(key, ""), as_text) for key, value in record.items()}
    except RecursionError:
        raise Invalid("A record is nested too deeply.") from None


def shown(name: str) -> str:
    """Return an id for a message: quoted, and shortened if it is very long."""
    return repr(name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…")


def is_printable(name: str) -> bool:
    """Return whether an id has no tab, line end or other control character, so that it fits in a table and a URL."""
    return not any(unicodedata.category(each) in _CONTROLS for each in name)


def require_printable(name: str, key: str = "id") -> str:
    """Return an id.

    Raises: Invalid when it has a control character.
    """
    if not is_printable(name):
        raise Invalid(f"{key} is {shown(name)}, which contains a control character. Use printable ones.")
    return name


def encoded(record: JsonObject) -> bytes:
    """Return a record of JSON values as one line of JSON, without its line end.

    Raises: Invalid when it is over 1 MiB or nested too deeply.
    """
    try:
        text = orjson.dumps(record)
    except (TypeError, ValueError) as error:
        raise Invalid(f"A record cannot be written as JSON: {error}.") from error
    if len(text) > LARGEST_BYTES:
        raise Invalid(f"A record has {len(text):,} bytes of JSON; the maximum is {LARGEST_BYTES:,}. Link to the rest.")
    return text


def _plain(value: Any, where: str, as_text: Callable[[Any, str], str]) -> Any:
    match value:
        case None | bool():
            return value
        case list() | tuple():
            return [_plain(each, f"{where}[{number}]", as_text) for number, each in enumerate(value)]
        case dict():
            return {_key(key, where): _plain(each, f"{where}.{key}", as_text) for key, each in value.items()}
        case int() | float():
            return _number(value, where)
        case _:
            return _text(as_text(value, where), where)


def _as_text(value: Any, where: str) -> str:
    match value:
        case str():
            return str(value)
        case date():
            return value.isoformat()
        case UUID() | PurePath():
            return str(value)
        case _:
            raise Invalid(f"{where} has the type {type(value).__name__}, which JSON does not have.")


def _any_as_text(value: Any, where: str) -> str:
    try:
        return _as_text(value, where) if isinstance(value, date) else str(value)
    except Exception as error:
        raise Invalid(f"{where} has the type {type(value).__name__}, whose str() failed: {error!r}.") from error


def _number(value: int | float, where: str) -> int | float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Invalid(f"{where} is {value}, which JSON does not have.")
        return float(value)
    if not -(1 << 63) <= value < 1 << 64:
        raise Invalid(f"{where} is an integer of more than 64 bits; write it as text.")
    return int(value)


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise Invalid(f"A key in {where or 'the record'} is {key!r}, which is not text.")
    return _text(key, f"a key in {where or 'the record'}")


def _text(value: str, where: str) -> str:
    return str(require_storable(value, where, allows_nul=True))
