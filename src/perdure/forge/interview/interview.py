"""The interview: how a session goes from one turn to the next. Pure: a state and an answer give a state.

An interview is decided by what was said: the same description, surroundings and answers always lead to the same
state, whatever was taken back in between.
"""

from collections.abc import Sequence
from typing import Any

from perdure.errors import Invalid
from perdure.forge.answers import (
    Back,
    BuilderAnswer,
    Confirm,
    FreeText,
    OptionIndex,
    OptionIndexes,
    is_help,
    is_undecided,
    text_of,
)
from perdure.forge.categories import purpose_of
from perdure.forge.config import LONGEST_TEXT, PartialConfig
from perdure.forge.interview.finish import complete, preview
from perdure.forge.interview.planning import is_of, known_fields, question_turn, questions, wished_for
from perdure.forge.questions import SLOTS
from perdure.forge.questions.slot import Slot, filled
from perdure.forge.state import KEEP, WISHED, BuilderState, Exchange, Surroundings, Target
from perdure.forge.turns import AskQuestion, Clarify, Option, ReadyToAssemble, ShowPreview
from perdure.forge.vocabulary import BuilderMode, BuilderPhase, PurposeCategory

_READABLE = 10**9
_NEEDS_MORE = (PurposeCategory.COMPLEX_ANALYST, PurposeCategory.RESEARCH, PurposeCategory.CUSTOM)
"""Bots of which one word says too little to ask sensible questions."""


def begin(session_id: str, description: str, surroundings: Surroundings) -> BuilderState:
    """Start an interview about a new bot.

    Raises: Invalid when the description is empty or no text.
    """
    state = BuilderState(
        session_id=session_id,
        mode=BuilderMode.BOT,
        initial_description=text_of(FreeText(free_text=description), "The description"),
        surroundings=surroundings,
    )
    return _opened(state)


def _opened(state: BuilderState) -> BuilderState:
    """Say the first thing about a new bot."""
    found = purpose_of(state.description)
    has_room = len(state.description) < LONGEST_TEXT // 2
    if found.is_vague and found.category in _NEEDS_MORE and has_room:
        message = "Tell me a little more: what should it do, about what, and for whom?"
        return state.model_copy(update={"pending_turn": Clarify(message=message), "pending_slot": None})
    return _entered(state, BuilderPhase.BASICS)


def begin_again(session_id: str, description: str, surroundings: Surroundings, target: Target) -> BuilderState:
    """Start an interview about a bot that is there already: what is to change is asked, and then that alone."""
    wish = description.strip() or f"Change {target.slug}"
    state = BuilderState(
        session_id=session_id,
        mode=BuilderMode.RECONFIGURE,
        initial_description=text_of(FreeText(free_text=wish), "The description"),
        purpose_category=target.config["category"],
        surroundings=surroundings,
        target=target,
    )
    return _entered(state, BuilderPhase.BASICS)


def resumed(state: BuilderState) -> BuilderState:
    """Resume an interview: the pending turn is the one that was asked; if it was not kept, it is asked again."""
    if state.pending_turn is not None:
        return state
    has_begun = state.target is not None or state.clarifications or state.phase_history
    return _proceeded(state) if has_begun else _opened(state)


def answered(state: BuilderState, answer: BuilderAnswer) -> BuilderState:
    """Return the state after an answer, with the next turn pending.

    Raises: Invalid when the answer does not fit the pending turn, or asks for help; the state is what it was.
    """
    if isinstance(answer, Back):
        return _back(state, answer.back)
    if isinstance(answer, FreeText) and is_help(answer.free_text):
        raise Invalid(explained(state.pending_turn))
    match state.pending_turn, answer:
        case AskQuestion() as turn, OptionIndex() | OptionIndexes() | FreeText():
            return _proceeded(_recorded(state, turn, answer))
        case Clarify(), FreeText():
            return _clarified(state, text_of(answer))
        case ShowPreview(phase=phase), Confirm(confirm=is_right):
            return _entered(state, phase.following) if is_right else _entered(_cleared(state, phase), phase)
        case ReadyToAssemble(), Confirm(confirm=is_right):
            return state if is_right else _back(state, None)
        case turn, _:
            raise Invalid(f"That does not answer the pending turn. {_expected(turn)}")


