"""What a command answers, and how an answer is printed: one JSON object, a table for a person, or plain lines."""

import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from perdure.errors import Unavailable
from perdure.interfaces.cli.terminal import lines, one_line

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "done": "green", "stopped": "red", "waiting": "yellow"}


@dataclass(frozen=True)
class Table:
    """Rows under headers."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Answer:
    """What a command found out: `data` for programs, `parts` for people, and how it ended."""

    data: dict[str, Any]
    parts: Sequence[str | Table] = field(default=())
    exit_code: int = 0


def print_answer(answer: Answer, *, as_json: bool) -> None:
    """Print an answer on standard output.

    Raises: Unavailable when that cannot be written; BrokenPipeError when nobody reads it any more.
    """
    try:
        if as_json:
            print(to_json(answer.data))
        else:
            print_parts(answer.parts)
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unavailable(f"Standard output cannot be written: {error.strerror}.") from error


def print_parts(parts: Sequence[str | Table]) -> None:
    """Print texts and tables for a person on standard output."""
    for part in parts:
        if isinstance(part, str):
            print(_wrapped(lines(part)))
        else:
            print_table(part, sys.stdout)


def _wrapped(text: str) -> str:
    """Break long lines between words on a terminal, and nowhere else."""
    if not sys.stdout.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = [
        textwrap.fill(line, width, break_long_words=False, break_on_hyphens=False) if len(line) > width else line
        for line in text.split("\n")
    ]
    return "\n".join(lines)


def to_json(data: dict[str, Any]) -> str:
    """The one JSON form of the command line; text that is no valid Unicode is escaped."""
    return json.dumps(data, indent=2, ensure_ascii=True)


def print_table(table: Table, stream: TextIO) -> None:
    """Print a table: with colours on a terminal, as plain lines elsewhere."""
    shown = Table(table.headers, [[one_line(cell) for cell in row] for row in table.rows])
    if stream.isatty():
        _print_rich(shown, stream)
    else:
        _print_plain(shown, stream)


def _print_plain(table: Table, stream: TextIO) -> None:
    lines = [table.headers, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headers))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip(), file=stream)


def _print_rich(table: Table, stream: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(*table.headers, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in table.rows:
        rich.add_row(*[Text(cell, style=_STYLES.get(cell, "")) for cell in row])
    Console(file=stream).print(rich)
