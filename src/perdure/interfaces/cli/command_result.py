"""The result of a command, and its output: one JSON object, or texts and tables for a person."""

import contextlib
import json
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

from perdure.errors import Unavailable
from perdure.interfaces.cli.output.terminal import command_below, lines, one_line, width_of, wrapped_for

_STYLES = {
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
    "done": "green",
    "failed": "red",
    "cancelled": "red",
    "waiting": "yellow",
}
_READABLE = 10


@dataclass(frozen=True)
class Table:
    """Rows under headers; a column that is `whole` is never cut or wrapped."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    whole: Sequence[str] = ()
    is_fitted: bool = False
    """Whether the rows already fit the terminal, one line each. A row of a single cell is a note on the row above."""


@dataclass(frozen=True)
class CommandResult:
    """The result of a command: `data` for programs, `parts` for people, and the exit code."""

    data: Mapping[str, Any]
    parts: Sequence[str | Table] = field(default=())
    exit_code: int = 0
    fault: str | None = None
    """An error about the shown data; printed on standard error after it."""
    is_printed: bool = False
    """Whether the data was already printed while the command ran."""
    is_one_line: bool = False
    """Whether the JSON is printed on one line, for a program that reads it while the command runs."""


def print_result(answer: CommandResult, *, as_json: bool) -> None:
    """Print a result on standard output.

    Raises: Unavailable when it cannot be written; BrokenPipeError when the reader has closed the pipe.
    """
    try:
        if not as_json:
            print_parts(answer.parts)
        elif not answer.is_printed:
            print(json.dumps(answer.data) if answer.is_one_line else to_json(answer.data))
        sys.stdout.flush()
        if answer.fault is not None:
            with contextlib.suppress(OSError):  # a closed terminal: the exit code still reports it
                fault = command_below(answer.fault) if sys.stderr.isatty() else answer.fault
                print(wrapped_for(f"perdure: {lines(fault)}", sys.stderr), file=sys.stderr)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unavailable(f"Standard output cannot be written: {error.strerror}.") from error


def print_parts(parts: Sequence[str | Table]) -> None:
    """Print texts and tables for a person on standard output."""
    for part in parts:
        if isinstance(part, str):
            print(wrapped_for(lines(part), sys.stdout))
        else:
            print_table(part, sys.stdout)


def to_json(data: Mapping[str, Any]) -> str:
    """Return the JSON text of the command line; all non-ASCII characters are escaped."""
    return json.dumps(data, indent=2, ensure_ascii=True)


def print_table(table: Table, stream: TextIO) -> None:
    """Print a table: with colours on a terminal, as plain lines elsewhere."""
    shown = replace(table, rows=[[one_line(cell) for cell in row] for row in table.rows])
    if stream.isatty() and table.is_fitted:
        _print_fitted(shown, stream)
    elif stream.isatty():
        if _least_width(shown) > shutil.get_terminal_size().columns:
            _print_narrow(shown, stream)
        else:
            _print_rich(shown, stream)
    else:
        _print_plain(shown, stream)


def _least_width(table: Table) -> int:
    """Return the minimum width at which every column of a table stays readable."""
    least = [
        max(len(cell) if header in table.whole else min(len(cell), _READABLE) for cell in cells)
        for header, *cells in zip(table.headers, table.headers, *table.rows, strict=True)
    ]
    return sum(least) + 3 * (len(least) - 1) if table.whole else 0


def _print_narrow(table: Table, stream: TextIO) -> None:
    """Print each row as a few lines: the whole columns first, then the others with their names."""
    for row in table.rows:
        cells = dict(zip(table.headers, row, strict=True))
        if first := " ".join(cells[name] for name in table.whole if cells[name]):
            print(first, file=stream)
        rest = [f"{name}: {cell}" for name, cell in cells.items() if cell and name not in table.whole]
        width = shutil.get_terminal_size().columns
        print(textwrap.fill(", ".join(rest), width, initial_indent="  ", subsequent_indent="  "), file=stream)


def _print_plain(table: Table, stream: TextIO) -> None:
    lines = [table.headers, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headers))]
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(cells).rstrip(), file=stream)


def _print_fitted(table: Table, stream: TextIO) -> None:
    """Print each row as one line, with the colour of its status."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False)
    rows = [row for row in table.rows if len(row) > 1]
    widths = [max(map(width_of, cells)) for cells in zip(table.headers, *rows, strict=True)]
    for row in (table.headers, *table.rows):
        style = "dim" if len(row) == 1 else ""
        if row is table.headers:
            style = "bold"
        line = Text(style=style, no_wrap=True)
        for cell, width in zip(row, widths, strict=False):
            line.append(cell, style=_STYLES.get(cell.partition(":")[0], "") if len(row) > 1 else "")
            line.append(" " * (width - width_of(cell) + 2))
        line.rstrip()
        console.print(line, soft_wrap=True)


def _print_rich(table: Table, stream: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for header in table.headers:
        rich.add_column(header, no_wrap=header in table.whole, overflow="fold")
    for row in table.rows:
        rich.add_row(*[Text(cell, style=_STYLES.get(cell.partition(":")[0], "")) for cell in row])
    Console(file=stream).print(rich)
