"""Concurrent lines of a flow: `goal.gather` and `goal.first`.

Each line has its own branch, with its own numbers of steps. So the names of steps do not depend on which line is
faster.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any

from perdure.errors import Invalid
from perdure.minds.flow.requests import BRANCH, Branch
from perdure.minds.flow.steps.tracebacks import class_name, text_of
from perdure.minds.flow.steps.user_errors import is_interrupt


class Join(asyncio.Future[None]):
    """A future that is done when a number of lines have ended. Its `lines` are public, for `waiting`."""

    def __init__(self, lines: "Sequence[asyncio.Task[Any]]", count: int) -> None:
        super().__init__(loop=asyncio.get_running_loop())
        self.lines = lines
        self._left = count
        for line in lines:
            line.add_done_callback(self._count)

    def _count(self, _line: "asyncio.Task[Any]") -> None:
        self._left -= 1
        if self._left <= 0 and not self.done():
            self.set_result(None)


async def side_by_side(awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
    """Run awaitables in their own branches, and return the result or exception of each, in order."""
    lines = _lines("gather", awaitables)
    await _end_of(lines)
    return [_result_of(line) for line in lines]


async def race(awaitables: Sequence[Awaitable[Any]]) -> tuple[int, Any]:
    """Run awaitables in their own branches until one ends; return its position and result. See `Goal.first`."""
    lines = _lines("first", awaitables)
    try:
        await Join(lines, 1)
    except asyncio.CancelledError as cancelled:
        _cancel_all(lines, cancelled)
        with suppress(asyncio.CancelledError):
            await _end_of(lines)
        raise
    winner = next(place for place, line in enumerate(lines) if line.done())
    for line in lines:
        line.cancel()
    await _end_of(lines)
    _take_exceptions(lines)
    return winner, lines[winner].result()


def _lines(method: str, awaitables: Sequence[Awaitable[Any]]) -> "list[asyncio.Task[Any]]":
    branch = BRANCH.get()
    if branch is None:
        raise Invalid(f"goal.{method} was called inside a step; only the flow itself has branches.")

    async def run(branch: Branch, awaitable: Awaitable[Any]) -> Any:
        BRANCH.set(branch)
        try:
            return await awaitable
        except (SystemExit, KeyboardInterrupt) as error:
            if is_interrupt(error):
                raise
            what = f"A branch of goal.{method} raised {class_name(error)}: {text_of(error)}."
            raise Invalid(what) from error

    pairs = zip(branch.open(len(awaitables)), awaitables, strict=True)
    return [asyncio.create_task(run(branch, awaitable)) for branch, awaitable in pairs]


async def _end_of(lines: "Sequence[asyncio.Task[Any]]") -> None:
    """Wait for the end of lines. If the wait is cancelled, cancel the lines, and raise the first cancel at their end.

    `asyncio.gather` would raise the last cancel, which may differ: anyio identifies its own cancels by their text.
    """
    first: asyncio.CancelledError | None = None
    while any(not line.done() for line in lines):
        try:
            await Join(lines, len(lines))
        except asyncio.CancelledError as cancelled:
            first = first or cancelled
            _cancel_all(lines, cancelled)
    if first is not None:
        _take_exceptions(lines)
        raise first


def _cancel_all(lines: "Sequence[asyncio.Task[Any]]", cancelled: asyncio.CancelledError) -> None:
    for line in lines:
        line.cancel(*cancelled.args[:1])


def _take_exceptions(lines: "Sequence[asyncio.Task[Any]]") -> None:
    """Retrieve the exceptions of lines, so that asyncio does not report them as never retrieved."""
    for line in lines:
        _result_of(line)


def _result_of(line: "asyncio.Task[Any]") -> Any:
    """Return the result or the exception of a line that has ended."""
    if line.cancelled():
        return asyncio.CancelledError()
    error = line.exception()
    return line.result() if error is None else error
