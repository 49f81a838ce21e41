"""How a question is laid out on a terminal: options in columns where they fit, else one below the other."""

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
"""Narrower than this, a reason is no longer read at a glance."""


@dataclass(frozen=True)
class Choice:
    """A line to choose: what it is, why one would, and what speaks for it."""

    label: str
    why: str
    hint: str = ""


def laid_out(choices: Sequence[Choice], width: int) -> list[list[Piece]]:
    """Return the text of each choice, broken into lines so that none is wider than a terminal beside its pointer."""
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
    return [("class:text", label + pad), first, *_below(rest, at)]


def _stacked(choice: Choice, room: int) -> list[Piece]:
    first, *rest = [("class:text", line) for line in wrapped(one_line(choice.label), room)]
    notes = _notes(choice, room - _INDENT) if choice.why or choice.hint else []
    return [first, *_below(rest, 0), *_below(notes, _INDENT)]


def _notes(choice: Choice, room: int) -> list[Piece]:
    why = [("class:why", line) for line in wrapped(one_line(choice.why), room)]
    hint = [("class:hint", line) for line in wrapped(f"★ {one_line(choice.hint)}", room)] if choice.hint else []
    return why + hint


def _below(pieces: Sequence[Piece], indent: int) -> list[Piece]:
    margin = " " * (_POINTER + indent)
    return [piece for style, text in pieces for piece in (("", f"\n{margin}"), (style, text))]


def wrapped(text: str, room: int) -> list[str]:
    """Break a text between words, and a long word anywhere; wide characters count as wide."""
    console = Console(width=max(room, 2), color_system=None)
    return [line.plain.rstrip() for line in Text(text).wrap(console, max(room, 2))] or [""]


def answered(question: str, answer: str, width: int, mark: str = "✓") -> Text:
    """Return one line of what was asked and answered, or two where both do not fit into one."""
    asked, said = one_line(question), one_line(answer)
    between = "  " if cell_len(asked) + cell_len(said) + 4 <= width else "\n  "
    return Text.assemble((f"{mark} ", "cyan" if mark == "✓" else "yellow"), (asked, "dim"), between, (said, "bold"))
