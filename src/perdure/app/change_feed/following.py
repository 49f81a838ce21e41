"""Follows the history of a goal: existing and new events, until the goal has ended."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import nullcontext
from typing import cast

from perdure.app.change_feed.feed import ChangeFeed
from perdure.app.change_feed.progress import PendingProgress, Update
from perdure.app.change_feed.subscription import Subscription
from perdure.app.goals.arguments import validate
from perdure.kernel.events import Event

QUIET_S = 5.0
"""The time without events after which an empty page is yielded."""
_END = "termination"


def follow_pages(feed: ChangeFeed, goal_id: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
    """Yield the existing and new events of a goal after a seq in pages, each event once and in order.

    The iteration ends when the goal has ended; a goal that is reopened before all its events were read is followed to
    its next end. An empty page is yielded after a time without events, or when the subscribers of the feed are woken.

    Raises: NotFound; Conflict, with `last_seq`, when the goal has fewer events; Damaged; Unavailable.
    """
    return cast("AsyncGenerator[Sequence[Event], None]", follow_updates(feed, goal_id, after, with_progress=False))


async def follow_updates(
    feed: ChangeFeed, goal_id: str, after: int, *, with_progress: bool = True, with_answers: bool = False
) -> AsyncGenerator[Sequence[Update], None]:
    """Yield the events of a goal as `follow_pages` does, with the progress reports of calls of this process.

    `with_answers` also yields the answers of a model while they arrive in this process, beginning with the text so far.
    A follower that is slower than the reports misses some of them, and never an event.

    Raises: as `follow_pages`.
    """
    async with feed.subscribe(goal_id, with_progress=with_progress) as news:
        progress = news.progress if news.progress is not None else PendingProgress()
        answered = feed.answers.followed(goal_id, news) if with_answers else nullcontext()
        with feed.tail(goal_id) as tail, answered as answer:
            row = await tail.look_up()
            validate.require_seq(row, after)
            is_ended = row.is_final and after >= row.last_seq
            while True:
                while page := await tail.page(after):
                    after = page[-1].seq
                    is_ended = page[-1].type == _END
                    yield progress.among(page)
                    if answer:
                        answer.forget_recorded(page)
                if is_ended and after >= tail.last_seq:
                    return
                if progress:
                    yield progress.take()
                if answer and (pieces := answer.take()):
                    yield pieces
                has_changed = bool(await news.wait(QUIET_S))
                is_reported = bool(progress or answer) and not news.has_missed and feed.failure is None
                has_news = has_changed or is_reported
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
            validate.require_seq(row, after)
