"""LlmBuilderAgent: the interview engine that asks a model for each question."""

import logging
from dataclasses import dataclass, replace

from perdure.errors import Invalid, Unavailable
from perdure.forge.answers import BuilderAnswer
from perdure.forge.interview.engine import BuiltinEngine
from perdure.forge.llm.prompt import SYSTEM, correction, messages_of
from perdure.forge.llm.proposal import apply_proposal, open_slots, read_proposal, schema_of
from perdure.forge.questions.model import MODEL
from perdure.forge.state import BuilderState, InterviewContext, Target
from perdure.forge.turns import AskQuestion, Clarify
from perdure.forge.vocabulary import WITHOUT_MODEL, EngineName
from perdure.minds.model.ports import (
    Delta,
    DeltaReset,
    ModelAnswer,
    ModelClient,
    ModelFailed,
    ModelParts,
    ModelRequest,
    ModelSettings,
    TextPart,
)
from perdure.text.storable import without_surrogates

log = logging.getLogger(__name__)

_LONGEST_ANSWER = 1024
_LONGEST_SHOWN = 8_000
"""Maximum number of characters of an invalid answer that are sent back to the model with the correction."""
_REPAIRS = 1
_NOTE = "The model's proposal could not be used, so this question is the built-in one."


@dataclass(frozen=True)
class ModelChoice:
    """The model that leads interviews, and those that are asked when it does not answer."""

    name: str
    fallbacks: tuple[str, ...] = ()


class LlmBuilderAgent:
    """Leads an interview with a model. See BuilderEngine.

    The built-in engine applies each answer; the model then words the next question. If its proposal is invalid, also
        after one correction, the question of the built-in engine is asked, with a note.

        Raises, from every method: Unavailable when no model answers; the state of the caller is unchanged.
    """

    name: EngineName = "model"

    def __init__(self, client: ModelClient, model: ModelChoice) -> None:
        self._client = client
        self._model = model
        self._builtin = BuiltinEngine()

    async def start(self, session_id: str, description: str, context: InterviewContext) -> BuilderState:
        """See BuilderEngine.start."""
        return await self._lead(await self._builtin.start(session_id, description, context))

    async def next_turn(self, state: BuilderState, answer: BuilderAnswer) -> BuilderState:
        """See BuilderEngine.next_turn."""
        after = await self._builtin.next_turn(state, answer)
        return state if after == state else await self._lead(after)

    async def resume(self, state: BuilderState) -> BuilderState:
        """See BuilderEngine.resume; the model is not asked for a turn that is pending."""
        return await self._builtin.resume(state)

    async def reconfigure(
        self, session_id: str, description: str, context: InterviewContext, target: Target
    ) -> BuilderState:
        """See BuilderEngine.reconfigure."""
        return await self._lead(await self._builtin.reconfigure(session_id, description, context, target))

    async def _lead(self, state: BuilderState) -> BuilderState:
        """Let the model word the pending turn, except the question of the model and the final confirmation."""
        state = state.model_copy(update={"engine": "model"})
        if not isinstance(state.pending_turn, AskQuestion | Clarify) or state.pending_slot == MODEL.name:
            return state
        if isinstance(state.pending_turn, AskQuestion) and not open_slots(state):
            return state
        request = ModelRequest(
            self._model.name,
            SYSTEM,
            messages_of(state),
            settings=ModelSettings(max_tokens=_LONGEST_ANSWER),
            output_schema=schema_of(state),
            fallbacks=self._model.fallbacks,
        )
        return await self._ask_and_apply(state, request)

    async def _ask_and_apply(self, state: BuilderState, request: ModelRequest) -> BuilderState:
        """Return the state with the turn that the model proposes, or with the built-in one and a note."""
        messages = [*request.messages]
        for attempt in range(_REPAIRS + 1):
            answer = await self._ask(replace(request, messages=messages))
            try:
                return apply_proposal(state, read_proposal(_text(answer)))
            except Invalid as error:
                log.info("proposal %d of %s is not usable: %s", attempt + 1, answer.model, error.detail)
                unusable = _text(answer)[:_LONGEST_SHOWN] or "(no text)"
                messages += [ModelParts([TextPart(unusable)]), correction(error.detail)]
        assert state.pending_turn is not None  # noqa: S101 (`_lead` has checked it)
        turn = state.pending_turn.model_copy(update={"note": _NOTE})
        return state.model_copy(update={"pending_turn": turn})

    async def _ask(self, request: ModelRequest) -> ModelAnswer:
        """Return the answer of a model.

        Raises: Unavailable, naming the command that fixes it, and the engine that needs no model.
        """
        try:
            return await self._client.answer(request, _ignore)
        except ModelFailed as error:
            raise Unavailable(f"{error.detail} {WITHOUT_MODEL}") from error


def _text(answer: ModelAnswer) -> str:
    """Return the text of an answer, without what no text can contain."""
    return without_surrogates("".join(part.text for part in answer.parts if isinstance(part, TextPart)))


def _ignore(_delta: Delta | DeltaReset) -> None:
    """Ignore a part of the answer: an incomplete proposal cannot be shown."""
