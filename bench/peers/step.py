"""The step that everyone makes durable: the floor, ours and the others."""

import random
import string
from typing import Any

_TEXT = "".join(random.Random(7).choices(string.ascii_letters + string.digits, k=4096))


def payload(number: int) -> dict[str, Any]:
    """What one step says: about 500 bytes as JSON, different for each."""
    start = number * 97 % 3600
    return {"i": number, "kind": "step", "tool": "search", "text": _TEXT[start : start + 440]}
