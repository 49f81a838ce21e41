"""Normalises records: the one form in which they are compared, sorted and found."""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

import orjson
from uuid_utils import uuid7

from perdure.errors import Invalid
from perdure.memory.record import JsonObject, plain, require_printable

SEVERITIES: Final = ("critical", "high", "medium", "low", "unknown")
"""Most severe first."""
INGESTED_TYPES: Final = (
    *("incident", "governor_hold", "deploy_failure", "security_block", "verifier_cluster", "revert", "goal_outcome"),
)
"""Types that tools report; all others are written by people and agents."""
KNOWN_TYPES: Final = (*INGESTED_TYPES, "lesson", "decision", "preference", "fact")
LONGEST_ID = 200
_WITHOUT_CONTENT = ("id", "type", "timestamp", "repo", "source", "severity", "key", "supersedes", "metadata", "v")
"""Keys without content: a record with only these is empty."""

_SEVERITY_ALIASES = {
    "fatal": "critical",
    "error": "high",
    "warning": "medium",
    "warn": "medium",
    "info": "low",
    "debug": "low",
}
_WORD = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_DIGITS = 19
"""A longer number does not fit into 63 bits."""
_SECONDS = re.compile(r"-?\d{9,}(\.\d+)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_MS = 24 * 60 * 60 * 1000
_IN_MILLISECONDS = 100_000_000_000
"""A moment above this is counted in milliseconds: in seconds it would be the year 5138."""


def normalised(record: Mapping[str, Any], now_ms: int, *, is_foreign: bool = False) -> JsonObject:
    """Return a record in its stored form, with an id and a timestamp.

    A foreign record, which is imported or already stored, may be empty and may have an unknown severity.

    Raises: Invalid, naming the key, for a value that is not valid there, and for an empty record.
    """
    if not isinstance(record, Mapping):
        raise Invalid(f"A record must be an object, not {type(record).__name__}.")
    given = {key: value for key, value in record.items() if value is not None}
    if isinstance(given.get("timestamp"), date):
        given["timestamp"] = moment(given["timestamp"])
    values = plain(given)
    values.setdefault("id", str(uuid7()))
    values.setdefault("timestamp", now_ms)
    if "type" not in values:
        raise Invalid(f"A record needs a type: {', '.join(KNOWN_TYPES)}, or another lower-case word.")
    if not is_foreign and "severity" in values:
        _require_severity(values["severity"])
    for key, read in _FORMS.items():
        if key in values:
            values[key] = read(values[key], key)
    stored = {key: value for key, value in values.items() if value not in ("", [])}
    if not is_foreign and _is_empty(stored):
        raise Invalid("A record needs content: give a title, a summary, paths, a fingerprint, a commit or a link.")
    return stored


def severity(value: Any) -> str:
    """Return one of the five severities; `unknown` for any other value."""
    text = str(value).strip().lower()
    return text if text in SEVERITIES else _SEVERITY_ALIASES.get(text, "unknown")


def _require_severity(value: Any) -> None:
    if not isinstance(value, str) or value.strip().lower() not in (*SEVERITIES, *_SEVERITY_ALIASES):
        known = f"{', '.join(SEVERITIES)}; {', '.join(_SEVERITY_ALIASES)} are accepted too"
        raise Invalid(f"severity is {repr(value)[:80]}; expected one of {known}.")


def _is_empty(record: JsonObject) -> bool:
    """Return whether a record has no content."""
    metadata = {key: value for key, value in record.get("metadata", {}).items() if key != "pinned"}
    return not metadata and not any(key not in _WITHOUT_CONTENT for key in record)


def moment(value: Any) -> str:
    """Return a time as ISO-8601 in UTC with milliseconds; a naive one counts as UTC.

    Raises: Invalid
    """
    return _utc(value).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_ms(value: Any) -> int | None:
    """Return a time as milliseconds since 1970; None when the value is not a time."""
    try:
        if type(value) is str and value[-1:] == "Z":  # the stored form, which is the most frequent one
            return _since_1970(datetime.fromisoformat(value))
    except ValueError:
        return None
    try:
        return _since_1970(_utc(value))
    except Invalid:
        return None


def _since_1970(value: datetime) -> int:
    passed = value - _EPOCH
    return passed.days * _DAY_MS + passed.seconds * 1000 + passed.microseconds // 1000


def _utc(value: Any) -> datetime:
    try:
        time = _datetime(value)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError, OSError, TypeError):
        raise Invalid(f"timestamp is {value!r}; expected ISO-8601, or seconds since 1970.") from None


