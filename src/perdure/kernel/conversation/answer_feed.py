"""An answer while it arrives: told to observers of this process, never recorded."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

DeltaKind = Literal["text", "thinking", "arguments"]


@dataclass(frozen=True, slots=True)
class AnswerDelta:
    """A piece of a turn; `offset` is how many code points of the part came before."""

    turn: int
    part: int
    kind: DeltaKind
    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class AnswerReset:
    """The answer begins anew: the pieces of the turn so far do not count."""

    turn: int


AnswerListener = Callable[[AnswerDelta | AnswerReset], None]


class AnswerFeed:
    """The answer that one goal waits for, if any. It is used on the event loop of the run alone."""

    def __init__(self) -> None:
        self._turn = 0
        self._parts: dict[int, tuple[DeltaKind, list[str]]] = {}
        self._listeners: list[AnswerListener] = []

    def listen(self, listener: AnswerListener) -> Callable[[], None]:
        """Call a function with each piece from now on; return what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def partial(self) -> Sequence[AnswerDelta]:
        """Return what has arrived by now, one piece for each part; nothing when no answer arrives."""
        found = sorted(self._parts.items())
        return [AnswerDelta(self._turn, part, kind, "".join(texts), 0) for part, (kind, texts) in found]

    def begin(self, turn: int) -> None:
        """Begin a turn."""
        self._turn, self._parts = turn, {}

    def add(self, part: int, kind: DeltaKind, text: str, offset: int) -> None:
        """Tell a piece."""
        self._parts.setdefault(part, (kind, []))[1].append(text)
        self._tell(AnswerDelta(self._turn, part, kind, text, offset))

    def reset(self) -> None:
        """Tell that the answer begins anew."""
        self._parts = {}
        self._tell(AnswerReset(self._turn))

    def end(self) -> None:
        """Forget the answer, whose event replaces it."""
        self._parts = {}

    def _tell(self, piece: AnswerDelta | AnswerReset) -> None:
        for listener in tuple(self._listeners):
            listener(piece)
