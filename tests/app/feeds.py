"""Change feeds over a database that another process, or another client, writes."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from perdure.app.change_feed.feed import ChangeFeed
from perdure.app.change_feed.subscription import Subscription
from perdure.kernel.ports import GoalStore
from perdure.store.client import DatabaseClient
from tests.contracts.histories import HELLO, History, Stored, begin

NEVER_S = 3600.0
DEADLINE_S = 30.0


@dataclass
class Feed:
    """A feed, and a client beside it that the feed knows nothing of."""

    feed: ChangeFeed
    store: GoalStore
    beside: Stored

    async def begin_beside(self, goal_id: str, messages: int = 0) -> History:
        return await begin(self.beside, goal_id, *[HELLO] * messages)


@asynccontextmanager
async def opened(url: str, *, fallback_s: float = NEVER_S, debug: bool = False) -> AsyncIterator[Feed]:
    """Open a feed that does not poll, unless it is said how often."""
    async with (
        await DatabaseClient.create(url, debug=debug) as database,
        await DatabaseClient.create(url, migrate=False) as other,
    ):
        store = database.state_store()
        feed = ChangeFeed(store, store, fallback_s=fallback_s)
        try:
            yield Feed(feed, database.state_store(), stored_in(other))
        finally:
            await feed.close()


def stored_in(database: DatabaseClient) -> Stored:
    leases = database.leases(boottime_s=lambda: 0.0, is_dead=lambda _: False)
    return Stored(database.state_store(), leases, set())


async def hears(changes: Subscription, *goal_ids: str) -> None:
    """Wait until a subscription was told of all of some goals."""
    left = set(goal_ids)
    async with asyncio.timeout(DEADLINE_S):
        while left:
            left -= set(await changes.wait(DEADLINE_S))


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_so():  # noqa: ASYNC110 (nothing announces it)
            await asyncio.sleep(0.005)


def watching_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "perdure-commits"]


async def append_in_child(url: str, goal_id: str) -> None:
    """The job of another process: begin a goal, and end without a word."""
    async with await DatabaseClient.create(url, migrate=False) as database:
        with suppress(asyncio.CancelledError):
            await begin(stored_in(database), goal_id, HELLO)
