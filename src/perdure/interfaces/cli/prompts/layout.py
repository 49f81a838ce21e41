"""The layout of a question on a terminal: options in two columns if they fit, else stacked."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from perdure.interfaces.cli.output.terminal import one_line

Piece = tuple[str, str]
"""A style and a text."""

_POINTER = 3
_INDENT = 2
_GAP = 2
_READABLE = 28
"""The width below which reasons are shown under their labels, not beside them."""


@dataclass(frozen=True)
class Choice:
    """An option: its label, a description, and a hint why it is suggested."""

    label: str
    why: str
    hint: str = ""


def layout_choices(choices: Sequence[Choice], width: int) -> list[list[Piece]]:
    """Return the text of each choice, broken into lines that fit the terminal beside the pointer."""
    room = max(width - _POINTER - 1, 8)
    widest = max(cell_len(one_line(choice.label)) for choice in choices)
    if widest + _GAP + _READABLE <= room:
        return [_in_columns(choice, widest, room) for choice in choices]
    return [_stacked(choice, room) for choice in choices]


def _in_columns(choice: Choice, widest: int, room: int) -> list[Piece]:
    label = one_line(choice.label)
    at = widest + _GAP
    first, *rest = _notes(choice, room - at)
    pad = " " * (at - cell_len(label))
    return [("class:text", label + pad), first, *_indent(rest, at)]


def _stacked(choice: Choice, room: int) -> list[Piece]:
    first, *rest = [("class:text", line) for line in wrapped(one_line(choice.label), room)]
    notes = _notes(choice, room - _INDENT) if choice.why or choice.hint else []
    return [first, *_indent(rest, 0), *_indent(notes, _INDENT)]


def _notes(choice: Choice, room: int) -> list[Piece]:
    why = [("class:why", line) for line in wrapped(one_line(choice.why), room)]
    hint = [("class:hint", line) for line in wrapped(f"★ {one_line(choice.hint)}", room)] if choice.hint else []
    return why + hint


def _indent(pieces: Sequence[Piece], indent: int) -> list[Piece]:
    margin = " " * (_POINTER + indent)
    return [piece for style, text in pieces for piece in (("", f"\n{margin}"), (style, text))]


def wrapped(text: str, room: int) -> list[str]:
    """Break a text between words, and a long word anywhere; wide characters count as wide."""
    console = Console(width=max(room, 2), color_system=None)
    return [line.plain.rstrip() for line in Text(text).wrap(console, max(room, 2))] or [""]


def exchange_text(question: str, answer: str, width: int, mark: str = "✓") -> Text:
    """Return a question and its answer on one line, or on two if they do not fit."""
    asked, said = one_line(question), one_line(answer)
    between = "  " if cell_len(asked) + cell_len(said) + 4 <= width else "\n  "
    return Text.assemble((f"{mark} ", "cyan" if mark == "✓" else "yellow"), (asked, "dim"), between, (said, "bold"))
