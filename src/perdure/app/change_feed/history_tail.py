"""The newest events of a goal that is followed, read once for all of its followers."""

import asyncio
from collections.abc import Sequence

from perdure.kernel.events import Event
from perdure.kernel.ports import StateStore, Summary

PAGE_BYTES = 1 << 18
"""How much of a history is kept or read at once, or one event, if that is larger."""
_CHECK_S = 30.0
"""How often it is checked that a goal without changes is still there."""


class HistoryTail:
    """What the followers of one goal share: how far its history goes, and its last page.

    A follower asks for the page behind its position. The page that was read for the first one is kept for the others;
    events that this process appends are kept without being read.
    """

    def __init__(self, store: StateStore, goal_id: str) -> None:
        self.goal_id = goal_id
        self.last_seq = 0
        """The seq of the newest event that is known to exist."""
        self.followers = 0
        self._store = store
        self._kept: Sequence[Event] = ()
        self._reading = asyncio.Lock()
        self._checked_s = 0.0

    def note(self, seq: int) -> None:
        """Note that there are events up to a seq."""
        self.last_seq = max(self.last_seq, seq)

    def push(self, events: Sequence[Event]) -> None:
        """Keep events that were appended just now, if they follow what is known; else they are read when needed."""
        if events[0].seq == self.last_seq + 1:
            is_connected = bool(self._kept) and self._kept[-1].seq == self.last_seq
            self._kept = _newest([*self._kept, *events] if is_connected else events)
        self.note(events[-1].seq)

    def reset(self) -> None:
        """Forget everything: the store was restored or replaced."""
        self.last_seq, self._kept, self._checked_s = 0, (), 0.0

    async def look_up(self) -> Summary:
        """Read the row of the goal.

        Raises: NotFound when it was deleted.
        """
        self._checked_s = asyncio.get_running_loop().time()
        row = await self._store.find(self.goal_id)
        self.note(row.last_seq)
        return row

    async def look_up_if_old(self) -> Summary | None:
        """Read the row of the goal unless a follower has done so a short time ago.

        Raises: NotFound when it was deleted.
        """
        is_old = asyncio.get_running_loop().time() - self._checked_s > _CHECK_S
        return await self.look_up() if is_old else None

    async def page(self, after: int) -> Sequence[Event]:
        """Return the events behind a seq, a page at most; nothing when no newer event is known.

        Raises: NotFound; Damaged.
        """
        async with self._reading:
            if found := self._kept_after(after):
                return found
            if after >= self.last_seq:
                return ()
            page = await self._store.load(self.goal_id, after=after, max_bytes=PAGE_BYTES)
            if not page:
                self.last_seq = after  # the store has gone back to an earlier state
            elif not self._kept or page[-1].seq > self._kept[-1].seq:
                self._kept = page
                self.note(page[-1].seq)
            return page

    def _kept_after(self, after: int) -> Sequence[Event]:
        kept = self._kept
        if not kept or not kept[0].seq <= after + 1 <= kept[-1].seq:
            return ()
        return kept[after + 1 - kept[0].seq :]


def _newest(events: Sequence[Event]) -> Sequence[Event]:
    """Return the last events that fit on a page; none if the last one alone does not."""
    left, first = PAGE_BYTES, len(events)
    while first > 0 and (left := left - size_of(events[first - 1])) >= 0:
        first -= 1
    return events[first:]


def size_of(event: Event) -> int:
    """Return the size of an event in memory, roughly."""
    return len(event.payload) + 300
