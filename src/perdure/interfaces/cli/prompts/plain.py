"""Questions line by line, with numbers for the choices, for a terminal that cannot move its cursor."""

import asyncio
import os
import sys

from perdure.interfaces.cli.output.terminal import one_line

_MOST_DIGITS = 9
"""The maximum length of a typed number; no list or history is longer."""


def can_move_cursor() -> bool:
    """Return whether the terminal can show a list that is redrawn in place."""
    return os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


async def read_line(question: str) -> str:
    """Ask for a line; a cancellation ends the wait at once.

    Raises: EOFError
    """
    print(one_line(question), end=" ", file=sys.stderr, flush=True)
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(sys.stdin, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(sys.stdin)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def read_number(text: str, count: int) -> int | None:
    """Return the index of an option typed as a number from 1 to `count`; None for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) - 1 if is_number and 1 <= int(text) <= count else None
