"""Completes the config of a state with defaults, and previews it."""

from perdure.errors import Damaged, Invalid
from perdure.forge.categories import DEFAULTS, significant_words
from perdure.forge.config import BuilderConfig, ModelSettings, PartialConfig, Personality, SkillChoice
from perdure.forge.questions.model import BUILT_IN
from perdure.forge.questions.names import proposed_names
from perdure.forge.questions.purposes import PURPOSE_QUESTIONS, sentences
from perdure.forge.second_person import second_person
from perdure.forge.state import BuilderState
from perdure.forge.turns import AskQuestion, BuilderTurn, Preview, ReadyToAssemble
from perdure.forge.vocabulary import BotPurpose, BuilderPhase

_MOST_TAGS = 5
_LONGEST_TAG = 50


def complete_config(state: BuilderState) -> BuilderConfig:
    """Return the complete config: what the person said, and defaults for the rest."""
    if state.target is not None:
        return _changed(BuilderConfig.model_validate(state.target.config), state.config)
    config, defaults = state.config, DEFAULTS[state.kind]
    traits = defaults.traits if config.traits is None else config.traits
    temperature = defaults.temperature if config.temperature is None else config.temperature
    max_tokens = defaults.max_tokens if config.max_tokens is None else config.max_tokens
    skills = _default_skills(state) if config.skills is None else config.skills
    return BuilderConfig(
        name=config.name or proposed_names(state.description, state.purpose)[0][0],
        description=state.description,
        category=config.category or str(state.kind),
        purpose=state.purpose,
        answers=config.answers,
        tags=_tags(state),
        personality=Personality(
            tone=config.tone or defaults.tone,
            traits=traits,
            purpose="\n\n".join(purpose_parts(state).values()),
            boundaries=config.boundaries or (),
        ),
        model_settings=ModelSettings(
            model=config.model or BUILT_IN,
            temperature=temperature,
            max_tokens=max_tokens,
        ),
        skills=skills,
    )


def preview(state: BuilderState) -> Preview:
    """Return the bot as far as it is known; values of later phases are left open."""
    config = complete_config(state)
    is_past = {phase: state.target is not None or not state.phase.is_before(phase) for phase in BuilderPhase}
    has_name = state.target is not None or state.config.name is not None
    name = config.name if has_name else None
    personality = f"{config.personality.tone}; {', '.join(config.personality.traits)}"
    personality_summary = personality if is_past[BuilderPhase.PERSONALITY] else None
    model = shown_model(config) if is_past[BuilderPhase.MODEL] else None
    skills = tuple(skill.name for skill in config.skills) if is_past[BuilderPhase.SKILLS] else ()
    return Preview(
        name=name,
        description=config.description,
        personality_summary=personality_summary,
        model=model,
        skills=skills,
        phase=state.phase,
    )


def shown_turn(state: BuilderState) -> BuilderTurn:
    """Return the pending turn with the earlier answer to it, if any, and with a preview.

    Turns in drafts of earlier versions have no preview.

    Raises: Damaged when no turn is pending.
    """
    turn = state.pending_turn
    if isinstance(turn, AskQuestion) and (earlier := state.earlier_answer(turn)):
        turn = turn.model_copy(update={"earlier": earlier})
    match turn:
        case AskQuestion(preview=None) | ReadyToAssemble(preview=None) as turn:
            return turn.model_copy(update={"preview": preview(state)})
        case None:
            raise Damaged("It does not have a pending turn.")
        case turn:
            return turn


def _tags(state: BuilderState) -> tuple[str, ...]:
    words = (word for word in significant_words(state.description) if len(word) <= _LONGEST_TAG)
    return tuple(dict.fromkeys(words))[:_MOST_TAGS]


def shown_model(config: BuilderConfig) -> str:
    """Return the model and its settings in one line."""
    settings = config.model_settings
    return f"{settings.model}, temperature {settings.temperature:g}, up to {settings.max_tokens} tokens"


