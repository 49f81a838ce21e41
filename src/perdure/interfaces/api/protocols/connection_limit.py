"""Limits the number of open connections; unauthenticated ones are closed first."""

import asyncio
import resource
from typing import Protocol, cast

from perdure.app.workers.background import MOST_RUNNING
from perdure.file_limit import MOST_FILES

ACCEPTED_AT_ONCE = 16
"""The number of connections that the event loop may accept in one turn, before any of them is counted."""

_TURNS_TO_CLOSE = 4
"""The turns of the event loop in which a rejected connection still has a file descriptor."""

_FILES_PER_GOAL = 8
"""An exec step holds three file descriptors (two pipes and the process), and briefly eight when it starts."""

_FILES_OF_OURS = 128
"""File descriptors of the database, readers, memory, locks, logs, listener, event loop and requests."""

RESERVE = _FILES_OF_OURS + MOST_RUNNING * _FILES_PER_GOAL + ACCEPTED_AT_ONCE * _TURNS_TO_CLOSE
"""The number of file descriptors reserved for running goals and never used for connections."""

LEAST_CONNECTIONS = 16


def most_connections() -> int:
    """Return the default limit: at most half of the file descriptors, and enough left for the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_FILES if soft == resource.RLIM_INFINITY else soft
    return max(LEAST_CONNECTIONS, min(limit // 2, limit - RESERVE))


class Closable(Protocol):
    """A protocol whose closing connections can be watched."""

    def end_closing(self) -> None:
        """Watch a closing connection, and abort it when the peer reads nothing."""


class ConnectionLimit:
    """The open connections of a server, oldest first, and which of them are authenticated."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._strangers: dict[asyncio.Transport, None] = {}
        self._known: dict[asyncio.Transport, None] = {}

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def admit(self, transport: asyncio.Transport) -> bool:
        """Register a new connection; return whether there is room for it.

        If the limit is reached, the oldest unauthenticated connection is closed to make room. So clients without the
        token delay a client with it only for the time that it needs to connect.
        """
        if len(self) >= self.most:
            oldest = next(iter(self._strangers), None)
            if oldest is None:
                return False
            self.remove(oldest)
            oldest.abort()
        self._strangers[transport] = None
        return True

    def trust(self, transport: asyncio.Transport) -> None:
        """Mark a connection as authenticated."""
        if transport in self._strangers:
            del self._strangers[transport]
            self._known[transport] = None

    def remove(self, transport: asyncio.Transport) -> None:
        """Remove a closed connection."""
        self._strangers.pop(transport, None)
        self._known.pop(transport, None)

    def end_closing(self) -> None:
        """Watch all closing connections; uvicorn closes them in many places, and waits for them without a timeout."""
        for transport in (*self._strangers, *self._known):
            if transport.is_closing():
                cast("Closable", transport.get_protocol()).end_closing()
