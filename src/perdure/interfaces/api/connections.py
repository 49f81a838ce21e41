"""Long-lived connections, which are sockets and event streams, and their close codes."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from perdure.interfaces.api.auth.server_access import SESSION


class CloseCode(IntEnum):
    """The reason why a connection ends: the close code of a socket."""

    DONE = 1000
    """Normal end: there is no more data."""
    SHUTDOWN = 1001
    """The server is shutting down; reconnect later."""
    LATER = 1013
    """The database does not answer: reconnect later, with the last seq that was received."""
    TOKEN = 4401
    """The token was rotated, or the login session has ended: authenticate again."""
    GONE = 4404
    """The followed goal does not exist any more."""
    RESYNC = 4408
    """The client fell too far behind: reconnect with the last seq that was received."""
    AFTER_END = 4409
    """The requested seq is greater than that of the last event."""
    DAMAGED = 4500
    """The stored events are damaged; do not reconnect."""


class LiveConnection:
    """One open connection."""

    def __init__(self) -> None:
        self._ending: asyncio.Future[CloseCode] = asyncio.get_running_loop().create_future()
        self.session = SESSION.get()
        """The login session that opened it, if any."""

    @property
    def ending(self) -> CloseCode | None:
        """The reason why it must end, or None."""
        return self._ending.result() if self._ending.done() else None

    def end(self, why: CloseCode) -> None:
        """Request its end; the first reason is kept."""
        if not self._ending.done():
            self._ending.set_result(why)

    async def ended(self) -> CloseCode:
        """Wait until its end is requested, and return the reason."""
        return await asyncio.shield(self._ending)


class LiveConnections:
    """All open connections of a server."""

    def __init__(self) -> None:
        self._open: set[LiveConnection] = set()
        self._is_over = False

    @contextmanager
    def open(self) -> Iterator[LiveConnection]:
        """Yield a connection that is registered inside the block."""
        connection = LiveConnection()
        self._open.add(connection)
        if self._is_over:
            connection.end(CloseCode.SHUTDOWN)
        try:
            yield connection
        finally:
            self._open.discard(connection)

    def end_all(self, why: CloseCode) -> None:
        """Request the end of all connections; at a shutdown, also of connections that are opened later."""
        self._is_over = self._is_over or why is CloseCode.SHUTDOWN
        for connection in list(self._open):
            connection.end(why)

    def end_sessions(self, is_open: Callable[[str], bool]) -> bool:
        """Request the end of connections whose login session has ended; return whether there were any."""
        ended = [
            connection
            for connection in self._open
            if connection.session is not None and not is_open(connection.session)
        ]
        for connection in ended:
            connection.end(CloseCode.TOKEN)
        return bool(ended)
