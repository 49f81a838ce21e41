"""JSON that a person has typed or written to a file."""

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """Read JSON in which no object has a key twice: of two values one would be dropped in silence.

    Raises: ValueError; RecursionError
    """
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found
