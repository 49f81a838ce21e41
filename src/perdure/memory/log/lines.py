"""One line of the log: a record, its arrival time, and the checksum of the line."""

from codecs import getincrementaldecoder
from typing import Literal, NamedTuple
from zlib import crc32

import orjson

from perdure.memory.record import LOG_KEYS, SCHEMA_VERSION, JsonObject, encoded

Kind = Literal["checked", "unchecked", "altered", "unreadable", "torn", "blank"]

_MARK = b',"_c":"'
_END = b'"}'
_TAIL = len(_MARK) + 8 + len(_END)
_HEX = frozenset(b"0123456789abcdef")


class Line(NamedTuple):
    """A line as it was read; `content` has all keys, those of the log included, and is None without a record."""

    offset: int
    length: int
    kind: Kind
    content: JsonObject | None = None

    @property
    def is_served(self) -> bool:
        return self.kind in ("checked", "unchecked")

    @property
    def record(self) -> JsonObject:
        """The record without the keys that the log added."""
        return {key: value for key, value in (self.content or {}).items() if key not in LOG_KEYS}

    @property
    def arrival_ms(self) -> int | None:
        arrival = (self.content or {}).get("_t")
        return arrival if type(arrival) is int else None


def line_of(record: JsonObject, arrival_ms: int) -> bytes:
    """Return a record of JSON values as a line, with its line end.

    Raises: Invalid when it is over 1 MiB.
    """
    text = encoded(record)
    comma = b"," if record else b""
    version = b"" if "v" in record else b'%s"v":%d' % (comma, SCHEMA_VERSION)
    summed = b'%s%s,"_t":%d' % (text[:-1], version, arrival_ms)
    return b'%s,"_c":"%08x"}\n' % (summed, crc32(summed))


def read_line(offset: int, text: bytes) -> Line:
    """Parse and classify a line; `text` is without its line end."""
    has_sum = text[-_TAIL:].startswith(_MARK) and text.endswith(_END)
    is_valid = has_sum and text[-10:-2] == b"%08x" % crc32(text[:-_TAIL])
    try:
        content = orjson.loads(text)
    except orjson.JSONDecodeError:
        return Line(offset, len(text), _kind_of_no_json(text))
    if not isinstance(content, dict) or not (is_valid or _can_be_written(content)):
        return Line(offset, len(text), "unreadable")
    kind: Kind = "checked"
    if not is_valid:
        kind = "altered" if any(key in content for key in LOG_KEYS) else "unchecked"
    return Line(offset, len(text), kind, content)


def _can_be_written(content: JsonObject) -> bool:
    """Return whether a record of another program can be written by us: it may be nested too deeply."""
    try:
        orjson.dumps(content)
    except (TypeError, ValueError):
        return False
    return True


def resummed(text: bytes) -> bytes | None:
    """Return a line with a new checksum for its present text; None when it does not end with a checksum."""
    if not _ends_with_a_sum(text):
        return None
    return b"%s%s%08x%s" % (text[:-_TAIL], _MARK, crc32(text[:-_TAIL]), _END)


def _ends_with_a_sum(text: bytes) -> bool:
    return text[-_TAIL:].startswith(_MARK) and text.endswith(_END) and _HEX.issuperset(text[-10:-2])


def _kind_of_no_json(text: bytes) -> Kind:
    """Distinguish a torn line, which a dying writer left incomplete, from a damaged one.

    A line that was complete once still has parts of its checksum in their place, so that one is damaged.
    """
    if not text.strip(b" \t\r"):
        return "blank"
    was_whole = text[-_TAIL:-10] == _MARK or (text.endswith(_END) and _HEX.issuperset(text[-10:-2]))
    return "torn" if text.startswith(b"{") and not was_whole and _only_lacks_its_end(text) else "unreadable"


def _only_lacks_its_end(text: bytes) -> bool:
    try:
        orjson.loads(getincrementaldecoder("utf-8")().decode(text))  # half a character at the end is not damage
    except UnicodeDecodeError:
        return False
    except orjson.JSONDecodeError as error:
        return error.msg.startswith("unexpected end of data")
    return False
