"""What asks the questions: the contract of every engine, and the built-in one, which needs no model."""

from typing import Protocol

from perdure.forge.answers import BuilderAnswer
from perdure.forge.interview.interview import answered, begin, begin_again, resumed
from perdure.forge.state import BuilderState, Surroundings, Target


class BuilderEngine(Protocol):
    """Asks the questions: the built-in one, or a model."""

    async def start(self, session_id: str, description: str, surroundings: Surroundings) -> BuilderState:
        """Begin an interview about a new bot; its first turn is pending.

        Raises: Invalid
        """
        ...

    async def next_turn(self, state: BuilderState, answer: BuilderAnswer) -> BuilderState:
        """Return the state after an answer, with the next turn pending.

        Raises: Invalid when the answer does not fit; the state is what it was.
        """
        ...

    async def resume(self, state: BuilderState) -> BuilderState:
        """Resume an interview; its pending turn is the one that was asked, or is asked again if it was not kept."""
        ...

    async def reconfigure(
        self, session_id: str, description: str, surroundings: Surroundings, target: Target
    ) -> BuilderState:
        """Begin an interview about a bot that is there already.

        Raises: Invalid
        """
        ...


class BuiltinEngine:
    """The interview with no model: deterministic, and never unavailable. See BuilderEngine."""

    name = "builtin"

    async def start(self, session_id: str, description: str, surroundings: Surroundings) -> BuilderState:
        """See BuilderEngine.start."""
        return begin(session_id, description, surroundings)

    async def next_turn(self, state: BuilderState, answer: BuilderAnswer) -> BuilderState:
        """See BuilderEngine.next_turn."""
        return answered(state, answer)

    async def resume(self, state: BuilderState) -> BuilderState:
        """See BuilderEngine.resume."""
        return resumed(state)

    async def reconfigure(
        self, session_id: str, description: str, surroundings: Surroundings, target: Target
    ) -> BuilderState:
        """See BuilderEngine.reconfigure."""
        return begin_again(session_id, description, surroundings, target)
