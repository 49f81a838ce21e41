"""Questions line by line, with numbers for the choices, for a terminal that cannot move its cursor."""

import asyncio
import os
import sys

from perdure.interfaces.cli.output.terminal import one_line

_MOST_DIGITS = 9
"""A number that is typed has fewer: neither a list nor a history is that long."""


def can_move_cursor() -> bool:
    """Tell whether the terminal can show a list that is redrawn in place."""
    return os.environ.get("TERM", "dumb") not in ("dumb", "unknown", "")


async def read_line(question: str) -> str:
    """Ask for a line; a cancellation ends the wait at once.

    Raises: EOFError
    """
    print(one_line(question), end=" ", file=sys.stderr, flush=True)
    loop = asyncio.get_running_loop()
    is_there = asyncio.Event()
    loop.add_reader(sys.stdin, is_there.set)
    try:
        await is_there.wait()
    finally:
        loop.remove_reader(sys.stdin)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()


def read_number(text: str, count: int) -> int | None:
    """Return the index of the choice that was typed as its number, from 1 to `count`; None for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return int(text) - 1 if is_number and 1 <= int(text) <= count else None