def purpose_parts(state: BuilderState) -> dict[str, str]:
    """Return the parts of the text of the purpose, by the slot that each answers; the first is the description."""
    config = state.config
    parts = _parts(state.about, state.purpose, config.answers)
    if config.focus:
        parts["focus"] = f"Your focus is {config.focus}."
    if config.audience:
        parts["audience"] = f"Your readers are {config.audience}."
    if config.output:
        parts["output"] = f"An answer is {config.output}."
    return {slot: text for slot, text in parts.items() if text}


def _parts(description: str, purpose: BotPurpose, answers: dict[str, str]) -> dict[str, str]:
    about = sentences(purpose, answers, "bot")
    return {"description": second_person(description), **{f"{purpose}.{name}": text for name, text in about.items()}}


def _default_skills(state: BuilderState) -> tuple[SkillChoice, ...]:
    descriptions = dict(state.context.skills)
    names = [name for name in DEFAULTS[state.kind].skills if name in descriptions]
    return tuple(SkillChoice(name=name, description=descriptions[name]) for name in names)


def _changed(config: BuilderConfig, change: PartialConfig) -> BuilderConfig:
    """Return a config with the changed values; the others are unchanged."""
    personality = {name: value for name in ("tone", "boundaries") if (value := getattr(change, name)) is not None}
    model = {
        name: value for name in ("model", "temperature", "max_tokens") if (value := getattr(change, name)) is not None
    }
    changed = config.model_copy(
        update={
            "name": change.name or config.name,
            "model_settings": config.model_settings.model_copy(update=model),
            "skills": config.skills if change.skills is None else change.skills,
            **_changed_purpose(config, change),
        }
    )
    purpose = _purpose_text(config, changed)
    return changed.model_copy(
        update={"personality": config.personality.model_copy(update={**personality, "purpose": purpose})}
    )


def _changed_purpose(config: BuilderConfig, change: PartialConfig) -> dict[str, object]:
    """Return the changed fields of the purpose; answers about another purpose or description are dropped."""
    purpose = change.purpose or config.purpose
    description = change.description or config.description
    kept = config.answers if (purpose, description) == (config.purpose, config.description) else {}
    return {
        "description": description,
        "purpose": purpose,
        "category": change.category or config.category,
        "answers": {**kept, **change.answers},
    }


def rewrite_purpose(built: BuilderConfig, edited: BuilderConfig) -> BuilderConfig:
    """Return an edited config with the text of its purpose rewritten from its description and answers.

    A text that was edited itself is unchanged.

    Raises: Invalid when an added answer does not belong to a question of the purpose.
    """
    names = [question.name for question in PURPOSE_QUESTIONS[edited.purpose]]
    if unknown := [name for name in edited.answers if name not in names and name not in built.answers]:
        raise Invalid(f"The config is not valid: answers.{unknown[0][:60]} is not one of {', '.join(names)}.")
    if edited.personality.purpose != built.personality.purpose:
        return edited
    personality = edited.personality.model_copy(update={"purpose": _purpose_text(built, edited)})
    return edited.model_copy(update={"personality": personality})


def _purpose_text(before: BuilderConfig, after: BuilderConfig) -> str:
    """Return the text of the purpose with its changed parts replaced; text that a person added is unchanged."""
    old = _parts(before.description, before.purpose, before.answers)
    new = _parts(after.description, after.purpose, after.answers)
    text = before.personality.purpose
    if old == new:
        return text
    if old["description"] not in text and before.description in text:
        old["description"] = before.description  # earlier versions did not rewrite it
    for name in dict.fromkeys([*old, *new]):
        was, becomes = old.get(name, ""), new.get(name, "")
        if was and was in text:
            text = text.replace(was, becomes, 1)
        elif was != becomes and becomes:
            text = f"{text}\n\n{becomes}"
    return "\n\n".join(part.strip("\n") for part in text.split("\n\n") if part.strip())
