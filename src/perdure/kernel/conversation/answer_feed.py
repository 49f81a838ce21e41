"""An answer of a model while it arrives: published to observers in this process, never recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

DeltaKind = Literal["text", "thinking", "arguments"]


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """A piece of a turn; `offset` is its position in the part, in code points."""

    turn: int
    part: int
    kind: DeltaKind
    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class AnswerReset:
    """The answer starts again: earlier pieces of the turn are invalid."""

    turn: int


AnswerListener = Callable[[AnswerDelta | AnswerReset], None]


class AnswerFeed:
    """The answer that one goal waits for. To be used only on the event loop of the run."""

    def __init__(self) -> None:
        self._turn = 0
        self._parts: dict[int, tuple[DeltaKind, list[str]]] = {}
        self._listeners: list[AnswerListener] = []

    def listen(self, listener: AnswerListener) -> Callable[[], None]:
        """Call a function with each later piece; return a function that unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def partial(self) -> Sequence[AnswerDelta]:
        """Return the answer so far, one piece for each part; nothing when no answer is expected."""
        found = sorted(self._parts.items())
        return [AnswerDelta(self._turn, part, kind, "".join(texts), 0) for part, (kind, texts) in found]

    def begin(self, turn: int) -> None:
        """Begin a turn."""
        self._turn, self._parts = turn, {}

    def add(self, part: int, kind: DeltaKind, text: str, offset: int) -> None:
        """Publish a piece."""
        self._parts.setdefault(part, (kind, []))[1].append(text)
        self._notify(AnswerDelta(self._turn, part, kind, text, offset))

    def reset(self) -> None:
        """Publish that the answer starts again."""
        self._parts = {}
        self._notify(AnswerReset(self._turn))

    def end(self) -> None:
        """Forget the answer, whose event replaces it."""
        self._parts = {}

    def _notify(self, piece: AnswerDelta | AnswerReset) -> None:
        for listener in tuple(self._listeners):
            listener(piece)
