"""The interview as pure functions: a state and an answer give the next state.

The same description, context and answers always lead to the same state, also if the person went back in between.
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
from perdure.forge.categories import guess_purpose
from perdure.forge.config import LONGEST_TEXT, PartialConfig
from perdure.forge.interview.finish import complete_config, preview
from perdure.forge.interview.planning import is_asked_in, present_fields, question_turn, questions, requested_changes
from perdure.forge.questions import SLOTS
from perdure.forge.questions.slot import Slot, with_fields
from perdure.forge.state import KEEP, MODEL_OPTION, REQUESTED, BuilderState, Exchange, InterviewContext, Target
from perdure.forge.turns import AskQuestion, Clarify, Option, ReadyToAssemble, ShowPreview
from perdure.forge.vocabulary import BuilderMode, BuilderPhase, PurposeCategory

_READABLE = 10**9
_NEEDS_MORE = (PurposeCategory.COMPLEX_ANALYST, PurposeCategory.RESEARCH, PurposeCategory.CUSTOM)
"""Categories whose interview needs more than one significant word of the description."""


def start_interview(session_id: str, description: str, context: InterviewContext) -> BuilderState:
    """Start an interview about a new bot.

    Raises: Invalid when the description is empty, too long or not storable.
    """
    state = BuilderState(
        session_id=session_id,
        mode=BuilderMode.BOT,
        initial_description=text_of(FreeText(free_text=description), "The description"),
        context=context,
    )
    return _ask_first(state)


def _ask_first(state: BuilderState) -> BuilderState:
    """Return the state with the first turn pending: a question, or a request for a longer description."""
    guess = guess_purpose(state.description)
    has_room = len(state.description) < LONGEST_TEXT // 2
    if guess.is_too_short and guess.category in _NEEDS_MORE and has_room:
        message = "Describe it a little more: what should it do, about what, and for whom?"
        return state.model_copy(update={"pending_turn": Clarify(message=message), "pending_slot": None})
    return _enter_phase(state, BuilderPhase.BASICS)


def start_reconfiguration(session_id: str, description: str, context: InterviewContext, target: Target) -> BuilderState:
    """Start an interview about changes of an existing bot: it asks what changes, and then about that only."""
    wish = description.strip() or f"Change {target.slug}"
    state = BuilderState(
        session_id=session_id,
        mode=BuilderMode.RECONFIGURE,
        initial_description=text_of(FreeText(free_text=wish), "The description"),
        purpose_category=target.config["category"],
        context=context,
        target=target,
    )
    return _enter_phase(state, BuilderPhase.BASICS)


def resume_interview(state: BuilderState) -> BuilderState:
    """Return a state with its turn pending; a turn that the draft lacks is made again."""
    if state.pending_turn is not None:
        return state
    has_begun = state.target is not None or state.clarifications or state.phase_history
    return _ask_next(state) if has_begun else _ask_first(state)


def set_stated(state: BuilderState, slot: Slot, fields: dict[str, Any]) -> BuilderState:
    """Set fields that the person has stated without being asked, and make the next open question pending.

    Raises: Invalid when a value is not valid.
    """
    config = with_fields(state.config, fields)
    update: dict[str, object] = {"config": config, "stated": (*state.stated, slot.name)}
    if config.category is not None:
        update["purpose_category"] = config.category
    after = state.model_copy(update=update)
    return _ask_next(_fill_from_description(after, after.phase) if slot.name == "purpose" else after)


def begin_questions(state: BuilderState) -> BuilderState:
    """Make the first question pending, instead of a request for a longer description."""
    return _enter_phase(state, BuilderPhase.BASICS)


def apply_answer(state: BuilderState, answer: BuilderAnswer) -> BuilderState:
    """Return the state after an answer, with the next turn pending.

    Raises: Invalid when the answer does not fit the pending turn, or asks for help; the state is unchanged.
    """
    if isinstance(answer, Back):
        return _go_back(state, answer.back)
    if isinstance(answer, FreeText) and is_help(answer.free_text):
        raise Invalid(explain_turn(state.pending_turn))
    match state.pending_turn, answer:
        case AskQuestion() as turn, OptionIndex() | OptionIndexes() | FreeText():
            return _ask_next(_record_answer(state, turn, answer))
        case Clarify(), FreeText():
            return _add_clarification(state, text_of(answer))
        case ShowPreview(phase=phase), Confirm(confirm=is_right):
            return _enter_phase(state, phase.following) if is_right else _enter_phase(_clear_from(state, phase), phase)
        case ReadyToAssemble(), Confirm(confirm=is_right):
            return state if is_right else _go_back(state, None)
        case turn, _:
            raise Invalid(f"The answer does not fit the pending turn. {_expected_answer(turn)}")


def explain_turn(turn: object) -> str:
    """Return the help text of a turn: what it is about, and how it can be answered."""
    match turn:
        case AskQuestion():
            several = " Several may be chosen." if turn.multiple else ""
            choose = "Choose an option" + (", or answer in your own words." if turn.allow_free_text else ".")
            leave = '"I don\'t know, choose for me" takes the suggestion, or else the first option.'
            return " ".join(filter(None, [turn.help, choose + several, leave, "Back returns to an earlier question."]))
        case Clarify():
            return "A longer description saves questions: what it should do, about what, and for whom."
        case _:
            return "Nothing is built before you answer yes; no returns to the last question, and no answer is lost."


def _add_clarification(state: BuilderState, text: str) -> BuilderState:
    if is_undecided(text):
        return _enter_phase(state, BuilderPhase.BASICS)
    clarifications = (*state.clarifications, text)
    if len(state.initial_description) + sum(map(len, clarifications)) > LONGEST_TEXT - len(clarifications):
        raise Invalid(f"The description has more than {LONGEST_TEXT:,} characters. Use fewer words.")
    return _enter_phase(state.model_copy(update={"clarifications": clarifications}), BuilderPhase.BASICS)


def _expected_answer(turn: object) -> str:
    match turn:
        case AskQuestion(options=options):
            return f"It is a question: expected an option from 0 to {len(options) - 1}, or free text."
        case Clarify():
            return "It asks for a longer description: expected free text."
        case _:
            return "It asks for confirmation: expected confirm, true or false."


def _record_answer(
    state: BuilderState, turn: AskQuestion, answer: OptionIndex | OptionIndexes | FreeText
) -> BuilderState:
    slot = _slot_of_turn(state)
    chosen = _chosen_options(turn, answer)
    if isinstance(answer, FreeText) and not chosen:
        if not turn.allow_free_text:
            raise Invalid("Free text is not an answer to this question; choose an option.")
        text = text_of(answer)
        fields = slot.read(state, text)
    else:
        text = ", ".join(each.label for each in chosen)
        fields = _fields_of_options(state, slot, chosen)
    ids = tuple(each.id for each in chosen)
    option_id = ids[0] if len(ids) == 1 else None
    option_ids = ids if len(ids) > 1 else ()
    exchange = Exchange(
        question=turn.question,
        options=tuple(each.label for each in turn.options),
        answer=text,
        phase=turn.phase,
        slot=slot.name,
        option_id=option_id,
        option_ids=option_ids,
    )
    config = with_fields(state.config, fields)
    update: dict[str, object] = {
        "config": config,
        "conversation": (*state.conversation, exchange),
        "earlier": tuple(each for each in state.earlier if each.slot != slot.name),
    }
    if config.category is not None:
        update["purpose_category"] = config.category
    after = state.model_copy(update=update)
    return _fill_from_description(after, after.phase) if "purpose" in slot.fields else after


def _chosen_options(turn: AskQuestion, answer: OptionIndex | OptionIndexes | FreeText) -> list[Option]:
    """Return the chosen options; none for an answer in the person's own words."""
    match answer:
        case OptionIndex(option_index=index):
            return [_option(turn, index)]
        case OptionIndexes(option_indexes=indexes):
            if not turn.multiple and len(indexes) != 1:
                raise Invalid("This question takes one option.")
            if not indexes or len(set(indexes)) < len(indexes):
                raise Invalid("Expected the numbers of one or more options, each once.")
            return [_option(turn, index) for index in sorted(indexes)]
        case FreeText(free_text=text) if turn.options and is_undecided(text):
            option_id = turn.suggestion.option_id if turn.suggestion else turn.options[0].id
            return [next((each for each in turn.options if each.id == option_id), turn.options[0])]
    return []


