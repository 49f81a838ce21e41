"""The proposal of a model for the next turn: its JSON Schema, and how it becomes a turn of the interview.

A model decides which open question comes next, how it is worded, what is offered and suggested, and which questions the
person has answered already. It does not decide what a bot consists of: every value is read by the slot that it belongs
to, as the words of a person are. So the built-in interviewer can resume any session that a model has led.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from perdure.errors import Invalid
from perdure.forge.answers import FreeText, text_of
from perdure.forge.interview.interview import begin_questions, set_stated
from perdure.forge.interview.planning import question_turn, questions
from perdure.forge.questions.model import MODEL
from perdure.forge.questions.skills import SKILLS
from perdure.forge.questions.slot import Slot
from perdure.forge.state import KEEP, MODEL_OPTION, BuilderState
from perdure.forge.turns import AskQuestion, Clarify, Option, Suggestion

_MOST_OPTIONS = 5
_MOST_STATED = 4
_LONGEST_QUESTION = 200
_LONGEST_LABEL = 60
_LONGEST_REASON = 120
_LONGEST_VALUE = 200
_LONGEST_ANSWER = 50_000


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Stated(_Part):
    """An open question that the person has answered without being asked."""

    slot: str
    value: str


class ProposedOption(_Part):
    """An option: one of the built-in question, or one that the model words."""

    id: str | None
    label: str
    description: str


class Proposal(_Part):
    """One answer of the model."""

    stated: list[Stated]
    slot: str
    question: str
    options: list[ProposedOption] = Field(max_length=_MOST_OPTIONS + 2)
    suggested: int | None
    reason: str


def open_slots(state: BuilderState) -> Sequence[Slot]:
    """Return the open questions that a model may word: all but the question of the model."""
    return [slot for slot in questions(state) if state.answer_to(slot.name) is None and slot is not MODEL]


def may_clarify(state: BuilderState) -> bool:
    """Return whether the model may ask for a longer description: where the built-in engine does."""
    return isinstance(state.pending_turn, Clarify)


def schema_of(state: BuilderState) -> dict[str, Any]:
    """Return the JSON Schema of a proposal for the next turn of a session."""
    names = [slot.name for slot in open_slots(state)]
    turns = [*names, CLARIFY] if may_clarify(state) else names
    option = _object(
        id={"type": ["string", "null"], "description": "The id of a built-in option, or null for your own."},
        label={"type": "string", "maxLength": _LONGEST_LABEL},
        description={"type": "string", "maxLength": _LONGEST_REASON, "description": "A short reason."},
    )
    stated = _object(slot={"type": "string", "enum": names}, value={"type": "string", "maxLength": _LONGEST_VALUE})
    return _object(
        stated={"type": "array", "items": stated, "maxItems": _MOST_STATED},
        slot={"type": "string", "enum": turns, "description": "What the next turn asks."},
        question={"type": "string", "maxLength": _LONGEST_QUESTION},
        options={"type": "array", "items": option, "maxItems": _MOST_OPTIONS},
        suggested={"type": ["integer", "null"], "description": "The index of the suggested option, from 0."},
        reason={"type": "string", "maxLength": _LONGEST_REASON, "description": "Why it is suggested."},
    )


CLARIFY = "clarify"
"""Stands for a slot: the turn asks for a longer description."""


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


def read_proposal(text: str) -> Proposal:
    """Read the answer of a model.

    Raises: Invalid, naming what is wrong, for the model to repair.
    """
    if len(text) > _LONGEST_ANSWER:
        raise Invalid(f"The answer must have at most {_LONGEST_ANSWER:,} characters; found {len(text):,}.")
    try:
        return Proposal.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "the JSON"
        raise Invalid(f"{where}: {first['msg']}.") from None


def apply_proposal(state: BuilderState, proposal: Proposal) -> BuilderState:
    """Return a state with the proposed turn pending; what the person has stated is set first.

    If the proposed question is not open in the present phase, the built-in next question stays pending.

        Raises: Invalid, naming what is wrong, for the model to repair.
    """
    if proposal.slot == CLARIFY:
        if not may_clarify(state):
            raise Invalid("slot: a longer description cannot be asked for any more.")
        message = _line(proposal.question, "question", _LONGEST_QUESTION)
        turn = Clarify(message=message, engine="model")
        return state.model_copy(update={"pending_turn": turn, "pending_slot": None})
    if isinstance(state.pending_turn, Clarify):
        state = begin_questions(state)
    if state.target is None:
        for each in proposal.stated:
            state = _set_stated(state, each)
    return _apply_wording(state, proposal)


def _set_stated(state: BuilderState, stated: Stated) -> BuilderState:
    slot = next((slot for slot in open_slots(state) if slot.name == stated.slot), None)
    if slot is None or any(each.slot == slot.name for each in state.earlier):
        return state  # stated twice, or closed by what was stated before; an earlier answer is asked again
    try:
        return set_stated(state, slot, slot.read(state, text_of(FreeText(free_text=stated.value))))
    except Invalid as error:
        raise Invalid(f"stated.{stated.slot}: {error.detail}") from None


def _apply_wording(state: BuilderState, proposal: Proposal) -> BuilderState:
    """Return the state with the proposed question pending, in the model's words; unchanged if it cannot be asked."""
    here = [slot for slot in open_slots(state) if slot.phase == state.phase]
    slot = next((each for each in here if each.name == proposal.slot), None)
    if slot is None or not isinstance(state.pending_turn, AskQuestion) or state.pending_slot == MODEL.name:
        return state
    builtin_turn = question_turn(state, slot)
    options = _options(state, slot, builtin_turn, proposal)
    update = {
        "question": _line(proposal.question, "question", _LONGEST_QUESTION),
        "options": tuple(options),
        "suggestion": _suggestion(builtin_turn, options, proposal),
        "engine": "model",
    }
    return state.model_copy(update={"pending_turn": builtin_turn.model_copy(update=update), "pending_slot": slot.name})


