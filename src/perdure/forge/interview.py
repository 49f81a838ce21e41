"""The interview: how a session goes from one turn to the next. Pure: a state and an answer give a state.

An interview is decided by what was said: the same description, surroundings and answers always lead to the same
state, whatever was taken back in between.
"""

from collections.abc import Sequence

from perdure.errors import Invalid
from perdure.forge.answers import Back, BuilderAnswer, Confirm, FreeText, OptionIndex, text_of
from perdure.forge.categories import DEFAULTS, purpose_of
from perdure.forge.config import LONGEST_TEXT, PartialConfig
from perdure.forge.finish import complete, preview
from perdure.forge.questions import RECONFIGURED, SLOTS, SPARE, WANTED
from perdure.forge.questions.slot import Slot, filled, option
from perdure.forge.state import KEEP, BuilderState, Exchange, Surroundings, Target
from perdure.forge.turns import AskQuestion, Clarify, Option, ReadyToAssemble, ShowPreview, Suggestion
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
    """Start an interview about a bot that is there already; every question offers to keep what is."""
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
    """Take up an interview: what was asked is pending, and where that was not kept, it is asked anew."""
    if state.pending_turn is not None:
        return state
    has_begun = state.target is not None or state.clarifications or state.phase_history
    return _proceeded(state) if has_begun else _opened(state)


def answered(state: BuilderState, answer: BuilderAnswer) -> BuilderState:
    """Return the state after an answer, with the next turn pending.

    Raises: Invalid when the answer does not fit the pending turn; the state is what it was.
    """
    if isinstance(answer, Back):
        return _back(state, answer.back)
    match state.pending_turn, answer:
        case AskQuestion() as turn, OptionIndex() | FreeText():
            return _proceeded(_recorded(state, turn, answer))
        case Clarify(), FreeText():
            return _clarified(state, text_of(answer))
        case ShowPreview(phase=phase), Confirm(confirm=is_right):
            return _entered(state, phase.following) if is_right else _entered(_cleared(state, phase), phase)
        case ReadyToAssemble(), Confirm(confirm=True):
            return state
        case ReadyToAssemble(), Confirm(confirm=False):
            return _back(state, BuilderPhase.SKILLS)
        case turn, _:
            raise Invalid(f"That does not answer the pending turn. {_expected(turn)}")


def _clarified(state: BuilderState, text: str) -> BuilderState:
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


def _recorded(state: BuilderState, turn: AskQuestion, answer: OptionIndex | FreeText) -> BuilderState:
    slot = _slot(state)
    if isinstance(answer, FreeText):
        if not turn.allow_free_text:
            raise Invalid("Free text is not an answer to this question; choose an option.")
        said = text_of(answer)
        fields = slot.read(state, said)
        chosen = None
    else:
        chosen = _option(turn, answer.option_index)
        said = chosen.label
        fields = _kept(state, slot) if chosen.id == KEEP else _chosen(state, slot, chosen.id)
    exchange = Exchange(
        question=turn.question,
        options=tuple(each.label for each in turn.options),
        answer=said,
        phase=turn.phase,
        slot=slot.name,
        option_id=None if chosen is None else chosen.id,
    )
    config = filled(state.config, fields)
    update = {"config": config, "conversation": (*state.conversation, exchange)}
    if config.category is not None:
        update["purpose_category"] = config.category
    return state.model_copy(update=update)


def _option(turn: AskQuestion, index: int) -> Option:
    if not 0 <= index < len(turn.options):
        shown = f"{index}" if abs(index) < _READABLE else "of that number"
        raise Invalid(f"There is no option {shown}; there are 0 to {len(turn.options) - 1}.")
    return turn.options[index]


def _slot(state: BuilderState) -> Slot:
    found = next((slot for slot in SLOTS if slot.name == state.pending_slot), None)
    if found is None:
        raise Invalid(f"What {state.pending_slot!r} was asked for is not known to this Perdure. Go back, and be asked.")
    return found


def _chosen(state: BuilderState, slot: Slot, option_id: str) -> dict[str, object]:
    """Return what an option means; a draft can be older than the program, and offer what is no more."""
    try:
        return slot.choose(state, option_id)
    except (KeyError, ValueError):
        raise Invalid(f"The option {option_id!r} is not offered any more. Choose another, or say it.") from None


def _entered(state: BuilderState, phase: BuilderPhase) -> BuilderState:
    """Go into a phase, knowing what the description says about it."""
    history = tuple(each for each in state.phase_history if each.is_before(phase))
    state = state.model_copy(update={"phase": phase, "phase_history": (*history, phase)})
    if state.target is None:
        for slot in SLOTS:
            if slot.phase == phase and (fields := slot.told(state)):
                state = state.model_copy(update={"config": filled(state.config, fields)})
                state = state.model_copy(update={"purpose_category": state.config.category or state.purpose_category})
    return _proceeded(state)


