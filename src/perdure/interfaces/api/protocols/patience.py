"""Timeouts of connections: for incomplete requests, and for peers that do not read."""

import asyncio
from collections.abc import Callable


class Deadline:
    """Calls a function after a time, unless it is cancelled before."""

    def __init__(self, after_s: float, then: Callable[[], None]) -> None:
        self._after_s = after_s
        self._then = then
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Start the timer, if it is not running."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._after_s, self._strike)

    def call_off(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_running(self) -> bool:
        return self._timer is not None

    def _strike(self) -> None:
        self._timer = None
        self._then()


class Stall:
    """Calls a function when the peer has read nothing from the write buffer for a time; a slow peer is kept."""

    def __init__(self, after_s: float, transport: asyncio.Transport, then: Callable[[], None]) -> None:
        self._transport = transport
        self._then = then
        self._left = 0
        self._deadline = Deadline(after_s, self._look)

    def begin(self) -> None:
        """Start watching, if not started."""
        if not self._deadline.is_running:
            self._left = self._transport.get_write_buffer_size()
            self._deadline.begin()

    def call_off(self) -> None:
        """Stop watching."""
        self._deadline.call_off()

    def _look(self) -> None:
        left = self._transport.get_write_buffer_size()
        if left >= self._left > 0:
            self._then()
        elif left:
            self.begin()


def end_writing(transport: asyncio.Transport) -> bool:
    """Close the writing side after the buffer; abort and return False if the peer has reset the connection."""
    try:
        transport.write_eof()
    except OSError:
        transport.abort()
        return False
    return True


LINGER_S = 1.0
"""The time for which data of a rejected peer is read and discarded."""


class Farewell:
    """Ends a connection so that the peer can read the last response, although it may still be sending.

    Closing at once would reset the connection if unread bytes have arrived, and the peer's system could then drop the
    response. Instead, the writing side is closed, arriving data is discarded, and the connection is closed when the
    peer closes it or after a second.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._deadline = Deadline(LINGER_S, transport.abort)

    def begin(self) -> None:
        """Close the writing side; abort a connection that the peer has reset."""
        if end_writing(self._transport):
            self._deadline.begin()

    def call_off(self) -> None:
        """Stop the timer, because the connection is closed."""
        self._deadline.call_off()

    @property
    def has_begun(self) -> bool:
        return self._deadline.is_running


class Allowance:
    """A rate limit: a burst, then a number per second."""

    def __init__(self, at_once: int, per_second: float) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._left = float(at_once)
        self._since_s = asyncio.get_running_loop().time()

    def take(self) -> bool:
        """Use one unit; return whether it was allowed."""
        now_s = asyncio.get_running_loop().time()
        self._left = min(self._at_once, self._left + (now_s - self._since_s) * self._per_second)
        self._since_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True
