"""What a preview of a bot shows, in rows."""

from collections.abc import Sequence

from perdure.forge.config import BuilderConfig
from perdure.forge.finish import shown_model
from perdure.forge.state import Exchange
from perdure.forge.turns import Preview

_LONGEST = 240
_CALLED = {"focus": "focus", "audience": "readers", "output": "answers", "boundaries": "holds to"}
"""How answers are called that a preview has no field for, by what they were asked for."""


def rows_of_preview(preview: Preview, conversation: Sequence[Exchange] = ()) -> list[tuple[str, str]]:
    """Return what is known of a bot, each with its name, and what was answered that a preview has no field for."""
    return [
        ("name", preview.name or ""),
        ("for", _short(preview.description or "")),
        *_answered(conversation, ("focus", "audience", "output")),
        ("manner", preview.personality_summary or ""),
        *_answered(conversation, ("boundaries",)),
        ("model", preview.model or ""),
        ("skills", ", ".join(preview.skills)),
    ]


def rows_of_config(config: BuilderConfig, conversation: Sequence[Exchange] = ()) -> list[tuple[str, str]]:
    """Return what a bot will be, each with its name, and what was answered that is but a sentence of its purpose."""
    return [
        ("name", config.name),
        ("for", _short(config.description)),
        *_answered(conversation, ("focus", "audience", "output")),
        ("kind", config.category),
        ("manner", f"{config.personality.tone}; {', '.join(config.personality.traits)}"),
        ("holds to", "\n".join(map(_short, config.personality.boundaries))),
        ("model", shown_model(config)),
        ("skills", ", ".join(skill.name for skill in config.skills) or "none"),
    ]


def _answered(conversation: Sequence[Exchange], slots: Sequence[str]) -> list[tuple[str, str]]:
    return [(_CALLED[each.slot], _short(each.said)) for each in conversation if each.slot in slots]


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    words, space, _ = text[:_LONGEST].rpartition(" ")
    return f"{words if space else text[:_LONGEST]}…"