def _option(turn: AskQuestion, index: int) -> Option:
    if not 0 <= index < len(turn.options):
        shown = f"{index}" if abs(index) < _READABLE else "of that number"
        raise Invalid(f"There is no option {shown}; the options are 0 to {len(turn.options) - 1}.")
    return turn.options[index]


def _fields_of_options(state: BuilderState, slot: Slot, options: Sequence[Option]) -> dict[str, Any]:
    """Return the fields that options set; KEEP sets none.

    Raises: Invalid when this version does not offer an option of the draft any more.
    """
    ids = [each.id for each in options]
    preset_ids = [each for each in ids if each not in (KEEP, REQUESTED) and not each.startswith(MODEL_OPTION)]
    fields = requested_changes(state, slot) if REQUESTED in ids else {}
    for option in options:
        if option.id.startswith(MODEL_OPTION):
            fields = _merge_fields(fields, slot.read(state, option.label))
    if not preset_ids:
        kept = present_fields(state)["boundaries"] if KEEP in ids and "boundaries" in fields else ()
        return _merge_fields({"boundaries": kept}, fields) if kept else fields
    try:
        chosen = slot.choose_several(state, preset_ids) if slot.choose_several else slot.choose(state, preset_ids[0])
    except (KeyError, ValueError):
        raise Invalid(
            f"The option {preset_ids[0]!r} is not offered any more. Choose another, or use free text."
        ) from None
    if "boundaries" in chosen:
        kept = present_fields(state)["boundaries"] if KEEP in ids else ()
        chosen["boundaries"] = tuple(dict.fromkeys([*kept, *fields.get("boundaries", ()), *chosen["boundaries"]]))
    return fields | chosen


