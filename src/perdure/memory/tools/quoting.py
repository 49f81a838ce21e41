"""Records as a model sees them: bounded, and quoted with their source, so that they read as data."""

from collections.abc import Mapping, Sequence
from typing import Any

LONGEST_TITLE = 200
LONGEST_BODY = 4000
_MOST_PATHS = 20
_CUT = " …"


def shown(record: Mapping[str, Any], longest: int = LONGEST_BODY) -> dict[str, Any]:
    """Return the parts of a record that a model is shown, as bounded JSON."""
    paths = record.get("paths")
    found = {
        "record_id": str(record.get("id", "")),
        "type": str(record.get("type", "")),
        "title": cut(_text(record.get("title")), LONGEST_TITLE),
        "body": cut(_text(record.get("summary")), longest),
        "paths": [cut(str(path), LONGEST_TITLE) for path in paths[:_MOST_PATHS]] if isinstance(paths, list) else [],
        "repo": cut(_text(record.get("repo")), LONGEST_TITLE),
        "source": cut(_text(record.get("source")), LONGEST_TITLE),
        "timestamp": _text(record.get("timestamp")),
    }
    return {name: value for name, value in found.items() if value}


def quoted(record: Mapping[str, Any], longest: int = LONGEST_BODY) -> str:
    """Return a record as quoted lines; each begins with `> `."""
    seen = shown(record, longest)
    facts = [seen["record_id"], *(seen[name] for name in ("type", "timestamp", "source") if name in seen)]
    paths = ", ".join(seen.get("paths", ()))
    lines = [f"[record {' · '.join(facts)}]", seen.get("title", ""), seen.get("body", ""), paths and f"Paths: {paths}"]
    return "\n".join(f"> {line}" for part in lines if part for line in part.splitlines())


def quoted_all(records: Sequence[Mapping[str, Any]], longest: int, most_bytes: int) -> tuple[str, list[str]]:
    """Return quoted records of at most `most_bytes`, and their ids; records that do not fit are omitted."""
    texts: list[str] = []
    ids: list[str] = []
    left = most_bytes
    for record in records:
        text = quoted(record, longest)
        size = len(text.encode()) + 2
        if size <= left:
            texts.append(text)
            ids.append(str(record.get("id")))
            left -= size
    return "\n\n".join(texts), ids


def cut(text: str, longest: int) -> str:
    """Return a text with at most `longest` characters."""
    return text if len(text) <= longest else text[: longest - len(_CUT)] + _CUT


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
