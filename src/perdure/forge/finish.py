"""Making a whole config of what is known, and showing it."""

from perdure.forge.categories import DEFAULTS, telling_words
from perdure.forge.config import BuilderConfig, ModelSettings, PartialConfig, Personality, SkillChoice
from perdure.forge.questions.model import BUILT_IN
from perdure.forge.questions.names import proposed_names
from perdure.forge.state import BuilderState
from perdure.forge.turns import Preview
from perdure.forge.vocabulary import BuilderPhase

_MOST_TAGS = 5
_LONGEST_TAG = 50


def complete(state: BuilderState) -> BuilderConfig:
    """Return the whole config: what was said, and what is usual where nothing was said."""
    if state.target is not None:
        return _changed(BuilderConfig.model_validate(state.target.config), state.config)
    known, usual = state.config, DEFAULTS[state.kind]
    return BuilderConfig(
        name=known.name or proposed_names(state.description, state.kind)[0][0],
        description=state.description,
        category=known.category or str(state.kind),
        tags=_tags(state),
        personality=Personality(
            tone=known.tone or usual.tone,
            traits=usual.traits if known.traits is None else known.traits,
            purpose="\n\n".join(purpose_parts(state).values()),
            boundaries=known.boundaries or (),
        ),
        model_settings=ModelSettings(
            model=known.model or BUILT_IN,
            temperature=usual.temperature if known.temperature is None else known.temperature,
            max_tokens=usual.max_tokens if known.max_tokens is None else known.max_tokens,
        ),
        skills=_usual_skills(state) if known.skills is None else known.skills,
    )


def preview(state: BuilderState) -> Preview:
    """Show a bot as far as it is known; what comes in later phases is left open."""
    config = complete(state)
    is_past = {phase: not state.phase.is_before(phase) for phase in BuilderPhase}
    personality = config.personality
    return Preview(
        name=config.name,
        description=config.description,
        personality_summary=(
            f"{personality.tone}; {', '.join(personality.traits)}" if is_past[BuilderPhase.PERSONALITY] else None
        ),
        model=shown_model(config) if is_past[BuilderPhase.MODEL] else None,
        skills=tuple(skill.name for skill in config.skills) if is_past[BuilderPhase.SKILLS] else (),
        phase=state.phase,
    )


def _tags(state: BuilderState) -> tuple[str, ...]:
    words = (word for word in telling_words(state.description) if len(word) <= _LONGEST_TAG)
    return tuple(dict.fromkeys(words))[:_MOST_TAGS]


def shown_model(config: BuilderConfig) -> str:
    """Say in one line which model answers, and how."""
    settings = config.model_settings
    return f"{settings.model}, temperature {settings.temperature:g}, up to {settings.max_tokens} tokens"


def purpose_parts(state: BuilderState) -> dict[str, str]:
    """Return what a bot is for, by the name of the question that each part answers; the wish itself is no question."""
    known = state.config
    parts = {
        "description": state.description,
        "focus": f"Its focus is {known.focus}." if known.focus else "",
        "audience": f"Its readers are {known.audience}." if known.audience else "",
        "output": f"An answer is {known.output}." if known.output else "",
    }
    return {slot: text for slot, text in parts.items() if text}


def _usual_skills(state: BuilderState) -> tuple[SkillChoice, ...]:
    known = dict(state.surroundings.skills)
    names = [name for name in DEFAULTS[state.kind].skills if name in known]
    return tuple(SkillChoice(name=name, description=known[name]) for name in names)


def _changed(config: BuilderConfig, change: PartialConfig) -> BuilderConfig:
    """Return a config with what was said put in; what was not asked stays."""
    personality = {name: value for name in ("tone", "boundaries") if (value := getattr(change, name)) is not None}
    model = {
        name: value for name in ("model", "temperature", "max_tokens") if (value := getattr(change, name)) is not None
    }
    return config.model_copy(
        update={
            "name": change.name or config.name,
            "personality": config.personality.model_copy(update=personality),
            "model_settings": config.model_settings.model_copy(update=model),
            "skills": config.skills if change.skills is None else change.skills,
        }
    )
