"""Pinned records of bots, as surfaces read them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from perdure.memory.tools.pins import MOST_BYTES, MOST_PINS, is_pin, size_of, source_of

if TYPE_CHECKING:
    from perdure.app.wire.resources.memory import MemoryRecord, PinnedRecords

__all__ = ["MOST_BYTES", "MOST_PINS", "is_pin", "pins_wire", "size_of", "source_of", "unpinned"]


def pins_wire(pins: Sequence[Mapping[str, Any]]) -> "PinnedRecords":
    """Return the one JSON form of the pins of a bot."""
    records = cast("list[MemoryRecord]", [*pins])
    return {"pins": records, "bytes": size_of(pins), "max_bytes": MOST_BYTES}


def unpinned(pin: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the changes that make a pin an ordinary record."""
    metadata = pin.get("metadata")
    known = metadata if isinstance(metadata, Mapping) else {}
    return {"fingerprint": None, "metadata": {**known, "pinned": False}}
