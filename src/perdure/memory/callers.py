"""Cancellation of writes: nothing is written after the caller has given up.

A thread that waits for a lock cannot be interrupted, so it checks right before it writes.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class CallerGone(Exception):
    """The caller has given up; nothing was written."""


class Caller:
    """A caller that may give up at any moment, from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_gone = False
        self._is_writing = False

    def give_up(self) -> bool:
        """Allow no write from now on; return whether a write is in progress, which will finish soon."""
        with self._lock:
            self._is_gone = True
            return self._is_writing

    def begin(self) -> None:
        """Announce a write.

        Raises: CallerGone
        """
        with self._lock:
            if self._is_gone:
                raise CallerGone
            self._is_writing = True

    def end(self) -> None:
        """Announce that the write has ended."""
        with self._lock:
            self._is_writing = False


CALLER: ContextVar[Caller | None] = ContextVar("perdure_memory_caller", default=None)
"""The caller on whose behalf this thread writes; None for a caller that never gives up."""


@contextmanager
def writing() -> Iterator[None]:
    """Run the block as a write of the caller of this thread.

    Raises: CallerGone
    """
    caller = CALLER.get()
    if caller is None:
        yield
        return
    caller.begin()
    try:
        yield
    finally:
        caller.end()
