"""Makes a failing program smaller: parts are left out, or replaced by what is inside of them, while it still fails."""

import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, cast

from tests.faults.programs import Line, Part

_MOST_S = 20.0


def smallest(program: Line, fails: Callable[[Line], bool]) -> Line:
    """Return the smallest program that still fails, as far as it is found in some seconds."""
    until_s = time.monotonic() + _MOST_S
    is_smaller = True
    while is_smaller:
        is_smaller = False
        for other in _smaller(program):
            if time.monotonic() > until_s:
                return program
            if fails(other):
                program, is_smaller = other, True
                break
    return program


def _smaller(line: Line) -> Iterator[Line]:
    """Return lines that are smaller in one place, the much smaller ones first."""
    for place, part in enumerate(line):
        before, after = line[:place], line[place + 1 :]
        yield (*before, *after)
        for inner in _lines_of(part):
            yield (*before, *inner, *after)
    for place, part in enumerate(line):
        for other in _smaller_parts(part):
            yield (*line[:place], other, *line[place + 1 :])


def _smaller_parts(part: Any) -> Iterator[Part]:
    for field in fields(part):
        value = getattr(part, field.name)
        if not isinstance(value, tuple):
            continue
        if not (value and isinstance(value[0], tuple)):
            yield from (replace(part, **{field.name: line}) for line in _smaller(value))
            continue
        for place, line in enumerate(value):
            if len(value) > 1:
                yield replace(part, **{field.name: (*value[:place], *value[place + 1 :])})
            for other in _smaller(line):
                yield replace(part, **{field.name: (*value[:place], other, *value[place + 1 :])})


def _lines_of(part: Part) -> Iterator[Line]:
    for field in fields(cast("Any", part)):
        value = getattr(part, field.name)
        if isinstance(value, tuple):
            yield from value if value and isinstance(value[0], tuple) else (value,)
