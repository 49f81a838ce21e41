"""What is read from standard input, or from a file."""

import sys
from pathlib import Path
from typing import BinaryIO

from perdure.errors import Invalid, NotFound

_LARGEST_LIST = 8 << 20


def standard_input() -> BinaryIO:
    """Return the stream.

    Raises: Invalid when whoever started us closed it.
    """
    if sys.stdin is None:
        raise Invalid("Standard input was expected, but it is closed.")
    return sys.stdin.buffer


def read_input(largest: int, instead: str) -> bytes:
    """Read all of it, up to a size.

    Raises: Invalid when it has more; `instead` says what to do then.
    """
    data = standard_input().read(largest + 1)
    if len(data) > largest:
        raise Invalid(f"Standard input has more than {largest >> 20} MiB. {instead}")
    return data


def listed_in(source: str) -> list[str]:
    """Return the paths in a file, or on standard input, as `git diff --name-only` prints them, also with `-z`.

    Raises: Invalid; NotFound.
    """
    try:
        data = read_input(_LARGEST_LIST, "Give fewer paths.") if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise NotFound(f"{source} cannot be read: {error.strerror}.") from error
    parts = data.split(b"\0") if b"\0" in data else [line.rstrip(b"\r") for line in data.split(b"\n")]
    return [part.decode(errors="replace") for part in parts if part.strip()]