def _proceeded(state: BuilderState) -> BuilderState:
    """Ask what is still open in this phase, or show what it has come to."""
    if state.phase is BuilderPhase.REVIEW:
        turn: AskQuestion | ShowPreview | ReadyToAssemble = ReadyToAssemble(config=complete(state))
        return state.model_copy(update={"pending_turn": turn, "pending_slot": None})
    for slot in _questions(state):
        if slot.phase == state.phase and state.answer_to(slot.name) is None:
            turn = _asked(state, slot)
            return state.model_copy(update={"pending_turn": turn, "pending_slot": slot.name})
    shown = ShowPreview(phase=state.phase, preview=preview(state))
    return state.model_copy(update={"pending_turn": shown, "pending_slot": None})


def _questions(state: BuilderState) -> Sequence[Slot]:
    """Return all that is asked in this interview, as far as it can be told now, in order."""
    if state.target is not None:
        return RECONFIGURED
    kind = state.kind
    wanted = [slot for slot in SLOTS if slot in WANTED[kind] and not _is_known(state, slot)]
    spare = [slot for slot in SPARE if slot not in WANTED[kind]]
    missing = max(0, DEFAULTS[kind].fewest - len(wanted))
    chosen = {*(slot.name for slot in wanted), *(slot.name for slot in spare[:missing])}
    return [slot for slot in SLOTS if slot.name in chosen]


def _is_known(state: BuilderState, slot: Slot) -> bool:
    """Tell whether a question is needless: the description has the answer, or a small bot does well with the usual."""
    if state.answer_to(slot.name) is not None:
        return False  # it was asked, and so it counts
    is_small = state.kind is PurposeCategory.SIMPLE_UTILITY and purpose_of(state.description).is_vague
    return bool(slot.told(state)) or (is_small and slot.name == "tone")


def _asked(state: BuilderState, slot: Slot) -> AskQuestion:
    question = slot.ask(state)
    options, suggestion = list(question.options), question.suggestion
    if state.target is not None:
        kept = _kept(state, slot)
        options = [each for each in options if slot.choose(state, each.id) != kept]
        options.insert(0, option(KEEP, f"Keep {_shown(state, slot)}", "as it is now"))
        suggestion = Suggestion(option_id=KEEP, reason="nothing changes unless you say so")
    return AskQuestion(
        phase=slot.phase,
        question=question.text,
        options=tuple(options),
        phase_label=slot.phase.label,
        suggestion=suggestion,
    )


def _kept(state: BuilderState, slot: Slot) -> dict[str, object]:
    known = known_fields(state)
    return {name: known[name] for name in slot.fields}


def known_fields(state: BuilderState) -> dict[str, object]:
    """Return what the bot of a reconfiguration is, field by field."""
    config = complete(state.model_copy(update={"config": PartialConfig()}))
    return {
        "name": config.name,
        "tone": config.personality.tone,
        "boundaries": config.personality.boundaries,
        "model": config.model_settings.model,
        "temperature": config.model_settings.temperature,
        "max_tokens": config.model_settings.max_tokens,
        "skills": config.skills,
    }


def _shown(state: BuilderState, slot: Slot) -> str:
    value = known_fields(state)[slot.fields[0]]
    match value, slot.name:
        case tuple(), "skills":
            return ", ".join(skill.name for skill in value) or "it without skills"
        case tuple(), _:
            return f"{len(value)} of them" if len(value) > 1 else value[0] if value else "it without any"
        case _:
            return str(value)


def _back(state: BuilderState, phase: BuilderPhase | None) -> BuilderState:
    phases = list(BuilderPhase)
    at = phases.index(state.phase)
    if phase is None:
        if at == 0:
            raise Invalid("This is the first phase; there is nothing before it.")
        phase = phases[at - 1]
    if not phase.is_before(state.phase):
        raise Invalid(f"{phase} is not before {state.phase}; back leads to an earlier phase.")
    return _entered(_cleared(state, phase), phase)


def _cleared(state: BuilderState, phase: BuilderPhase) -> BuilderState:
    """Forget what was said and known from a phase on, and nothing else."""
    left = [slot for slot in SLOTS if not slot.phase.is_before(phase)]
    empty = PartialConfig()
    config = filled(state.config, {name: getattr(empty, name) for slot in left for name in slot.fields})
    kept = tuple(exchange for exchange in state.conversation if exchange.phase.is_before(phase))
    category = config.category or (state.target.config["category"] if state.target else PurposeCategory.CUSTOM)
    return state.model_copy(update={"config": config, "conversation": kept, "purpose_category": str(category)})
