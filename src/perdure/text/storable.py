"""Checks that texts can be stored: PostgreSQL does not accept NUL, and UTF-8 cannot encode lone surrogates."""

import re
from typing import Literal

from perdure.errors import Invalid

Flaw = Literal["a NUL character", "a lone surrogate, which is not valid Unicode text"]

_FLAWS = re.compile("[\0\ud800-\udfff]")


def flaw_in(text: str, *, allows_nul: bool = False) -> Flaw | None:
    """Return the flaw because of which a text cannot be stored; None when it can."""
    if not allows_nul and "\0" in text:
        return "a NUL character"
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError:
        return "a lone surrogate, which is not valid Unicode text"
    return None


def is_storable(text: str) -> bool:
    """Return whether every database can store a text: it has no NUL and no lone surrogate."""
    return flaw_in(text) is None


def place_of_flaw(text: str) -> int:
    """Return the index of the first character that cannot be stored; -1 when there is none."""
    match = _FLAWS.search(text)
    return match.start() if match else -1


def require_storable(text: str, where: str, *, allows_nul: bool = False) -> str:
    """Return a text that can be stored.

    Raises: Invalid, with `where` as the name of the text.
    """
    flaw = flaw_in(text, allows_nul=allows_nul)
    if flaw is not None:
        raise Invalid(f"{where} contains {flaw}.")
    return text


def escaped(text: str) -> str:
    """Write NUL and lone surrogates as escapes, so that every database can store the text."""
    return escape_surrogates(text.replace("\0", r"\x00"))


def escape_surrogates(text: str) -> str:
    """Write lone surrogates as escapes, so that the text is valid Unicode."""
    return text.encode(errors="backslashreplace").decode()


def without_surrogates(text: str) -> str:
    """Return a text in which each lone surrogate is U+FFFD; the two halves of a pair become their character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