def repository_path(value: str, key: str = "paths") -> str:
    """Return a path relative to its repository.

    Raises: Invalid when it leads out of the repository.
    """
    parts = [part for part in value.strip().replace("\\", "/").split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Invalid(f"{key} has {value!r}, which leads out of the repository.")
    return "/".join(parts)


def paths_inside(values: Iterable[str]) -> list[str]:
    """Return those of the paths that lie within their repository."""
    return [value for value in values if ".." not in value.replace("\\", "/").split("/")]


def fingerprint(value: Any, key: str = "fingerprint") -> str:
    """Return a fingerprint as one text; different lists of parts give different texts.

    Raises: Invalid
    """
    if isinstance(value, str):
        return str(value).strip()
    parts = list(value) if isinstance(value, list | tuple) else [value]
    if not all(isinstance(part, str | int) and not isinstance(part, bool) for part in parts):
        raise Invalid(f"{key} must be text or a list of texts.")
    texts = [str(part).strip() for part in parts]
    if len(texts) == 1:
        return texts[0]
    return orjson.dumps(texts).decode() if texts else ""


def _datetime(value: Any) -> datetime:
    match value:
        case datetime():
            return value
        case date():
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        case bool():
            raise TypeError
        case int() | float():
            return datetime.fromtimestamp(value / 1000 if abs(value) > _IN_MILLISECONDS else value, UTC)
        case str():
            return _from_text(value.strip())
        case _:
            raise TypeError


def _from_text(text: str) -> datetime:
    if _SECONDS.fullmatch(text):
        return _datetime(float(text))
    return datetime.fromisoformat(text)


def _id(value: Any, key: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_ID:
        raise Invalid(f"{key} must be text of 1 to {LONGEST_ID} characters.")
    return require_printable(value, key)


def _ids(value: Any, key: str) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise Invalid(f"{key} must be a list of ids.")
    return [_id(each, key) for each in listed]


def _type(value: Any, key: str) -> str:
    if not isinstance(value, str) or not _WORD.fullmatch(value):
        raise Invalid(f"{key} is {repr(value)[:80]}; expected a lower-case word such as {', '.join(KNOWN_TYPES[:3])}.")
    return value


def type_of(value: Any) -> str:
    """Return the type to filter by; an empty text for None.

    Raises: Invalid when it is not a valid type.
    """
    return "" if value is None else _type(value, "type")


def _text(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise Invalid(f"{key} must be text, not {type(value).__name__}.")
    return value.strip()


def _number(value: Any, key: str) -> int:
    digits = value.strip().lstrip("#") if isinstance(value, str) else ""
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        value = int(digits)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise Invalid(f"{key} is {str(value)[:40]!r}; expected a number.")
    return value


def _paths(value: Any, key: str) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise Invalid(f"{key} must be a list of texts.")
    return list(dict.fromkeys(filter(None, (repository_path(each, key) for each in listed))))


def _links(value: Any, key: str) -> list[JsonObject]:
    listed = value if isinstance(value, list) else [value]
    links = [{"url": each} if isinstance(each, str) else each for each in listed]
    for link in links:
        if not isinstance(link, dict) or not isinstance(link.get("url"), str) or not link["url"].strip():
            raise Invalid(f"{key} must be a list of URLs, or of objects with a url.")
    return links


def _metadata(value: Any, key: str) -> JsonObject:
    if not isinstance(value, dict):
        raise Invalid(f"{key} must be an object, not {type(value).__name__}.")
    return value


_FORMS: dict[str, Callable[[Any, str], Any]] = {
    "id": _id,
    "type": _type,
    "timestamp": lambda value, _key: moment(value),
    "repo": _text,
    "sha": _text,
    "pr_number": _number,
    "source": _text,
    "severity": lambda value, _key: severity(value),
    "fingerprint": fingerprint,
    "title": _text,
    "summary": _text,
    "paths": _paths,
    "links": _links,
    "metadata": _metadata,
    "key": _id,
    "supersedes": _ids,
}
