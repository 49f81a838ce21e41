"""Engines of the interview: the port, and the built-in engine, which does not need a model."""

from typing import Protocol

from perdure.forge.answers import BuilderAnswer
from perdure.forge.interview.interview import apply_answer, resume_interview, start_interview, start_reconfiguration
from perdure.forge.state import BuilderState, InterviewContext, Target
from perdure.forge.vocabulary import EngineName


class BuilderEngine(Protocol):
    """Leads an interview: the built-in engine, or a model."""

    @property
    def name(self) -> EngineName:
        """The name of the engine, as sessions record it."""
        ...

    async def start(self, session_id: str, description: str, context: InterviewContext) -> BuilderState:
        """Start an interview about a new bot; its first turn is pending.

        Raises: Invalid
        """
        ...

    async def next_turn(self, state: BuilderState, answer: BuilderAnswer) -> BuilderState:
        """Return the state after an answer, with the next turn pending.

        Raises: Invalid when the answer does not fit the pending turn; the state is unchanged.
        """
        ...

    async def resume(self, state: BuilderState) -> BuilderState:
        """Return a state with its turn pending; a turn that the draft lacks is made again."""
        ...

    async def reconfigure(
        self, session_id: str, description: str, context: InterviewContext, target: Target
    ) -> BuilderState:
        """Start an interview about changes of an existing bot.

        Raises: Invalid
        """
        ...


class BuiltinEngine:
    """The deterministic interview, without a model. See BuilderEngine."""

    name: EngineName = "builtin"

    async def start(self, session_id: str, description: str, context: InterviewContext) -> BuilderState:
        """See BuilderEngine.start."""
        return start_interview(session_id, description, context)

    async def next_turn(self, state: BuilderState, answer: BuilderAnswer) -> BuilderState:
        """See BuilderEngine.next_turn."""
        return apply_answer(state, answer)

    async def resume(self, state: BuilderState) -> BuilderState:
        """See BuilderEngine.resume."""
        return resume_interview(state)

    async def reconfigure(
        self, session_id: str, description: str, context: InterviewContext, target: Target
    ) -> BuilderState:
        """See BuilderEngine.reconfigure."""
        return start_reconfiguration(session_id, description, context, target)