def explained(turn: object) -> str:
    """Say what a turn is about, and how it can be answered."""
    match turn:
        case AskQuestion():
            several = " Several may be chosen." if turn.multiple else ""
            choose = "Choose an option" + (", or say it in your own words." if turn.allow_free_text else ".")
            leave = '"I don\'t know, choose for me" takes the suggestion, or else the first option.'
            return " ".join(filter(None, [turn.help, choose + several, leave, "Back leads to an earlier question."]))
        case Clarify():
            return "The more you say, the fewer questions follow: what it should do, about what, and for whom."
        case _:
            return "Nothing is built before you say yes; no leads back, and nothing you said is lost."


def _clarified(state: BuilderState, text: str) -> BuilderState:
    if is_undecided(text):
        return _entered(state, BuilderPhase.BASICS)
    said = (*state.clarifications, text)
    if len(state.initial_description) + sum(map(len, said)) > LONGEST_TEXT - len(said):
        raise Invalid(f"That is more than {LONGEST_TEXT:,} characters. Say it in fewer words.")
    return _entered(state.model_copy(update={"clarifications": said}), BuilderPhase.BASICS)


def _expected(turn: object) -> str:
    match turn:
        case AskQuestion(options=options):
            return f"It asks a question: expected an option from 0 to {len(options) - 1}, or free text."
        case Clarify():
            return "It asks for a few more words: expected free text."
        case _:
            return "It shows something to be confirmed: expected confirm, true or false."


def _recorded(state: BuilderState, turn: AskQuestion, answer: OptionIndex | OptionIndexes | FreeText) -> BuilderState:
    slot = _slot(state)
    chosen = _options(turn, answer)
    if isinstance(answer, FreeText) and not chosen:
        if not turn.allow_free_text:
            raise Invalid("Free text is not an answer to this question; choose an option.")
        said = text_of(answer)
        fields = slot.read(state, said)
    else:
        said = ", ".join(each.label for each in chosen)
        fields = _fields(state, slot, [each.id for each in chosen])
    exchange = Exchange(
        question=turn.question,
        options=tuple(each.label for each in turn.options),
        answer=said,
        phase=turn.phase,
        slot=slot.name,
        option_id=chosen[0].id if len(chosen) == 1 else None,
        option_ids=tuple(each.id for each in chosen) if len(chosen) > 1 else (),
    )
    config = filled(state.config, fields)
    update: dict[str, object] = {"config": config, "conversation": (*state.conversation, exchange)}
    if config.category is not None:
        update["purpose_category"] = config.category
    after = state.model_copy(update=update)
    return _with_told(after, after.phase) if "purpose" in slot.fields else after


def _options(turn: AskQuestion, answer: OptionIndex | OptionIndexes | FreeText) -> list[Option]:
    """Return the options that were chosen; none for an answer in the person's own words."""
    match answer:
        case OptionIndex(option_index=index):
            return [_option(turn, index)]
        case OptionIndexes(option_indexes=indexes):
            if not turn.multiple and len(indexes) != 1:
                raise Invalid("One option was expected: this question has one answer.")
            if not indexes or len(set(indexes)) < len(indexes):
                raise Invalid("The numbers of one option or more were expected, each of them once.")
            return [_option(turn, index) for index in sorted(indexes)]
        case FreeText(free_text=text) if turn.options and is_undecided(text):
            wanted = turn.suggestion.option_id if turn.suggestion else turn.options[0].id
            return [next((each for each in turn.options if each.id == wanted), turn.options[0])]
    return []


def _option(turn: AskQuestion, index: int) -> Option:
    if not 0 <= index < len(turn.options):
        shown = f"{index}" if abs(index) < _READABLE else "of that number"
        raise Invalid(f"There is no option {shown}; there are 0 to {len(turn.options) - 1}.")
    return turn.options[index]


