"""JSON that a person has typed or written to a file."""

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """Read JSON in which no object has a name twice: of two values one would be dropped in silence.

    Raises: ValueError; RecursionError
    """
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in one object")
    return found
