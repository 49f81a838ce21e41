"""What a preview of a bot shows, in rows."""

from collections.abc import Sequence

from perdure.forge.config import BuilderConfig
from perdure.forge.interview.finish import shown_model
from perdure.forge.state import Exchange
from perdure.forge.turns import Preview

_LONGEST = 240
_EARLIER = {"focus": "focus", "audience": "readers", "output": "answers"}
"""What earlier versions asked, and how it is called."""


def rows_of_preview(preview: Preview, conversation: Sequence[Exchange] = ()) -> list[tuple[str, str]]:
    """Return what is known of a bot, each with its name, and what was answered that a preview has no field for."""
    return [
        ("name", preview.name or ""),
        ("for", _short(preview.description or "")),
        *_answered(conversation),
        ("manner", preview.personality_summary or ""),
        ("model", preview.model or ""),
        ("skills", ", ".join(preview.skills)),
    ]


def rows_of_config(config: BuilderConfig, conversation: Sequence[Exchange] = ()) -> list[tuple[str, str]]:
    """Return what a bot will be, each with its name, and what was answered that is but a sentence of its purpose."""
    return [
        ("name", config.name),
        ("for", _short(config.description)),
        ("purpose", config.purpose.title_for(config.category)),
        *_answered(conversation),
        *((name.replace("_", " "), _short(text)) for name, text in config.answers.items()),
        ("manner", f"{config.personality.tone}; {', '.join(config.personality.traits)}"),
        ("holds to", "\n".join(map(_short, config.personality.boundaries))),
        ("model", shown_model(config)),
        ("skills", ", ".join(skill.name for skill in config.skills) or "none"),
    ]


def _answered(conversation: Sequence[Exchange]) -> list[tuple[str, str]]:
    return [(_EARLIER[each.slot], _short(each.said)) for each in conversation if each.slot in _EARLIER]


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    words, space, _ = text[:_LONGEST].rpartition(" ")
    return f"{words if space else text[:_LONGEST]}…"
