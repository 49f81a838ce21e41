"""Answers that arrive: a follower that is quick gets every piece, and one that is slow the text so far."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from perdure.app.change_feed.answers import MAX_WAITING, LiveAnswers, PartialAnswer, PendingAnswer
from perdure.app.change_feed.subscription import Subscription
from perdure.kernel.conversation.answer_feed import AnswerDelta, AnswerFeed, AnswerReset


@pytest.fixture
def feed() -> AnswerFeed:
    feed = AnswerFeed()
    feed.begin(1)
    return feed


@contextmanager
def followed(feed: AnswerFeed) -> Iterator[PendingAnswer]:
    answers = LiveAnswers()
    answers.attach("g", feed)
    with answers.followed("g", Subscription()) as answer:
        yield answer


async def test_a_follower_begins_with_the_text_so_far_and_then_gets_pieces(feed: AnswerFeed) -> None:
    feed.add(0, "text", "Hel", 0)
    with followed(feed) as answer:
        assert answer.take() == [PartialAnswer(1, 0, "text", "Hel")]
        feed.add(0, "text", "lo", 3)
        feed.add(0, "text", "!", 5)
        feed.add(1, "arguments", "{}", 0)
        assert answer.take() == [AnswerDelta(1, 0, "text", "lo!", 3), AnswerDelta(1, 1, "arguments", "{}", 0)]
        assert not answer


async def test_pieces_that_are_not_taken_are_dropped_and_replaced_by_the_text_so_far(feed: AnswerFeed) -> None:
    with followed(feed) as answer:
        assert answer.take() == []
        size = MAX_WAITING // 4
        for number in range(12):
            feed.add(0, "text", "x" * size, number * size)
        assert answer.take() == [PartialAnswer(1, 0, "text", "x" * 12 * size)]
        feed.add(0, "text", "y", 12 * size)
        assert answer.take() == [AnswerDelta(1, 0, "text", "y", 12 * size)]


async def test_an_answer_that_begins_again_resets_its_pieces(feed: AnswerFeed) -> None:
    with followed(feed) as answer:
        answer.take()
        feed.add(0, "text", "no", 0)
        feed.reset()
        feed.add(0, "text", "yes", 0)
        assert answer.take() == [AnswerReset(1), AnswerDelta(1, 0, "text", "yes", 0)]


async def test_a_run_that_is_over_leaves_nothing() -> None:
    answers = LiveAnswers()
    answers.attach("g", AnswerFeed())
    with answers.followed("g", Subscription()) as answer:
        assert answer.take() == []
    assert (len(answers._feeds), answers._followers) == (0, {})
