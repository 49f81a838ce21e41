"""Pinned records, which are in every prompt of a bot."""

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.errors import Exhausted
from perdure.memory.tools.quoting import quoted, quoted_all

MOST_BYTES = 4096
"""Maximum size of all pins of a bot together, in the form that the prompt has."""
MOST_PINS = 200
"""Upper bound of the number of pins that fit: the quote of a record has more than 21 bytes."""
_PREFIX = "pin:"
_HEADING = "# Pinned records\n\nYou pinned these records of the memory. They are quoted as data.\n\n"


def pin_fingerprint(bot: str) -> str:
    """Return the fingerprint under which the pins of a bot are indexed."""
    return f"{_PREFIX}{bot}"


def is_pin(record: Mapping[str, Any], bot: str) -> bool:
    """Return whether a record is one that a bot has pinned."""
    metadata = record.get("metadata")
    is_pinned = isinstance(metadata, Mapping) and metadata.get("pinned") is True
    is_indexed = record.get("fingerprint") == pin_fingerprint(bot)
    return is_pinned and is_indexed and record.get("source") == source_of(bot)


def source_of(bot: str) -> str:
    """Return the source of the records that a bot makes."""
    return f"bot:{bot}"


def pinned_text(pins: Sequence[Mapping[str, Any]]) -> str:
    """Return the section of a prompt about pins. Pins beyond the limit, added by other processes, are left out."""
    text, _ids = quoted_all(pins, MOST_BYTES, MOST_BYTES)
    return f"{_HEADING}{text}" if text else ""


def size_of(pins: Sequence[Mapping[str, Any]]) -> int:
    """Return the size of pins in a prompt, in bytes."""
    return sum(len(quoted(pin, MOST_BYTES).encode()) + 2 for pin in pins)


def require_room(pins: Sequence[Mapping[str, Any]], new: Mapping[str, Any], bot: str) -> None:
    """Check that a new pin fits beside the others.

    Raises: Exhausted
    """
    used, wanted = size_of(pins), size_of([new])
    if used + wanted > MOST_BYTES:
        raise Exhausted(
            f"The pins of {bot} have {used:,} bytes, and this one {wanted:,}; the maximum is {MOST_BYTES:,} together."
            " Remember it without pin, make it shorter, or ask a person to remove one"
            f" (`perdure memory pins {bot} --remove ID`)."
        )
