"""Who wants to hear of changes, and the one look at the store that tells all of them, whoever has made the change."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.app.goals.goals import Goals
from perdure.app.workers.outage_log import Trouble
from perdure.errors import PerdureError

LOOK_S = 0.2
"""Changes by other processes are noticed within a quarter of a second."""
_MOST_SEEN = 10_000
MOST_PENDING = 8_000
"""So many changed goals are kept for a listener that does not read, which is less than a mebibyte."""

log = logging.getLogger(__name__)


class News:
    """What one listener has not heard of yet: the ids of goals, each once, however often they change."""

    def __init__(self) -> None:
        self._goals: dict[str, None] = {}
        self._has_come = asyncio.Event()

    def tell(self, goal_id: str) -> None:
        """Say that a goal has changed; of more than can be kept, that there are more is kept."""
        if len(self._goals) <= MOST_PENDING:
            self._goals[goal_id] = None
        self._has_come.set()

    def wake(self) -> None:
        """Let the listener look around although nothing has changed."""
        self._has_come.set()

    async def wait(self, patience_s: float) -> list[str]:
        """Wait for changes, and return the goals that have changed; none when the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._has_come.wait()
        self._has_come.clear()
        told, self._goals = list(self._goals), {}
        return told


class Feed:
    """Looks for changes while somebody listens: one query for all listeners, five times a second."""

    def __init__(self, goals: Goals) -> None:
        self._goals = goals
        self._listeners: dict[str, set[News]] = {}
        self._of_all: set[News] = set()
        self._seen: dict[str, int] = {}
        self._mark: int | None = None
        self._is_wanted = asyncio.Event()
        self._looking = asyncio.Lock()
        self._trouble = Trouble(log, "a look for changes")

    @contextmanager
    def following(self, goal_id: str | None = None) -> Iterator[News]:
        """Hear of the changes of a goal, or of all goals, for the time of the block."""
        news = News()
        listeners = self._of_all if goal_id is None else self._listeners.setdefault(goal_id, set())
        listeners.add(news)
        self._is_wanted.set()
        try:
            yield news
        finally:
            listeners.discard(news)
            if goal_id is not None and not listeners and self._listeners.get(goal_id) is listeners:
                del self._listeners[goal_id]

    async def run(self) -> None:
        """Look for changes, for as long as we are not cancelled."""
        while True:
            if not self._of_all and not self._listeners:
                self._is_wanted.clear()
                self._mark = None
                await self._is_wanted.wait()
            try:
                await self.look()
            except PerdureError as error:
                self._trouble.met(error.detail)
            else:
                self._trouble.over()
            await asyncio.sleep(LOOK_S)

    def wake_all(self) -> None:
        """Let every listener look around: something other than a goal has changed."""
        for news in (*self._of_all, *(each for some in self._listeners.values() for each in some)):
            news.wake()

    async def _begin(self) -> None:
        """Note where the goals are now: a store may name some that have not changed since, and they are no news."""
        mark = (await self._goals.changes()).mark
        before = await self._goals.changes(mark - 1)
        self._seen |= before.goals
        self._mark = before.mark
        self.wake_all()  # what happened before that, while nobody looked

    async def look(self) -> None:
        """Tell of all that has changed until now; whoever listens from now on hears only of what comes.

        Raises: PerdureError
        """
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        if self._mark is None:
            await self._begin()
        changes = await self._goals.changes(self._mark)
        self._mark = changes.mark
        for goal_id, seq in changes.goals.items():
            if self._seen.get(goal_id, 0) < seq:
                self._seen[goal_id] = seq
                for news in (*self._of_all, *self._listeners.get(goal_id, ())):
                    news.tell(goal_id)
        while len(self._seen) > _MOST_SEEN:
            del self._seen[next(iter(self._seen))]
