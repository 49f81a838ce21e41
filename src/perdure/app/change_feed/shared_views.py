"""Reads a changed goal once for all subscribers."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from perdure.app.wire.goal_view import GoalView

_MAX_KEPT = 500


@dataclass(frozen=True)
class _Read:
    seq: int
    """The newest known event at the start of the read, which may not include later events."""
    view: "asyncio.Task[GoalView]"


class SharedViews:
    """Views of changed goals; `find` reads one, `seq_of` returns the seq of its newest published event."""

    def __init__(self, find: Callable[[str], Awaitable[GoalView]], seq_of: Callable[[str], int]) -> None:
        self._find = find
        self._seq_of = seq_of
        self._reads: dict[str, _Read] = {}

    async def get(self, goal_id: str) -> GoalView:
        """Return the view of a goal after its last change.

        Raises: NotFound when it was deleted.
        """
        seq, read = self._seq_of(goal_id), self._reads.pop(goal_id, None)
        if read is None or read.seq != seq or _has_failed(read.view):
            read = _Read(seq, asyncio.ensure_future(self._find(goal_id)))
            read.view.add_done_callback(_has_failed)
        self._reads[goal_id] = read
        while len(self._reads) > _MAX_KEPT:
            del self._reads[next(iter(self._reads))]
        return await asyncio.shield(read.view)


def _has_failed(view: "asyncio.Task[GoalView]") -> bool:
    return view.done() and (view.cancelled() or view.exception() is not None)
