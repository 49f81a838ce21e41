"""Pinned records of bots, as surfaces read them."""

from collections.abc import Mapping
from typing import Any

from perdure.memory.tools.pins import MOST_BYTES, MOST_PINS, is_pin, size_of, source_of

__all__ = ["MOST_BYTES", "MOST_PINS", "is_pin", "size_of", "source_of", "unpinned"]


def unpinned(pin: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the changes that make a pin an ordinary record."""
    metadata = pin.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    return {"fingerprint": None, "metadata": {**known, "pinned": False}}
