"""Standard input, as bytes."""

import sys
from typing import BinaryIO

from perdure.errors import Invalid


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
