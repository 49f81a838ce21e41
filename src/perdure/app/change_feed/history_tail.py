"""The newest events of a followed goal, read once for all of its followers."""

import asyncio
from collections.abc import Sequence

from perdure.kernel.events import Event
from perdure.kernel.ports import StateStore, Summary

PAGE_BYTES = 1 << 17
"""The maximum size of a page of a history, unless a single event is larger.

A follower that stops reading keeps one page in memory, whatever the length of the history.
"""
_CHECK_S = 30.0
"""The interval of checks that a goal without changes still exists."""


class HistoryTail:
    """The shared state of the followers of one goal: its last seq and its last page.

    A follower requests the page after its position. The page that was read for one follower is kept for the others, and
    events that this process appends are kept without reading them.
    """

    def __init__(self, store: StateStore, goal_id: str) -> None:
        self.goal_id = goal_id
        self.last_seq = 0
        """The seq of the newest known event."""
        self.followers = 0
        self._store = store
        self._kept: Sequence[Event] = ()
        self._read_lock = asyncio.Lock()
        self._checked_s = 0.0

    def note(self, seq: int) -> None:
        """Raise the last known seq."""
        self.last_seq = max(self.last_seq, seq)

    def push(self, events: Sequence[Event]) -> None:
        """Keep newly appended events if they follow the known ones; otherwise they are read when needed."""
        if events[0].seq == self.last_seq + 1:
            is_connected = bool(self._kept) and self._kept[-1].seq == self.last_seq
            self._kept = _newest([*self._kept, *events] if is_connected else events)
        self.note(events[-1].seq)

    def reset(self) -> None:
        """Clear the state after the store was restored or replaced."""
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
        """Read the row of the goal, unless it was read recently.

        Raises: NotFound when it was deleted.
        """
        is_old = asyncio.get_running_loop().time() - self._checked_s > _CHECK_S
        return await self.look_up() if is_old else None

    async def page(self, after: int) -> Sequence[Event]:
        """Return a page of the events after a seq; empty if no newer event is known.

        Raises: NotFound; Damaged.
        """
        async with self._read_lock:
            if found := self._kept_after(after):
                return found
            if after >= self.last_seq:
                return ()
            page = await self._store.load(self.goal_id, after=after, max_bytes=PAGE_BYTES)
            if not page:
                self.last_seq = after  # the store was restored to an earlier state
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
    """Return the approximate size of an event in memory."""
    return len(event.payload) + 300
