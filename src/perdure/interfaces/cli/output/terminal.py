"""Escapes control characters in untrusted text, and fits text to the width of a terminal."""

import json
import os
import re
import shutil
import sys
import textwrap
from typing import TextIO
from unicodedata import combining, east_asian_width

MIN_COLUMNS = 80

_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C)
_HIDDEN = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_HIDDEN |= {code: f"\\u{code:04x}" for code in (*_BIDI, 0x2028, 0x2029)}
_HIDDEN |= {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_PROGRAM = r"(?:\S*/)?(?:perdure|python[0-9.]*|pip|uv) "
_COMMAND = re.compile(f" +{_PROGRAM}")
_LAST_COMMAND = re.compile(rf": ({_PROGRAM}(?:(?!\. |\n).)+)\Z")
_LAST_QUOTED = re.compile(rf" `({_PROGRAM}[^`\n]+)`\.\Z")
_IN_LINES = {code: shown for code, shown in _HIDDEN.items() if chr(code) not in "\n\t"}


def value_text(value: object) -> str:
    """Return a JSON value for a person: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def one_line(text: str) -> str:
    r"""Return a text as one line: control characters and line ends are escaped, as in `\x1b`."""
    return text.translate(_HIDDEN)


def lines(text: str) -> str:
    r"""Return a text of several lines with all other control characters escaped, as in `\x1b`."""
    return text.replace("\r\n", "\n").translate(_IN_LINES)


def columns_of_stdout() -> int | None:
    """Return the width of the terminal on standard output; None if it is not a terminal."""
    return max(shutil.get_terminal_size().columns, MIN_COLUMNS) if sys.stdout.isatty() else None


def wrapped_for(text: str, stream: TextIO) -> str:
    """Break long lines between words if the stream is a terminal; text for a file or a pipe is unchanged.

    A command on an indented line is not broken, so that it can be pasted.
    """
    if not stream.isatty():
        return text
    width = _columns(stream)
    return "\n".join(
        _filled(line, width) if width_of(line) > width and not _COMMAND.match(line) else line
        for line in text.split("\n")
    )


def command_below(text: str) -> str:
    """Move a command at the end of a text to its own indented line, so that it can be copied."""
    return _LAST_QUOTED.sub(r":\n  \1", _LAST_COMMAND.sub(r":\n  \1", text))


def _columns(stream: TextIO) -> int:
    """Return the width of the terminal that a stream writes to; the other streams may be files."""
    is_set = os.environ.get("COLUMNS", "").isdecimal()
    try:
        columns = 0 if is_set else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return columns or shutil.get_terminal_size().columns


def _filled(line: str, width: int) -> str:
    """Break a line between words; continuation lines of an indented line are indented by two more columns."""
    before = len(line) - len(line.lstrip(" "))
    indent = " " * (before + 2) if before else ""
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def width_of(text: str) -> int:
    """Return the number of columns that a text occupies on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def cut_to(text: str, columns: int) -> str:
    """Return a text truncated to a number of columns; a truncated text ends with an ellipsis."""
    if width_of(text) <= columns:
        return text
    kept, room = [], columns - 1
    for character in text:
        room -= _width(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def _width(character: str) -> int:
    if combining(character):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
