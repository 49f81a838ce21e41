"""The events of a goal as they come, for sockets and for server-sent events."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import orjson

from perdure.app.change_feed.history_tail import PAGE_BYTES
from perdure.app.change_feed.progress import ProgressReport, Update
from perdure.errors import PerdureError
from perdure.interfaces.api.connections import Line
from perdure.interfaces.api.dependencies import Surface
from perdure.kernel.events import Event

if TYPE_CHECKING:
    from perdure.app.wire.resources.frames import CallProgress

_MOST = 500

log = logging.getLogger(__name__)


async def updates(served: Surface, line: Line, goal_id: str, after: int) -> AsyncGenerator[Sequence[Update], None]:
    """Yield the pages of `Goals.updates` until the connection has to end.

    A page is read when the one before was taken, so that a slow client delays no other client and nothing piles up.

    Raises: NotFound; Conflict, with `last_seq`, when the goal has fewer events.
    """
    async with aclosing(served.p.goals.updates(goal_id, after)) as found:
        async for page in found:
            yield page
            if line.ending is not None:
                return


def progress_wire(report: ProgressReport) -> "CallProgress":
    """Return the progress of a call as it is sent."""
    return {"call_id": report.call_id, "text": report.text}


async def event_stream(served: Surface, goal_id: str, after: int) -> AsyncIterator[bytes]:
    """Return the events of a goal as server-sent events, after the first of them could be read.

    A goal that is damaged there must not begin a stream: a browser reconnects after every stream that ends, and stops
    after an answer that is not 200. With damage further on, the stream ends before it, and the next one does not begin.

    Raises: as `updates`; Damaged.
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
            async for found in updates(served, line, goal_id, after):
                for update in found:
                    yield _sent(update)
                if not found:
                    yield b": still here\n\n"
        except PerdureError as error:
            log.warning("a stream of %s ends: %s", goal_id, error.detail)


def _sent(update: Update) -> bytes:
    """Return an event with its id, or progress without one: a client that reconnects names the last event."""
    if isinstance(update, Event):
        return b"id: %d\nevent: event\ndata: %s\n\n" % (update.seq, update.line().encode())
    return b"event: progress\ndata: %s\n\n" % orjson.dumps(progress_wire(update))