def _options(state: BuilderState, slot: Slot, builtin_turn: AskQuestion, proposal: Proposal) -> list[Option]:
    """Return the proposed options; each is one of the built-in question, or reads as an answer to it.

    The label of a built-in option is unchanged, because it says what the id sets. In a reconfiguration the present
        value can always be kept.
    """
    builtin_options = {each.id: each for each in builtin_turn.options}
    options: dict[str, Option] = {KEEP: builtin_options[KEEP]} if KEEP in builtin_options else {}
    for number, each in enumerate(proposal.options):
        reason = _line(each.description, f"options.{number}.description", _LONGEST_REASON)
        if each.id in builtin_options:
            options[each.id] = builtin_options[each.id].model_copy(update={"description": reason})
            continue
        if slot is SKILLS:
            raise Invalid(f"options.{number}.id: {each.id!r} is not one of {', '.join(builtin_options)}.")
        label = _line(each.label, f"options.{number}.label", _LONGEST_LABEL)
        try:
            slot.read(state, label)
        except Invalid as error:
            raise Invalid(f"options.{number}.label: {error.detail}") from None
        options[f"{MODEL_OPTION}{number}"] = Option(id=f"{MODEL_OPTION}{number}", label=label, description=reason)
    return list(options.values()) or list(builtin_turn.options)


def _suggestion(builtin_turn: AskQuestion, options: Sequence[Option], proposal: Proposal) -> Suggestion | None:
    """Return the suggestion from past choices, which has priority, or else that of the model."""
    ids = [each.id for each in options]
    if builtin_turn.suggestion is not None and builtin_turn.suggestion.option_id in ids:
        return builtin_turn.suggestion
    if proposal.suggested is None or not 0 <= proposal.suggested < len(proposal.options):
        return None
    proposed = proposal.options[proposal.suggested]
    id_ = proposed.id if proposed.id in ids else f"{MODEL_OPTION}{proposal.suggested}"
    reason = " ".join(proposal.reason.split())[:_LONGEST_REASON]
    if not reason or not reason.isprintable():
        reason = "it fits what you said"
    return Suggestion(option_id=id_, reason=reason) if id_ in ids else None


def _line(text: str, where: str, longest: int) -> str:
    """Return one line of printable text.

    Raises: Invalid
    """
    line = " ".join(text.split())
    if not line or not line.isprintable():
        raise Invalid(f"{where}: must be one line of printable text.")
    if len(line) > longest:
        raise Invalid(f"{where}: must have at most {longest} characters; found {len(line)}.")
    return line
