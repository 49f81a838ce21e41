"""The events of a goal as they come, whoever writes them: for sockets and for server-sent events."""

from collections.abc import AsyncIterator, Sequence

from perdure.interfaces.api.lines import Line
from perdure.interfaces.api.surface import Surface
from perdure.kernel.events import Event

PAGE_BYTES = 1 << 18
"""So much of a history is held for one connection, or one event, if that is larger."""
_FIRST, _MOST = 4, 500
PATIENCE_S = 5.0
_ENDED = ("done", "stopped")


async def pages(served: Surface, line: Line, goal_id: str, after: int) -> AsyncIterator[Sequence[Event]]:
    """Give the events of a goal after a seq, then those that come, each once and in order, until it has ended.

    A page is read when the one before was taken: whoever is slow holds up nobody, and nothing piles up. An empty page
    comes when nothing has happened for a while.
    """
    limit = _FIRST
    with served.feed.following(goal_id) as news:
        while True:
            has_ended = (await served.p.goals.find(goal_id)).summary.status in _ENDED
            while found := await served.p.goals.events(goal_id, after=after, limit=limit):
                after, limit = found[-1].seq, _next_limit(found)
                yield found
            if has_ended:
                return
            if line.ending is not None:
                return
            if not await news.wait(PATIENCE_S):
                yield []


def _next_limit(found: Sequence[Event]) -> int:
    """Return how many events like these make up a page; at most four times as many."""
    size = sum(len(event.payload) for event in found)
    return max(1, min(len(found) * PAGE_BYTES // max(size, 1), len(found) * 4, _MOST))


async def event_stream(served: Surface, goal_id: str, after: int) -> AsyncIterator[bytes]:
    """Give the events of a goal as server-sent events; a comment now and then keeps the line open."""
    with served.lines.open() as line:
        async for found in pages(served, line, goal_id, after):
            yield b"".join(map(_sent, found)) or b": still here\n\n"


def _sent(event: Event) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (event.seq, event.line().encode())
