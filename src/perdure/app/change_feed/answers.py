"""The answers of models while they arrive in this process, for followers of their goals; parts are never stored."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from perdure.kernel.conversation.answer_feed import AnswerDelta, AnswerFeed, AnswerReset, DeltaKind
from perdure.kernel.conversation.messages import ModelTurn
from perdure.kernel.events import Event, decode

if TYPE_CHECKING:
    from perdure.app.change_feed.subscription import Subscription

MAX_WAITING = 64 << 10
"""Maximum number of pending characters of an answer; a slower follower gets the whole text so far instead."""


@dataclass(frozen=True, slots=True)
class PartialAnswer:
    """The text so far of a part of an answer: it replaces the text that a follower has."""

    turn: int
    part: int
    kind: DeltaKind
    text: str


AnswerUpdate = PartialAnswer | AnswerDelta | AnswerReset
"""An update of an arriving answer for a follower."""


class PendingAnswer:
    """The pieces of the answer of one goal that a follower has not taken yet.

    A new follower, or one that is slower than the answer, gets the text so far instead of pieces.
    """

    def __init__(self, partial: Callable[[], Sequence[AnswerDelta]]) -> None:
        self._partial = partial
        self._pieces: list[AnswerDelta | AnswerReset] = []
        self._size = 0
        self._is_behind = self._has_pieces = True

    def __bool__(self) -> bool:
        return self._has_pieces

    def put(self, piece: AnswerDelta | AnswerReset) -> None:
        """Keep a piece; with too many of them, drop all."""
        self._has_pieces = True
        if self._is_behind:
            return
        if isinstance(piece, AnswerReset):
            self._drop(lambda each: each.turn == piece.turn)
            self._pieces.append(piece)
            return
        self._append(piece)
        if self._size > MAX_WAITING:
            self._drop(lambda _each: True)
            self._is_behind = True

    def take(self) -> Sequence[AnswerUpdate]:
        """Return the pieces in order, or the text so far, and forget them."""
        self._has_pieces = False
        if self._is_behind:
            self._is_behind = False
            return [PartialAnswer(each.turn, each.part, each.kind, each.text) for each in self._partial()]
        taken, self._pieces, self._size = self._pieces, [], 0
        return taken

    def forget_recorded(self, page: Sequence[Event]) -> None:
        """Drop the pieces of answers whose events are on a page: the events replace them."""
        for event in page:
            if event.type == "model_turn" and isinstance(turn := decode(event), ModelTurn):
                self._drop(lambda each, last=turn.turn: each.turn <= last)  # type: ignore[misc]

    def _append(self, piece: AnswerDelta) -> None:
        """Append a piece, joined to the one before where it continues it."""
        last = self._pieces[-1] if self._pieces else None
        self._size += len(piece.text)
        if isinstance(last, AnswerDelta) and (last.turn, last.part, last.kind) == (piece.turn, piece.part, piece.kind):
            self._pieces[-1] = replace(last, text=last.text + piece.text)
        else:
            self._pieces.append(piece)

    def _drop(self, is_dropped: Callable[[AnswerDelta | AnswerReset], bool]) -> None:
        self._pieces = [each for each in self._pieces if not is_dropped(each)]
        self._size = sum(len(each.text) for each in self._pieces if isinstance(each, AnswerDelta))


class LiveAnswers:
    """The answers that arrive in this process. To be used only on the event loop of the runs."""

    def __init__(self) -> None:
        self._feeds: WeakValueDictionary[str, AnswerFeed] = WeakValueDictionary()
        self._followers: dict[str, set[Subscription]] = {}

    def attach(self, goal_id: str, feed: AnswerFeed) -> None:
        """Pass the answers of a run to the followers of its goal, as long as the run keeps its feed."""
        self._feeds[goal_id] = feed
        feed.listen(lambda piece: self._notify(goal_id, piece))

    @contextmanager
    def followed(self, goal_id: str, subscription: "Subscription") -> Iterator[PendingAnswer]:
        """Pass the answers of a goal to a subscription until the end of the block."""
        subscription.answer = PendingAnswer(lambda: self._partial(goal_id))
        followers = self._followers.setdefault(goal_id, set())
        followers.add(subscription)
        try:
            yield subscription.answer
        finally:
            followers.discard(subscription)
            if not followers and self._followers.get(goal_id) is followers:
                del self._followers[goal_id]

    def _partial(self, goal_id: str) -> Sequence[AnswerDelta]:
        feed = self._feeds.get(goal_id)
        return () if feed is None else feed.partial()

    def _notify(self, goal_id: str, piece: AnswerDelta | AnswerReset) -> None:
        for subscription in self._followers.get(goal_id, ()):
            subscription.report_answer(piece)
