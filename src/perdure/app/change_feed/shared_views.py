"""Reads a goal that has changed once for all subscribers that are told of it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from perdure.app.wire.goal_view import GoalView

_MAX_KEPT = 500


@dataclass(frozen=True)
class _Read:
    seq: int
    """The newest event that was known when the read began: it sees that, and may not see a later one."""
    view: "asyncio.Task[GoalView]"


class SharedViews:
    """Changed goals as they are shown; `find` reads one, `seq_of` returns its newest event that was told."""

    def __init__(self, find: Callable[[str], Awaitable[GoalView]], seq_of: Callable[[str], int]) -> None:
        self._find = find
        self._seq_of = seq_of
        self._reads: dict[str, _Read] = {}

    async def get(self, goal_id: str) -> GoalView:
        """Return a goal as it was read after its last change.

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
