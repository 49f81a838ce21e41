"""Text that others wrote, made fit to be shown: without control characters, and cut to the width of a terminal."""

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
_COMMAND = re.compile(r" +(?:\S*/)?(?:perdure|python[0-9.]*) ")
_LAST_COMMAND = re.compile(r": ((?:\S*/)?perdure (?:(?!\. |\n).)+)\Z")
_IN_LINES = {code: shown for code, shown in _HIDDEN.items() if chr(code) not in "\n\t"}


def one_line(text: str) -> str:
    r"""Show a text in one line: a control character, a line's end included, is written as `\x1b`."""
    return text.translate(_HIDDEN)


def lines(text: str) -> str:
    r"""Show a text of several lines; what could move the cursor or change the terminal is written as `\x1b`."""
    return text.replace("\r\n", "\n").translate(_IN_LINES)


def columns_of_stdout() -> int | None:
    """Return how many columns the terminal on standard output has; None when it is not a terminal."""
    return max(shutil.get_terminal_size().columns, MIN_COLUMNS) if sys.stdout.isatty() else None


def wrapped_for(text: str, stream: TextIO) -> str:
    """Break long lines between words where the stream is a terminal; a text for a file or a pipe stays as it is.

    A command on an indented line is not broken: it could not be pasted.
    """
    if not stream.isatty():
        return text
    width = _columns(stream)
    return "\n".join(
        _filled(line, width) if width_of(line) > width and not _COMMAND.match(line) else line
        for line in text.split("\n")
    )


def command_below(text: str) -> str:
    """Move a command at the end of a text to an indented line of its own, from which it can be copied."""
    return _LAST_COMMAND.sub(r":\n  \1", text)


def _columns(stream: TextIO) -> int:
    """Return the columns of the terminal that a stream writes to; the other streams may be files."""
    is_set = os.environ.get("COLUMNS", "").isdecimal()
    try:
        columns = 0 if is_set else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    return columns or shutil.get_terminal_size().columns


def _filled(line: str, width: int) -> str:
    """Break a line between words, never within one; what follows an indented line is indented by two more."""
    before = len(line) - len(line.lstrip(" "))
    indent = " " * (before + 2) if before else ""
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def width_of(text: str) -> int:
    """Return how many columns a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def cut_to(text: str, columns: int) -> str:
    """Cut a text to a number of columns; a cut text ends with an ellipsis."""
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