def _fields(state: BuilderState, slot: Slot, ids: Sequence[str]) -> dict[str, Any]:
    """Return what options mean; what is kept is not said again. A draft can be older than the program.

    Raises: Invalid when an option is not offered any more.
    """
    new = [each for each in ids if each not in (KEEP, WISHED)]
    fields = wished_for(state, slot) if WISHED in ids else {}
    if not new:
        return fields
    try:
        chosen = slot.choose_several(state, new) if slot.choose_several else slot.choose(state, new[0])
    except (KeyError, ValueError):
        raise Invalid(f"The option {new[0]!r} is not offered any more. Choose another, or say it.") from None
    if "boundaries" in chosen:
        kept = known_fields(state)["boundaries"] if KEEP in ids else ()
        chosen["boundaries"] = tuple(dict.fromkeys([*kept, *fields.get("boundaries", ()), *chosen["boundaries"]]))
    return fields | chosen


def _slot(state: BuilderState) -> Slot:
    found = next((slot for slot in SLOTS if slot.name == state.pending_slot), None)
    if found is None:
        raise Invalid(f"What {state.pending_slot!r} was asked for is not known to this Perdure. Go back, and be asked.")
    return found


def _entered(state: BuilderState, phase: BuilderPhase) -> BuilderState:
    """Go into a phase, knowing what the description says about it."""
    history = tuple(each for each in state.phase_history if each.is_before(phase))
    state = state.model_copy(update={"phase": phase, "phase_history": (*history, phase)})
    return _proceeded(_with_told(state, phase))


def _with_told(state: BuilderState, phase: BuilderPhase) -> BuilderState:
    """Fill in what the description says about a phase, where that was not asked."""
    for slot in SLOTS:
        is_open = slot.phase == phase and is_of(state, slot) and state.answer_to(slot.name) is None
        if is_open and (fields := slot.told(state)):
            state = state.model_copy(update={"config": filled(state.config, fields)})
            state = state.model_copy(update={"purpose_category": state.config.category or state.purpose_category})
    return state


def _proceeded(state: BuilderState) -> BuilderState:
    """Ask what is still open in this phase, go on to the next one, or show what it has all come to."""
    if state.phase is BuilderPhase.REVIEW:
        turn: AskQuestion | ReadyToAssemble = ReadyToAssemble(config=complete(state), preview=preview(state))
        return state.model_copy(update={"pending_turn": turn, "pending_slot": None})
    for slot in questions(state):
        if slot.phase == state.phase and state.answer_to(slot.name) is None:
            turn = question_turn(state, slot)
            return state.model_copy(update={"pending_turn": turn, "pending_slot": slot.name})
    return _entered(state, state.phase.following)


def _back(state: BuilderState, phase: BuilderPhase | None) -> BuilderState:
    answered_in = {exchange.phase for exchange in state.conversation}
    if phase is None:
        if state.phase is BuilderPhase.BASICS:
            raise Invalid("This is the first phase; there is nothing before it.")
        earlier = [each for each in BuilderPhase if each.is_before(state.phase)]
        asked = [each for each in earlier if each in answered_in]
        phase = (asked or earlier)[-1]
    if not phase.is_before(state.phase) and not (phase == state.phase and phase in answered_in):
        raise Invalid(f"{phase} is not before {state.phase}, and nothing was answered in it; back leads to an answer.")
    return _entered(_cleared(state, phase), phase)


def _cleared(state: BuilderState, phase: BuilderPhase) -> BuilderState:
    """Forget what was said and known from a phase on, and nothing else."""
    left = [slot for slot in SLOTS if not slot.phase.is_before(phase)]
    empty = PartialConfig()
    config = filled(state.config, {name: getattr(empty, name) for slot in left for name in slot.fields})
    kept = tuple(exchange for exchange in state.conversation if exchange.phase.is_before(phase))
    category = config.category or (state.target.config["category"] if state.target else PurposeCategory.CUSTOM)
    return state.model_copy(update={"config": config, "conversation": kept, "purpose_category": str(category)})
