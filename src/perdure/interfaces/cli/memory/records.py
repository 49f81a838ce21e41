"""Records as lines of text: severity, type, age, place, and the reasons of a match."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from perdure.interfaces.cli.output.terminal import one_line

_PATHS = 6
_WIDTH = 200


def match_lines(matches: Sequence[Mapping[str, Any]], *, truncated: bool, disabled: bool = False) -> list[str]:
    """Return lines about the matches, with a note if the search was cut short."""
    if disabled:
        return ["The memory is switched off (memory.enabled); nothing was searched."]
    found = [line for match in matches for line in _lines_of_match(match)]
    note = ["There may be more: the time limit was reached."] if truncated else []
    return [*(found or ["Nothing was found."]), *note]


def _lines_of_match(match: Mapping[str, Any]) -> Iterator[str]:
    yield from record_lines(match["record"], match.get("why") or ())
    if (count := match.get("count") or 1) > 1:
        yield f"  {count} records report the same; the newest is shown."


def record_lines(record: Mapping[str, Any], why: Sequence[Mapping[str, Any]] = ()) -> Iterator[str]:
    """Yield a few lines about a record."""
    title = record.get("title") or record.get("summary") or ""
    severity = record.get("severity")
    known = None if severity == "unknown" else severity
    first = (known, record.get("type", "?"), age(record.get("timestamp")), title)
    yield _cut("  ".join(str(word) for word in first if word))
    number = f"#{record['pr_number']}" if record.get("pr_number") is not None else None
    key = f"key {record['key']}" if isinstance(record.get("key"), str) else None
    where = (record.get("id"), key, record.get("repo"), str(record.get("sha") or "")[:12], number, _source(record))
    yield "  " + one_line(", ".join(str(word) for word in where if word))
    if record.get("title") and record.get("summary"):
        yield "  " + _cut(str(record["summary"]).strip().partition("\n")[0])
    if paths := record.get("paths"):
        more = f" and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
        yield "  paths: " + one_line(", ".join(map(str, paths[:_PATHS])) + more)
    if why:
        reasons = ", ".join(f"{each.get('kind')} {each.get('value')}" for each in why[:_PATHS])
        yield "  why: " + one_line(reasons + (f" and {len(why) - _PATHS} more" if len(why) > _PATHS else ""))


def age(timestamp: Any, now_s: float | None = None) -> str:
    """Return the age of a moment in words."""
    try:
        seconds = (time.time() if now_s is None else now_s) - datetime.fromisoformat(timestamp).timestamp()
    except (TypeError, ValueError):
        return "at an unknown time"
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now" if seconds > -60 else f"on {timestamp[:10]}"


def _source(record: Mapping[str, Any]) -> str | None:
    metadata = record.get("metadata")
    is_pinned = isinstance(metadata, dict) and metadata.get("pinned") is True
    source = [f"from {record['source']}"] if record.get("source") else []
    return ", ".join([*source, *(["pinned"] if is_pinned else [])]) or None


def _cut(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
