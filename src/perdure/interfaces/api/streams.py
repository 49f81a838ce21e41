"""The events of a goal as they come, whoever writes them: for sockets and for server-sent events."""

import logging
from collections.abc import AsyncIterator, Sequence

from perdure.app.goals.reader import has_been_read
from perdure.errors import PerdureError
from perdure.interfaces.api.connections import Line
from perdure.interfaces.api.dependencies import Surface
from perdure.kernel.events import Event

PAGE_BYTES = 1 << 18
"""So much of a history is held for one connection, or one event, if that is larger."""
_MOST = 500
PATIENCE_S = 5.0

log = logging.getLogger(__name__)


async def pages(served: Surface, line: Line, goal_id: str, after: int) -> AsyncIterator[Sequence[Event]]:
    """Give the events of a goal after a seq, then those that come, each once and in order, until it has ended.

    A page is read when the one before was taken: whoever is slow holds up nobody, and nothing piles up. An empty page
    comes when nothing has happened for a while.

    Raises: NotFound; Conflict, with `last_seq`, when the goal does not have so many events.
    """
    with served.feed.following(goal_id) as news:
        while True:
            seen = (await served.p.goals.find(goal_id)).summary
            while found := await served.p.goals.events(goal_id, after=after, limit=_MOST, max_bytes=PAGE_BYTES):
                after = found[-1].seq
                yield found
            if has_been_read(seen, after):
                return
            if line.ending is not None:
                return
            if not await news.wait(PATIENCE_S):
                yield []


async def event_stream(served: Surface, goal_id: str, after: int) -> AsyncIterator[bytes]:
    """Return the events of a goal as server-sent events, after the first of them could be read.

    A goal that is damaged there must not begin a stream: a browser reconnects after every stream that ends, and stops
    after an answer that is not 200. With damage further on, the stream ends before it, and the next one does not begin.

    Raises: as `pages`; Damaged.
    """
    first = await served.p.goals.events(goal_id, after=after, limit=_MOST, max_bytes=PAGE_BYTES)
    for event in first[:1]:
        event.line()  # a payload is read when it is asked for
    return _stream(served, goal_id, after, first)


async def _stream(served: Surface, goal_id: str, after: int, first: Sequence[Event]) -> AsyncIterator[bytes]:
    """Give the first page, then those that come; a comment now and then keeps the line open.

    When they cannot be read any more, the stream ends, and the client reconnects with the last id.
    """
    with served.lines.open() as line:
        try:
            for event in first:
                yield _sent(event)
                after = event.seq
            del first
            async for found in pages(served, line, goal_id, after):
                for event in found:
                    yield _sent(event)
                if not found:
                    yield b": still here\n\n"
        except PerdureError as error:
            log.warning("a stream of %s ends: %s", goal_id, error.detail)


def _sent(event: Event) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (event.seq, event.line().encode())
