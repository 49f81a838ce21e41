"""A pause of Python's garbage collector, for code that creates many values at once and keeps all of them.

The collector runs after every few hundred new containers and traverses the live ones. While a long history is read and
folded it finds nothing to collect, and takes a third of the time. A pause is for work that awaits
nothing and makes no cycles: cycles of other threads are collected after it.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class _Pauses:
    """The pauses of all threads; the collector is enabled again after the last, if it was before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._was_enabled = False

    def begin(self) -> None:
        with self._lock:
            if self._count == 0:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._count += 1

    def end(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._was_enabled:
                gc.enable()


_pauses = _Pauses()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the garbage collector of this process; pauses of threads may overlap."""
    _pauses.begin()
    try:
        yield
    finally:
        _pauses.end()
