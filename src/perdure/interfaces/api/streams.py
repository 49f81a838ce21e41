"""Live events of a goal, for sockets and server-sent events."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import orjson

from perdure.app.change_feed.history_tail import PAGE_BYTES
from perdure.app.change_feed.progress import Update
from perdure.app.goals.values import Event
from perdure.app.wire.frames import frame_of
from perdure.errors import PerdureError
from perdure.interfaces.api.connections import LiveConnection
from perdure.interfaces.api.dependencies import Surface

_MOST = 500

log = logging.getLogger(__name__)


async def updates(
    served: Surface, connection: LiveConnection, goal_id: str, after: int, *, with_answers: bool = False
) -> AsyncGenerator[Sequence[Update], None]:
    """Yield the pages of `Goals.updates` until the connection must end.

    A page is read after the page before was sent, so that a slow client does not delay others or fill the memory.

    Raises: NotFound; Conflict, with `last_seq`, when the goal has fewer events.
    """
    async with aclosing(served.p.goals.updates(goal_id, after, with_answers=with_answers)) as found:
        async for page in found:
            yield page
            if connection.ending is not None:
                return


async def event_stream(
    served: Surface, goal_id: str, after: int, *, with_answers: bool = False
) -> AsyncIterator[bytes]:
    """Return the events of a goal as server-sent events, after reading the first one.

    If the first event is damaged, the stream does not start: a browser reconnects after every stream that ends, but
    stops after a status other than 200. With later damage, the stream ends before it, and the next one does not start.

    Raises: as `updates`; Damaged.
    """
    first = await served.p.goals.events(goal_id, after=after, limit=_MOST, max_bytes=PAGE_BYTES)
    for event in first[:1]:
        event.line()  # reads the payload
    return _stream(served, goal_id, after, first, with_answers=with_answers)


async def _stream(
    served: Surface, goal_id: str, after: int, first: Sequence[Event], *, with_answers: bool
) -> AsyncIterator[bytes]:
    """Yield the first page, then new events; comments keep the connection open.

    When events cannot be read any more, the stream ends, and the client reconnects with the last id.
    """
    with served.connections.open() as connection:
        try:
            for event in first:
                yield _sent(event)
                after = event.seq
            del first
            async for found in updates(served, connection, goal_id, after, with_answers=with_answers):
                for update in found:
                    yield _sent(update)
                if not found:
                    yield b": still here\n\n"
        except PerdureError as error:
            log.warning("closing an event stream of %s: %s", goal_id, error.detail)


def _sent(update: Update) -> bytes:
    """Return an event with its id, or a report without one: a reconnecting client sends the id of the last event."""
    if isinstance(update, Event):
        return b"id: %d\nevent: event\ndata: %s\n\n" % (update.seq, update.line().encode())
    frame = frame_of(update)
    name = frame.pop("type")
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(frame))
