"""Notifies subscribers of changed goals, written by any process, with one watch of the store and one query for all.

Events of this process are published at once. Events of other processes are signalled by the store (NOTIFY, or
`data_version` of SQLite), and read by one query, `Changes.changes`. The same query runs every `FALLBACK_S`, in case a
signal is lost. Without a subscriber there is no watch, no query and no task.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from perdure.app.change_feed.answers import LiveAnswers
from perdure.app.change_feed.history_tail import HistoryTail
from perdure.app.change_feed.progress import PendingProgress, ProgressReport
from perdure.app.change_feed.subscription import HOME_IS_CLOSED, Subscription
from perdure.app.outage_log import OutageLog
from perdure.errors import PerdureError, Unavailable
from perdure.kernel.calls.progress import CallProgress
from perdure.kernel.loop import Loop
from perdure.kernel.ports import Changes, Event, StateStore

FALLBACK_S = 1.0
_SPACING_S = 0.02
"""The minimum time between two queries, whatever the number of signals."""
_MAX_SEEN = 10_000
_FAILURES = 2
"""The number of failed queries in a row after which the failure is logged and raised to followers."""

log = logging.getLogger(__name__)


class ChangeFeed:
    """Publishes the changes of the goals of one home."""

    def __init__(self, store: StateStore, changes: Changes, *, fallback_s: float = FALLBACK_S) -> None:
        self.failure: PerdureError | None = None
        """The error of a lasting failure to read changes, or None."""
        self.answers = LiveAnswers()
        """The answers of models that arrive in this process."""
        self._store = store
        self._changes = changes
        self._fallback_s = fallback_s
        self._of_all: set[Subscription] = set()
        self._of_goal: dict[str, set[Subscription]] = {}
        self._tails: dict[str, HistoryTail] = {}
        self._seen: dict[str, int] = {}
        self._mark: Any = None
        self._failures = 0
        self._signalled = asyncio.Event()
        self._starting = asyncio.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reading: asyncio.Task[None] | None = None
        self._ended: list[asyncio.Task[None]] = []
        self._end_watch: Callable[[], None] | None = None
        self._is_closed = False
        self._outages = OutageLog(log, "polling for changes")

    @asynccontextmanager
    async def subscribe(self, *goal_ids: str, with_progress: bool = False) -> AsyncIterator[Subscription]:
        """Subscribe to changes of some goals, or of all goals if none is named, inside the block.

        Progress is only reported for one goal whose history is followed at the same time (see `tail`).
        If the store cannot be read now, the subscription is marked as having missed changes later.

        Raises: Unavailable when the home is closed.
        """
        subscription = Subscription(PendingProgress() if with_progress else None)
        self._add(subscription, goal_ids)
        try:
            await self._start()
            yield subscription
        finally:
            self._remove(subscription)

    def add(self, subscription: Subscription, goal_id: str) -> None:
        """Add a goal to a subscription, unless it is to all goals."""
        if subscription not in self._of_all:
            self._of_goal.setdefault(goal_id, set()).add(subscription)

    @contextmanager
    def tail(self, goal_id: str) -> Iterator[HistoryTail]:
        """Return the shared tail of a goal's history inside the block."""
        tail = self._tails.setdefault(goal_id, HistoryTail(self._store, goal_id))
        tail.followers += 1
        try:
            yield tail
        finally:
            tail.followers -= 1
            if not tail.followers and self._tails.get(goal_id) is tail:
                del self._tails[goal_id]

    def watch_run(self, loop: Loop) -> None:
        """Pass on what a run of this process reports: the progress of its calls, and answers while they arrive."""
        loop.progress.listen(self.report)
        self.answers.attach(loop.journal.goal_id, loop.answers)

    def report(self, progress: CallProgress) -> None:
        """Pass a progress report of a call of this process to the followers of its goal; callable from any thread."""
        if progress.goal_id in self._tails and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self._report, progress)

    def seq_of(self, goal_id: str) -> int:
        """Return the seq of the newest event of a goal that was published; 0 if there is none."""
        return self._seen.get(goal_id, 0)

    def wake_all(self) -> None:
        """Wake all subscribers, because something other than a goal has changed."""
        for subscription in self._subscriptions():
            subscription.wake()

    async def close(self) -> None:
        """End all subscriptions, and wait for the tasks of the feed."""
        self._is_closed = True
        for subscription in self._subscriptions():
            subscription.end()
        self._stop()
        await asyncio.gather(*self._ended, return_exceptions=True)

    def _subscriptions(self) -> set[Subscription]:
        return self._of_all.union(*self._of_goal.values())

    def _add(self, subscription: Subscription, goal_ids: Sequence[str]) -> None:
        if not goal_ids:
            self._of_all.add(subscription)
        for goal_id in goal_ids:
            self.add(subscription, goal_id)

    def _remove(self, subscription: Subscription) -> None:
        self._of_all.discard(subscription)
        for goal_id, subscriptions in tuple(self._of_goal.items()):
            subscriptions.discard(subscription)
            if not subscriptions:
                del self._of_goal[goal_id]
        if not self._of_all and not self._of_goal:
            self._stop()

    async def _start(self) -> None:
        """Start watching the store; all events that are appended after this are published."""
        async with self._starting:
            if self._is_closed:
                raise Unavailable(HOME_IS_CLOSED)
            if self._reading is not None:
                return
            self._loop, self._signalled = asyncio.get_running_loop(), asyncio.Event()
            self._end_watch = self._changes.watch(self._on_change)
            try:
                self._mark = (await self._changes.changes(None)).mark
            except PerdureError as error:
                self._mark = None
                self._fail(error)
            except BaseException:
                self._stop()
                raise
            self._reading = asyncio.create_task(self._read_changes())

    def _stop(self) -> None:
        end_watch, self._end_watch = self._end_watch, None
        if end_watch is not None:
            end_watch()
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            self._ended.append(reading)
            reading.add_done_callback(self._ended.remove)
        self._seen.clear()
        self._failures, self.failure = 0, None

    def _on_change(self, goal_id: str | None, events: Sequence[Event]) -> None:
        """Handle a signal of the store, which may arrive on any thread; see ChangeListener."""
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._take, goal_id, events)

    def _take(self, goal_id: str | None, events: Sequence[Event]) -> None:
        if goal_id is None:
            self._signalled.set()
        elif events:
            if goal_id in self._tails:
                self._tails[goal_id].push(events)
            self._notify(goal_id, events[-1].seq)
        else:
            for subscription in self._of_goal.get(goal_id, ()):
                subscription.miss()

    def _report(self, progress: CallProgress) -> None:
        tail = self._tails.get(progress.goal_id)
        if tail is not None and tail.last_seq:  # else no follower has received an event yet
            report = ProgressReport(progress.call_id, progress.text, tail.last_seq)
            for subscription in self._of_goal.get(progress.goal_id, ()):
                subscription.report(report)

    async def _read_changes(self) -> None:
        while True:
            try:
                await self._read()
            except PerdureError as error:
                self._fail(error)
            except Exception as error:  # noqa: BLE001 (the edge of this task: the feed must not end)
                self._fail(Unavailable(f"{type(error).__name__}: {error}"))
            else:
                self._outages.worked()
                self._failures, self.failure = 0, None
            await asyncio.sleep(_SPACING_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._fallback_s):
                    await self._signalled.wait()
            self._signalled.clear()

    async def _read(self) -> None:
        changed, is_first = await self._changes.changes(self._mark), self._mark is None
        self._mark = changed.mark
        if changed.is_reset or is_first:
            self._seen.clear()
            for tail in self._tails.values():
                tail.reset()
            for subscription in self._subscriptions():
                subscription.miss()
        for goal_id, seq in changed.goals.items():
            if goal_id in self._tails:
                self._tails[goal_id].note(seq)
            self._notify(goal_id, seq)

    def _fail(self, error: PerdureError) -> None:
        self._failures += 1
        if self._failures >= _FAILURES:
            self._outages.failed(error.detail)
            self.failure = error
            self.wake_all()

    def _notify(self, goal_id: str, seq: int) -> None:
        """Publish an event, unless it was published before."""
        if self._seen.get(goal_id, 0) >= seq:
            return
        self._seen[goal_id] = seq
        for subscription in (*self._of_all, *self._of_goal.get(goal_id, ())):
            subscription.add(goal_id)
        while len(self._seen) > _MAX_SEEN:
            del self._seen[next(iter(self._seen))]
