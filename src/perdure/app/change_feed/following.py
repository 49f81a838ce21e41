"""Follows the history of a goal: the events that are there, then those that come, until it has ended."""

from collections.abc import AsyncGenerator, Sequence
from typing import cast

from perdure.app.change_feed.feed import ChangeFeed
from perdure.app.change_feed.progress import PendingProgress, Update
from perdure.app.change_feed.subscription import Subscription
from perdure.app.goals.arguments import validate
from perdure.kernel.events import Event

QUIET_S = 5.0
"""How long nothing has to happen before an empty page is yielded."""
_END = "termination"


def follow_pages(feed: ChangeFeed, goal_id: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
    """Yield the events of a goal after a seq in pages, then those that come, each once and in order.

    It ends when the goal has ended; a goal that is reopened before all its events were read is followed to its next
    end. An empty page is yielded when nothing has happened for a while, or the subscribers of the feed were woken.

    Raises: NotFound; Conflict, with `last_seq`, when the goal has fewer events; Damaged; Unavailable.
    """
    return cast("AsyncGenerator[Sequence[Event], None]", follow_updates(feed, goal_id, after, with_progress=False))


async def follow_updates(
    feed: ChangeFeed, goal_id: str, after: int, *, with_progress: bool = True
) -> AsyncGenerator[Sequence[Update], None]:
    """Yield the events of a goal as `follow_pages` does, and between them what its calls report in this process.

    A follower that is slower than the reports misses some of them, and never an event.

    Raises: as `follow_pages`.
    """
    async with feed.subscribe(goal_id, with_progress=with_progress) as news:
        progress = news.progress if news.progress is not None else PendingProgress()
        with feed.tail(goal_id) as tail:
            row = await tail.look_up()
            validate.reached(row, after)
            is_ended = row.is_final and after >= row.last_seq
            while True:
                while page := await tail.page(after):
                    after = page[-1].seq
                    is_ended = page[-1].type == _END
                    yield progress.among(page)
                if is_ended and after >= tail.last_seq:
                    return
                if progress:
                    yield progress.take()
                has_news = bool(await news.wait(QUIET_S)) or (progress and not news.has_missed and feed.failure is None)
                if has_news:
                    continue
                yield ()
                await _check(feed, news, goal_id, after)


async def _check(feed: ChangeFeed, news: Subscription, goal_id: str, after: int) -> None:
    """Check that a goal can still be followed from a seq.

    Raises: NotFound; Conflict when the store was restored to a state before it; Unavailable.
    """
    if feed.failure is not None:
        raise feed.failure
    with feed.tail(goal_id) as tail:
        has_missed, news.has_missed = news.has_missed, False
        row = await tail.look_up() if has_missed else await tail.look_up_if_old()
        if row is not None:
            validate.reached(row, after)