def _merge_fields(fields: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return fields of two options: rules are added to each other, other values replace each other."""
    if "boundaries" in fields and "boundaries" in more:
        more = {**more, "boundaries": tuple(dict.fromkeys([*fields["boundaries"], *more["boundaries"]]))}
    return fields | more


def _slot_of_turn(state: BuilderState) -> Slot:
    pending = next((slot for slot in SLOTS if slot.name == state.pending_slot), None)
    if pending is None:
        raise Invalid(
            f"This version has no question {state.pending_slot!r}. Answer `back` to return to one that it has."
        )
    return pending


def _enter_phase(state: BuilderState, phase: BuilderPhase) -> BuilderState:
    """Enter a phase: fill in what the description says about it, and ask the rest."""
    history = tuple(each for each in state.phase_history if each.is_before(phase))
    state = state.model_copy(update={"phase": phase, "phase_history": (*history, phase)})
    return _ask_next(_fill_from_description(state, phase))


def _fill_from_description(state: BuilderState, phase: BuilderPhase) -> BuilderState:
    """Set the fields of a phase that the description names, except those of answered questions."""
    for slot in SLOTS:
        is_open = slot.phase == phase and is_asked_in(state, slot) and state.answer_to(slot.name) is None
        if is_open and (fields := slot.from_description(state)):
            state = state.model_copy(update={"config": with_fields(state.config, fields)})
            state = state.model_copy(update={"purpose_category": state.config.category or state.purpose_category})
    return state


def _ask_next(state: BuilderState) -> BuilderState:
    """Make the next turn pending: the next open question, one of a later phase, or the complete config."""
    if state.phase is BuilderPhase.REVIEW:
        turn: AskQuestion | ReadyToAssemble = ReadyToAssemble(config=complete_config(state), preview=preview(state))
        return state.model_copy(update={"pending_turn": turn, "pending_slot": None})
    for slot in questions(state):
        if slot.phase == state.phase and state.answer_to(slot.name) is None:
            turn = question_turn(state, slot)
            return state.model_copy(update={"pending_turn": turn, "pending_slot": slot.name})
    return _enter_phase(state, state.phase.following)


def _go_back(state: BuilderState, phase: BuilderPhase | None) -> BuilderState:
    answered_in = {exchange.phase for exchange in state.conversation}
    if phase is None:
        if state.phase is BuilderPhase.BASICS:
            raise Invalid("This is the first phase; there is no earlier one.")
        earlier = [each for each in BuilderPhase if each.is_before(state.phase)]
        answered = [each for each in earlier if each in answered_in]
        phase = (answered or earlier)[-1]
    if not phase.is_before(state.phase) and not (phase == state.phase and phase in answered_in):
        raise Invalid(
            f"The phase {phase} is not before {state.phase} and does not have an answer. Choose an earlier one."
        )
    return _enter_phase(_clear_from(state, phase), phase)


def _clear_from(state: BuilderState, phase: BuilderPhase) -> BuilderState:
    """Clear the fields of a phase and of all later ones; their answers become the earlier answers."""
    cleared_slots = [slot for slot in SLOTS if not slot.phase.is_before(phase)]
    empty = PartialConfig()
    config = with_fields(state.config, {name: getattr(empty, name) for slot in cleared_slots for name in slot.fields})
    kept = tuple(exchange for exchange in state.conversation if exchange.phase.is_before(phase))
    category = config.category or (state.target.config["category"] if state.target else PurposeCategory.CUSTOM)
    cleared = {slot.name for slot in cleared_slots}
    stated = tuple(name for name in state.stated if name not in cleared)
    left = tuple(exchange for exchange in state.conversation if exchange not in kept)
    left_slots = {exchange.slot for exchange in left}
    earlier = (*left, *(exchange for exchange in state.earlier if exchange.slot not in left_slots))
    update = {
        "config": config,
        "conversation": kept,
        "earlier": earlier,
        "purpose_category": str(category),
        "stated": stated,
    }
    return state.model_copy(update=update)
