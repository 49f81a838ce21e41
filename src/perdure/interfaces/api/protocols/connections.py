"""How many connections may be open, and which of them is closed when another one comes."""

import asyncio
import resource
from typing import Protocol, cast

from perdure.app.workers.background import MOST_RUNNING
from perdure.tools.exec.descriptors import MOST_FILES

ACCEPTED_AT_ONCE = 16
"""The number of connections that the event loop may accept in one turn, before any of them is counted."""

_TURNS_TO_CLOSE = 4
"""A connection is accepted, made, refused and closed in a turn of the event loop each."""

_FILES_PER_GOAL = 8
"""An exec step holds three files (two pipes and the process) and needs eight for a moment when it starts."""

_FILES_OF_OURS = 128
"""Database, readers, memory, locks, logs, listener, event loop, and what a request opens for a moment."""

RESERVE = _FILES_OF_OURS + MOST_RUNNING * _FILES_PER_GOAL + ACCEPTED_AT_ONCE * _TURNS_TO_CLOSE
"""The number of file descriptors reserved for running goals and never used for connections."""

LEAST_CONNECTIONS = 16


def most_connections() -> int:
    """Return how many connections leave room for our own work: at most half of the files, less the reserve."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_FILES if soft == resource.RLIM_INFINITY else soft
    return max(LEAST_CONNECTIONS, min(limit // 2, limit - RESERVE))


class Closable(Protocol):
    """What both protocols have in common."""

    def end_closing(self) -> None:
        """Watch a connection that is being closed, and end it when the peer takes nothing."""


class Connections:
    """The open connections of a server, the oldest first, and which of them have shown the token."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._strangers: dict[asyncio.Transport, None] = {}
        self._known: dict[asyncio.Transport, None] = {}

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    def admit(self, transport: asyncio.Transport) -> bool:
        """Count a new connection; tell whether there is room for it.

        When there is none, the oldest connection that has not shown the token is closed to make room. A client with
        the token is therefore kept waiting by clients without it for no longer than it takes to connect.
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
        """Note that a connection has shown the token."""
        if transport in self._strangers:
            del self._strangers[transport]
            self._known[transport] = None

    def remove(self, transport: asyncio.Transport) -> None:
        """Forget a connection that is closed."""
        self._strangers.pop(transport, None)
        self._known.pop(transport, None)

    def end_closing(self) -> None:
        """Have those watched that are being closed; uvicorn closes them in many places, and waits without end."""
        for transport in (*self._strangers, *self._known):
            if transport.is_closing():
                cast("Closable", transport.get_protocol()).end_closing()
