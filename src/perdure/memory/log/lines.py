"""One line of the log: a record, when it arrived, and the sum that tells whether it is what was written."""

from codecs import getincrementaldecoder
from typing import Literal, NamedTuple
from zlib import crc32

import orjson

from perdure.memory.record import OURS, SCHEMA_VERSION, Plain, encoded

Kind = Literal["checked", "unchecked", "altered", "unreadable", "torn", "blank"]

_MARK = b',"_c":"'
_END = b'"}'
_TAIL = len(_MARK) + 8 + len(_END)
_HEX = frozenset(b"0123456789abcdef")


class Line(NamedTuple):
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
        return Line(offset, len(text), _kind_of_no_json(text))
    if not isinstance(content, dict) or not (is_right or _can_be_written(content)):
        return Line(offset, len(text), "unreadable")
    kind: Kind = "checked" if is_right else "altered" if any(key in content for key in OURS) else "unchecked"
    return Line(offset, len(text), kind, content)


def _can_be_written(content: Plain) -> bool:
    """Tell whether what somebody else wrote can be written again: it may be nested deeper than we write."""
    try:
        orjson.dumps(content)
    except (TypeError, ValueError):
        return False
    return True


def resummed(text: bytes) -> bytes | None:
    """Return a line with the sum that its text has now; None when it does not end as a line of ours does."""
    if not _ends_with_a_sum(text):
        return None
    return b"%s%s%08x%s" % (text[:-_TAIL], _MARK, crc32(text[:-_TAIL]), _END)


def _ends_with_a_sum(text: bytes) -> bool:
    return text[-_TAIL:].startswith(_MARK) and text.endswith(_END) and _HEX.issuperset(text[-10:-2])


def _kind_of_no_json(text: bytes) -> Kind:
    """Tell damage from what a writer left behind who died: the beginning of a line, with nothing wrong but its end.

    A line that was whole once still has the mark of its sum, or the end of it, where they belong: that one is damaged.
    """
    if not text.strip(b" \t\r"):
        return "blank"
    was_whole = text[-_TAIL:-10] == _MARK or (text.endswith(_END) and _HEX.issuperset(text[-10:-2]))
    return "torn" if text.startswith(b"{") and not was_whole and _only_lacks_its_end(text) else "unreadable"


def _only_lacks_its_end(text: bytes) -> bool:
    try:
        orjson.loads(getincrementaldecoder("utf-8")().decode(text))  # half a character at the end is no damage
    except UnicodeDecodeError:
        return False
    except orjson.JSONDecodeError as error:
        return error.msg.startswith("unexpected end of data")
    return False
