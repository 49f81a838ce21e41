"""Reads standard input, files of paths, and times."""

import io
import re
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import BinaryIO

from perdure.app.memory.repositories import is_shallow, path_in_repository
from perdure.errors import Invalid, NotFound
from perdure.files.opening import read_input_file

_LARGEST_LIST = 8 << 20
_PIECE = 1 << 16
_QUOTED = re.compile(rb'"((?:[^"\\]|\\(?:[abtnvfr"\\]|[0-7]{3}))*)"')
_ESCAPED = re.compile(rb'\\([abtnvfr"\\]|[0-7]{3})')
_ESCAPES = dict(zip((bytes([char]) for char in b'abtnvfr"\\'), (bytes([c]) for c in b'\a\b\t\n\v\f\r"\\'), strict=True))
"""The escapes of git for quoted bytes; any other byte is written as three octal digits."""
_POLL_S = 0.1
"""The maximum time of one wait, so that a signal that arrives just before the wait is noticed."""


def standard_input() -> BinaryIO:
    """Return the binary stream of standard input.

    Raises: Invalid when standard input is closed.
    """
    if sys.stdin is None:
        raise Invalid("Standard input was expected, but it is closed.")
    return sys.stdin.buffer


def read_input(largest: int, instead: str) -> bytes:
    """Read standard input up to a size.

    Raises: Invalid when it is larger, with the advice `instead`, or when it is empty: an empty input usually means that
    the program before the pipe failed.
    """
    data = bytearray()
    with _interruptible(), input_in_pieces(_PIECE) as pieces:
        for piece in pieces:
            data += piece
            if len(data) > largest:
                raise Invalid(f"Standard input has more than {largest >> 20} MiB. {instead}")
    if not data:
        raise empty_input()
    return bytes(data)


def empty_input(source: str = "Standard input") -> Invalid:
    """Return the error for an empty source; in a shallow clone, it explains that as the likely reason."""
    reason = (
        " This is a shallow clone: `git diff A...B` needs a common ancestor. Fetch the history first, with"
        " `git fetch --unshallow`."
    )
    return Invalid(f"{source} is empty; nothing was changed.{reason if is_shallow() else ''}")


@contextmanager
def input_in_pieces(size: int) -> Iterator[Iterator[bytes]]:
    """Yield an iterator over standard input for use in a thread; leaving the block ends its wait for more input.

    Raises: Invalid when standard input is closed.
    """
    is_over = Event()
    try:
        yield _pieces(standard_input(), size, is_over)
    finally:
        is_over.set()


def _pieces(stream: BinaryIO, size: int, is_over: Event) -> Iterator[bytes]:
    read = getattr(stream, "read1", stream.read)  # returns the available bytes; the rest may never arrive
    while not is_over.is_set():
        if _has_something(stream):
            if not (piece := read(size)):
                return
            yield piece
    raise InterruptedError("The command stopped waiting for the rest of standard input.")


def _has_something(stream: BinaryIO) -> bool:
    try:
        return bool(select.select([stream], [], [], _POLL_S)[0])
    except (io.UnsupportedOperation, ValueError):
        return True  # the stream has no file descriptor


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a read in the main thread; the handler of a running event loop would not interrupt it."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def read_moment(text: str, name: str) -> datetime:
    """Parse a time: a number of hours or days ago, or a date.

    Raises: Invalid
    """
    if found := re.fullmatch(r"(\d{1,5})([hd])", text):
        ago = timedelta(hours=int(found[1])) if found[2] == "h" else timedelta(days=int(found[1]))
        return datetime.now(UTC) - ago
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Invalid(f"{name} is {text!r}; expected hours (12h), days (30d) or a date (2026-11-15).") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_paths(source: str) -> list[str]:
    """Read the paths of a file, or of standard input, in the output format of `git diff --name-only`, also with `-z`.

    Raises: Invalid, also for a path that leads out of the repository, and for an empty file in a shallow clone, where
    `git diff` usually failed; NotFound.
    """
    try:
        data = read_input(_LARGEST_LIST, "Pass fewer paths.") if source == "-" else read_input_file(source)
    except OSError as error:
        raise NotFound(f"{source} cannot be read: {error.strerror}.") from error
    lines = (line.rstrip(b"\r") for line in data.split(b"\n"))
    parts = data.split(b"\0") if b"\0" in data else [_unquoted(line) for line in lines]
    texts = [part.decode(errors="replace") for part in parts if part.strip()]
    if not texts and (source == "-" or is_shallow()):
        raise empty_input("Standard input" if source == "-" else source)
    return [_from_root(text, source) for text in texts]


def _from_root(text: str, source: str) -> str:
    """Return a path relative to the root of its repository.

    Raises: Invalid when it leads out of the repository.
    """
    if text.startswith("/"):
        return path_in_repository(text)
    if ".." in text.split("/"):
        where = "Standard input" if source == "-" else source
        raise Invalid(
            f"{where} has the path {text!r}, which leads out of the repository. Give paths relative to its root, as"
            " `git diff --name-only` lists them."
        )
    return text


def _unquoted(line: bytes) -> bytes:
    """Return a path without the quotes and escapes that git adds for control and non-ASCII characters."""
    found = _QUOTED.fullmatch(line)
    return _ESCAPED.sub(_unescaped, found[1]) if found else line


def _unescaped(found: re.Match[bytes]) -> bytes:
    text = found[1]
    return _ESCAPES[text] if text in _ESCAPES else bytes([int(text, 8) & 0xFF])
