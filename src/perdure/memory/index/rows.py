"""Rows as an index returns them. SQLite does not notice all damage, so that their values are checked here."""

from typing import Any, NamedTuple

from perdure.memory.log.reading import LONGEST

_FARTHEST = 1 << 62
_LONGEST_LINE = 2 * LONGEST


class Unusable(Exception):
    """An index cannot be used now; `is_broken` when it never will be, and may be replaced."""

    def __init__(self, why: str, *, is_broken: bool) -> None:
        super().__init__(why)
        self.is_broken = is_broken


class OutOfTime(Exception):
    """The time for an answer is over."""


Held = tuple[int, int] | None
"""Where in a log a record is, by offset and length; None for one that is to be forgotten."""

FORGOTTEN = -1
"""Stands in the place of the number of a file for a record that was forgotten."""


class Row(NamedTuple):
    """Where a record is in the log, and what decides whether and where it stands in an answer."""

    n: int
    at: int
    length: int
    id: str
    place: int
    repo: str
    type: str


_ROW_TYPES = (int, int, int, str, int, str, str)


def row_of(found: tuple[Any, ...]) -> Row:
    """Return a row, whose values SQLite does not check against the types of their columns.

    Raises: Unusable
    """
    is_typed = tuple(map(type, found)) == _ROW_TYPES
    if not is_typed or not is_span(found[1], found[2]) or found[2] > _LONGEST_LINE:
        raise Unusable("a row of it is not readable", is_broken=True)
    return Row(*found)


def is_span(at: object, length: object) -> bool:
    """Tell whether two values can be offset and length of a line."""
    return type(at) is int and type(length) is int and 0 <= at <= _FARTHEST and length >= 0


def name_of(found: tuple[Any, ...]) -> str:
    """Return an id. Raises: Unusable."""
    if type(found[0]) is not str:
        raise Unusable("an id in it is not readable", is_broken=True)
    return str(found[0])
