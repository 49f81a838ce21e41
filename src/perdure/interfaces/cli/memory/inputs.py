"""What is read from standard input, or from a file."""

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

from perdure.errors import Invalid, NotFound
from perdure.files.opening import read_input_file
from perdure.memory.ingest.checkout import in_repository, is_shallow

_LARGEST_LIST = 8 << 20
_PIECE = 1 << 16
_QUOTED = re.compile(rb'"((?:[^"\\]|\\(?:[abtnvfr"\\]|[0-7]{3}))*)"')
_ESCAPED = re.compile(rb'\\([abtnvfr"\\]|[0-7]{3})')
_ESCAPES = dict(zip((bytes([char]) for char in b'abtnvfr"\\'), (bytes([c]) for c in b'\a\b\t\n\v\f\r"\\'), strict=True))
"""How git writes bytes that it quotes; any other byte is three octal digits."""
_LOOK_S = 0.1
"""A wait is no longer than this: a signal that comes just before a read would not end it."""


def standard_input() -> BinaryIO:
    """Return the stream.

    Raises: Invalid when it is closed.
    """
    if sys.stdin is None:
        raise Invalid("Standard input was expected, but it is closed.")
    return sys.stdin.buffer


def read_input(largest: int, instead: str) -> bytes:
    """Read all of it, up to a size.

    Raises: Invalid when it has more, `instead` says what to do then; when it is empty: the program before the pipe has
    failed, and what it should have printed would be lost.
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
    """Return the error for a source without a byte, which names a shallow clone as a likely reason."""
    reason = (
        " This is a shallow clone: `git diff A...B` needs a commit that both have. Fetch the history first, with"
        " `git fetch --unshallow`."
    )
    return Invalid(f"{source} is empty; nothing was changed.{reason if is_shallow() else ''}")


@contextmanager
def input_in_pieces(size: int) -> Iterator[Iterator[bytes]]:
    """Lend the pieces of standard input to a thread; when the block ends, so does the wait for more of them.

    Raises: Invalid when it is closed.
    """
    is_over = Event()
    try:
        yield _pieces(standard_input(), size, is_over)
    finally:
        is_over.set()


def _pieces(stream: BinaryIO, size: int, is_over: Event) -> Iterator[bytes]:
    read = getattr(stream, "read1", stream.read)  # what is there already; the rest may never come
    while not is_over.is_set():
        if _has_something(stream):
            if not (piece := read(size)):
                return
            yield piece
    raise InterruptedError("The command no longer waits for the rest of standard input.")


def _has_something(stream: BinaryIO) -> bool:
    try:
        return bool(select.select([stream], [], [], _LOOK_S)[0])
    except (io.UnsupportedOperation, ValueError):
        return True  # it is not a file of the system


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end a read in the main thread; a running loop would note it, and go on with the read."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def moment_given(text: str, name: str) -> datetime:
    """Return the moment that is meant: a number of hours or days ago, or a date.

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


def listed_in(source: str) -> list[str]:
    """Return the paths in a file, or on standard input, as `git diff --name-only` prints them, also with `-z`.

    Raises: Invalid, also for an empty file in a shallow clone, where `git diff` has failed; NotFound.
    """
    try:
        data = read_input(_LARGEST_LIST, "Give fewer paths.") if source == "-" else read_input_file(source)
    except OSError as error:
        raise NotFound(f"{source} cannot be read: {error.strerror}.") from error
    lines = (line.rstrip(b"\r") for line in data.split(b"\n"))
    parts = data.split(b"\0") if b"\0" in data else [_unquoted(line) for line in lines]
    texts = [part.decode(errors="replace") for part in parts if part.strip()]
    if not texts and (source == "-" or is_shallow()):
        raise empty_input("Standard input" if source == "-" else source)
    return [in_repository(text) if text.startswith("/") else text for text in texts]


def _unquoted(line: bytes) -> bytes:
    """Return a path that git may have quoted, as C does it, because it has bytes beyond ASCII or control characters."""
    found = _QUOTED.fullmatch(line)
    return _ESCAPED.sub(_unescaped, found[1]) if found else line


def _unescaped(found: re.Match[bytes]) -> bytes:
    text = found[1]
    return _ESCAPES[text] if text in _ESCAPES else bytes([int(text, 8) & 0xFF])
