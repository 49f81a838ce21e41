"""Connections that stay open: sockets and streams, and how all of them are ended from elsewhere."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum

from perdure.interfaces.api.auth.server_access import SESSION


class Ending(IntEnum):
    """Why a connection ends, as the code that a socket is closed with."""

    DONE = 1000
    """There is nothing more to come."""
    SHUTDOWN = 1001
    """The server ends; come again."""
    LATER = 1013
    """What is behind us does not answer now: connect again, with the seq that was seen last."""
    TOKEN = 4401
    """The token was changed, or the login session has ended; authenticate again."""
    GONE = 4404
    """What was followed is not there any more."""
    RESYNC = 4408
    """Too much has happened to be told one by one: connect again, with the seq that was seen last."""
    AFTER_END = 4409
    """The goal does not have the event after which it was to be followed."""
    DAMAGED = 4500
    """Stored events are not what was written; connecting again does not help."""


class Line:
    """One open connection."""

    def __init__(self) -> None:
        self._ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.session = SESSION.get()
        """The login session that it was opened with, if any."""

    @property
    def ending(self) -> Ending | None:
        """Why it has to end, if it has to."""
        return self._ending.result() if self._ending.done() else None

    def end(self, why: Ending) -> None:
        """Have it ended; the first reason counts."""
        if not self._ending.done():
            self._ending.set_result(why)

    async def ended(self) -> Ending:
        """Wait until it has to end."""
        return await asyncio.shield(self._ending)


class Lines:
    """All open connections of a server."""

    def __init__(self) -> None:
        self._open: set[Line] = set()
        self._is_over = False

    @contextmanager
    def open(self) -> Iterator[Line]:
        """Be an open connection for the time of the block."""
        line = Line()
        self._open.add(line)
        if self._is_over:
            line.end(Ending.SHUTDOWN)
        try:
            yield line
        finally:
            self._open.discard(line)

    def end_all(self, why: Ending) -> None:
        """Have every connection ended; at a shutdown, those too that are still to come."""
        self._is_over = self._is_over or why is Ending.SHUTDOWN
        for line in list(self._open):
            line.end(why)

    def end_sessions(self, is_open: Callable[[str], bool]) -> bool:
        """Have every connection ended whose login session is not open any more; tell whether there was one."""
        ended = [line for line in self._open if line.session is not None and not is_open(line.session)]
        for line in ended:
            line.end(Ending.TOKEN)
        return bool(ended)
