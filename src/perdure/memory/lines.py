"""One line of the log: a record, when it arrived, and the sum that tells whether it is what was written."""

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

import orjson

from perdure.memory.record import OURS, SCHEMA_VERSION, Plain, encoded

Kind = Literal["checked", "unchecked", "altered", "unreadable", "blank"]

_MARK = b',"_c":"'
_END = b'"}'
_TAIL = len(_MARK) + 8 + len(_END)


@dataclass(frozen=True, slots=True)
class Line:
    """A line as it was found; `content` has all keys, also ours, and is None for what is no record."""

    offset: int
    length: int
    kind: Kind
    content: Plain | None = None

    @property
    def is_served(self) -> bool:
        return self.kind in ("checked", "unchecked")

    @property
    def record(self) -> Plain:
        """The record without the keys that the log added."""
        return {key: value for key, value in (self.content or {}).items() if key not in OURS}

    @property
    def arrival_ms(self) -> int | None:
        arrival = (self.content or {}).get("_t")
        return arrival if type(arrival) is int else None


def line_of(record: Plain, arrival_ms: int) -> bytes:
    """Write a plain record as a line, with its end.

    Raises: Invalid when it is over 1 MiB.
    """
    text = encoded(record)
    version = b"" if "v" in record else b'%s"v":%d' % (b"," if record else b"", SCHEMA_VERSION)
    summed = b'%s%s,"_t":%d' % (text[:-1], version, arrival_ms)
    return b'%s,"_c":"%08x"}\n' % (summed, crc32(summed))


def read_line(offset: int, text: bytes) -> Line:
    """Tell what a line is; `text` is without its end."""
    has_sum = text[-_TAIL:].startswith(_MARK) and text.endswith(_END)
    is_right = has_sum and text[-10:-2] == b"%08x" % crc32(text[:-_TAIL])
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError:
        return Line(offset, len(text), "blank" if not text.strip(b" \t\r") else "unreadable")
    if not isinstance(content, dict):
        return Line(offset, len(text), "unreadable")
    kind: Kind = "checked" if is_right else "altered" if any(key in content for key in OURS) else "unchecked"
    return Line(offset, len(text), kind, content)
