"""The rows of a preview of a bot."""

from collections.abc import Sequence

from perdure.app.builder.values import BuilderConfig, Exchange, Preview, shown_model

_LONGEST = 240
_EARLIER = {"focus": "focus", "audience": "readers", "output": "answers"}
"""The slots of questions of earlier versions, and the titles of their rows."""


def preview_rows(preview: Preview, conversation: Sequence[Exchange] = ()) -> list[tuple[str, str]]:
    """Return titles and values of a preview, with the answers that the preview has no field for."""
    return [
        ("name", preview.name or ""),
        ("for", _short(preview.description or "")),
        *_answered(conversation),
        ("manner", preview.personality_summary or ""),
        ("model", preview.model or ""),
        ("skills", ", ".join(preview.skills)),
    ]


def config_rows(config: BuilderConfig, conversation: Sequence[Exchange] = ()) -> list[tuple[str, str]]:
    """Return titles and values of a configuration, with the answers that are only part of the bot's purpose."""
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
    return [(_EARLIER[each.slot], _short(each.answer_text)) for each in conversation if each.slot in _EARLIER]


def _short(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    words, space, _ = text[:_LONGEST].rpartition(" ")
    return f"{words if space else text[:_LONGEST]}…"
