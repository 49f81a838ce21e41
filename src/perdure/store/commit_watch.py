"""A thread that notifies listeners of commits of other connections; it runs while there is a listener."""

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress

_JOIN_S = 5.0
"""How long `close` waits for the thread, which may be connecting to a server that does not answer."""

Watch = Callable[["Stop", Callable[[], None]], None]
"""Calls a function at each commit of another connection, until it is stopped. Runs on its own thread."""


class Stop:
    """The stop signal of one thread; `fd` becomes readable when it is set."""

    def __init__(self) -> None:
        self.fd, self._write_end = os.pipe2(os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        self._close_lock = threading.Lock()
        self._is_closed = False
        self.is_set = False

    def set(self) -> None:
        """Stop the thread."""
        with self._close_lock:
            self.is_set = True
            if not self._is_closed:
                os.write(self._write_end, b"\0")

    def wait(self, seconds: float | None, *fds: int) -> bool:
        """Wait for the stop, for a readable file descriptor or for a timeout; return whether it is stopped."""
        waiting = select.poll()
        for fd in (self.fd, *fds):
            waiting.register(fd, select.POLLIN)
        waiting.poll(None if seconds is None else seconds * 1000)
        return self.is_set

    def close(self) -> None:
        """Free the file descriptors; the thread has ended."""
        with self._close_lock:
            self._is_closed = True
            os.close(self.fd)
            os.close(self._write_end)


class CommitWatch:
    """Runs a watch on a thread while there is a listener, and only then."""

    def __init__(self, name: str, watch: Watch) -> None:
        self._name = name
        self._watch = watch
        self._notices: list[Callable[[], None]] = []
        self._listener_lock = threading.Lock()
        self._stop: Stop | None = None
        self._threads: set[threading.Thread] = set()

    def watch(self, notice: Callable[[], None]) -> Callable[[], None]:
        """See RawDatabase.watch."""
        with self._listener_lock:
            self._notices.append(notice)
            if self._stop is None:
                self._stop = Stop()
                thread = threading.Thread(target=self._run, args=(self._stop,), name=self._name, daemon=True)
                self._threads.add(thread)
                thread.start()
        return lambda: self._end(notice)

    def close(self) -> None:
        """End the thread, and wait until it has closed its connection."""
        with self._listener_lock:
            self._notices.clear()
            self._stop_thread()
        for thread in tuple(self._threads):
            thread.join(_JOIN_S)

    def _end(self, notice: Callable[[], None]) -> None:
        with self._listener_lock, suppress(ValueError):  # already closed
            self._notices.remove(notice)
            if not self._notices:
                self._stop_thread()

    def _stop_thread(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop.set()

    def _run(self, stop: Stop) -> None:
        try:
            self._watch(stop, lambda: self._notify(stop))
        finally:
            self._threads.discard(threading.current_thread())
            stop.close()

    def _notify(self, stop: Stop) -> None:
        if not stop.is_set:
            for notice in tuple(self._notices):
                notice()
