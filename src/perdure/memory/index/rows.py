"""Rows of an index. SQLite does not notice every damage, so their values are validated here."""

from typing import Any, NamedTuple

from perdure.memory.log.reading import LONGEST

_FARTHEST = 1 << 62
_LONGEST_LINE = 2 * LONGEST


class Unusable(Exception):
    """An index cannot be used now; if `is_broken`, it never can and may be replaced."""

    def __init__(self, why: str, *, is_broken: bool) -> None:
        super().__init__(why)
        self.is_broken = is_broken


class OutOfTime(Exception):
    """The time for an answer is over."""


RecordLocation = tuple[int, int] | None
"""Offset and length of a record in a log; None for a forgotten one."""


class Row(NamedTuple):
    """The location of a record in the log, and the values by which it is filtered and sorted."""

    n: int
    """The number of the row, in the order of the log."""
    at: int
    """The offset of the record in the log."""
    length: int
    id: str
    place: int
    """The position of the record in sorted answers; see terms.BAND."""
    repo: str
    type: str


_ROW_TYPES = (int, int, int, str, int, str, str)


def row_of(columns: tuple[Any, ...]) -> Row:
    """Return a validated row; SQLite does not enforce the types of columns.

    Raises: Unusable
    """
    is_typed = tuple(map(type, columns)) == _ROW_TYPES
    if not is_typed or not is_span(columns[1], columns[2]) or columns[2] > _LONGEST_LINE:
        raise Unusable("a row of it cannot be read", is_broken=True)
    return Row(*columns)


def is_span(at: object, length: object) -> bool:
    """Return whether two values can be offset and length of a line."""
    return type(at) is int and type(length) is int and 0 <= at <= _FARTHEST and length >= 0


def id_of(columns: tuple[Any, ...]) -> str:
    """Return the validated id of a record, the first of the columns.

    Raises: Unusable
    """
    if type(columns[0]) is not str:
        raise Unusable("an id in it cannot be read", is_broken=True)
    return str(columns[0])
