"""The generated files of a bot, with the source of each line."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tomlkit

from perdure.bots.bot import IDENTITY, SKILLS, SOUL, Bot, parse_bot, skill_path
from perdure.bots.documents import read_document, write_document
from perdure.bots.provenance import Source
from perdure.bots.skills import LONGEST_DESCRIPTION, catalogue
from perdure.bots.soul import item_lines, section_lines
from perdure.errors import Invalid
from perdure.forge.config import BuilderConfig, SkillChoice
from perdure.forge.questions.purposes import sentences
from perdure.forge.second_person import facts_about_user
from perdure.forge.vocabulary import BotPurpose, PurposeCategory

DEFAULT = Source("default")

_MANNER_TEXTS: dict[str, str] = {
    "direct": "Say what there is to say, then stop.",
    "analytical": "Reason in steps that can be checked.",
    "expressive": "Speak in colour, and with feeling.",
    "technical": "Use exact terms and no decoration.",
    "scholarly": "Be careful; give sources, and say what is in doubt.",
    "empathetic": "Hear how the person feels, and answer to that as well.",
    "adaptive": "Take on the manner of the person you talk to.",
    "formal": "Be polite and correct, as for strangers and for the record.",
    "friendly": "Be warm and informal, as among colleagues.",
    "playful": "Be light, with a joke where one fits.",
    "efficient": "Take the shortest way that leads there.",
    "concise": "Use few words, and leave out what does not help.",
    "thorough": "Look at all of it before you conclude.",
    "precise": "Prefer the exact figure, name and place to the approximate one.",
    "structured": "Put things in an order that shows how they belong together.",
    "creative": "Offer what was not asked for, beside what was.",
    "imaginative": "Picture it before you describe it.",
    "methodical": "One step after the other, each of them checked.",
    "pragmatic": "What works and can be kept working is better than what is perfect.",
    "citation-aware": "Say where each fact is from.",
    "balanced": "Give the other side its best argument.",
    "patient": "Explain it again, and differently, as often as it takes.",
    "helpful": "Find out what is needed behind what is asked.",
    "clear": "Use plain words, and say what happens next.",
    "versatile": "Change your way of working with the task.",
}


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of the fields of a config and of the lines of its purpose; any other value is a default."""

    fields: Mapping[str, Source] = field(default_factory=dict)
    purpose: Mapping[str, Source] = field(default_factory=dict)
    user: Mapping[str, Source] = field(default_factory=dict)
    """The sources of the lines of USER.md."""

    def of(self, name: str) -> Source:
        return self.fields.get(name, DEFAULT)

    def of_purpose(self, line: str) -> Source:
        return self.purpose.get(line, self.of("purpose"))


@dataclass(frozen=True, slots=True)
class Page:
    """One file: its text, and the source of each line."""

    text: str
    sources: Sequence[Source]


def build_pages(
    config: BuilderConfig, sources: Sources | None = None, *, skills: Mapping[str, str] | None = None
) -> dict[str, Page]:
    """Generate the files of a bot from its config, except USER.md; `skills` has the texts of skills that exist.

    Raises: Invalid when there is no such skill.
    """
    sources = sources or Sources()
    pages = {SOUL: _soul(config, sources), IDENTITY: _identity(config, sources)}
    pages[SKILLS] = _page(_skill_list(config), sources.of("skills"))
    for skill in config.skills:
        pages[skill_path(skill.name)] = _page(_skill_text(skill, skills or {}), sources.of("skills"))
    return pages


def user_page(config: BuilderConfig, sources: Sources | None = None) -> Page:
    """Generate the USER.md of a bot: facts about the person, and the description in their own words."""
    line_sources = (sources or Sources()).user
    facts = facts_about_user(config.description)
    answers = list(sentences(config.purpose, config.answers, "user").values())
    items = [f"- {fact}" for fact in dict.fromkeys([*facts, *answers])]
    quotation = quoted_lines(config.description) if config.description else []
    lines = ["# The person you work for"]
    if items:
        lines += ["", "## Who they are", "", *items]
    if quotation:
        lines += ["", "## What they want", "", "They asked for you in these words:", "", *quotation]
    return _of_lines([(line, line_sources.get(line, DEFAULT)) for line in [*lines, ""]])


def quoted_lines(text: str) -> list[str]:
    """Return a text as a Markdown quotation."""
    return [f"> {line}".rstrip() for line in text.split("\n")]


def require_round_trip(config: BuilderConfig, slug: str, texts: Mapping[str, str]) -> Bot:
    """Parse the texts of a bot and require that they have the values of its config; return the bot.

    Raises: Invalid, naming the file, when a value was changed by writing and parsing it.
    """
    bot = parse_bot(slug, texts)
    soul, settings = bot.soul, bot.model_settings
    personality = config.personality
    for path, parsed, configured in (
        (
            SOUL,
            (soul.name, soul.tone, soul.traits, soul.purpose, soul.boundaries),
            (
                config.name,
                personality.tone,
                personality.traits,
                personality.purpose,
                tuple(filter(None, personality.boundaries)),
            ),
        ),
        (IDENTITY, (bot.name, bot.category), (config.name, config.category)),
        (
            IDENTITY,
            (settings.model, settings.temperature, settings.max_tokens),
            (config.model_settings.model, config.model_settings.temperature, config.model_settings.max_tokens),
        ),
        (SKILLS, [skill.name for skill in bot.skills], [skill.name for skill in config.skills]),
    ):
        if parsed != configured:
            raise Invalid(
                f"{slug}/{path} cannot store the value {configured!r:.200}: it is read back as {parsed!r:.200}."
            )
    return bot


def _soul(config: BuilderConfig, sources: Sources) -> Page:
    personality = config.personality
    front = {"name": config.name, "traits": list(personality.traits), "tone": personality.tone}
    tone = _MANNER_TEXTS.get(personality.tone.casefold(), f"Speak in this tone: {personality.tone}.")
    manner_lines = [(f"- {tone}", sources.of("tone"))]
    manner_lines += [
        (f"- {_MANNER_TEXTS.get(trait.casefold(), f'Be {trait}.')}", sources.of("traits"))
        for trait in personality.traits
    ]
    boundaries = [
        (line, sources.of("boundaries")) for text in filter(None, personality.boundaries) for line in item_lines(text)
    ]
    purpose = [(line, sources.of_purpose(line)) for line in section_lines(personality.purpose)]
    body = [
        *_section("Personality", manner_lines),
        *_section("Purpose", purpose if personality.purpose else []),
        *_section("Boundaries", boundaries),
    ]
    return _of_lines([*_front_lines(front, sources), *body, ("", DEFAULT)])


def _identity(config: BuilderConfig, sources: Sources) -> Page:
    settings = config.model_settings
    front = {
        "display_name": config.name,
        "category": config.category,
        "provider": settings.model.partition(":")[0],
        "model": settings.model,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
    }
    kind = _kind(config)
    purpose = f" for {kind}" if kind else ""
    introduction = f"You are {config.name}, an AI bot{purpose}."
    second_line = (
        "When someone asks who you are, say so, and say what you can help with. USER.md describes whom you work for."
    )
    body = [("", DEFAULT), (introduction, sources.of("name")), (second_line, DEFAULT), ("", DEFAULT)]
    return _of_lines([*_front_lines(front, sources), *body])


def _kind(config: BuilderConfig) -> str:
    """Return the purpose of a bot in two or three words; a custom one is named as the person named it."""
    is_own = config.purpose is BotPurpose.OTHER and config.category != PurposeCategory.CUSTOM
    return config.category if is_own else config.purpose.phrase


def _front_lines(front: Mapping[str, Any], sources: Sources) -> list[tuple[str, Source]]:
    text = write_document(front, "")
    lines = [(line, DEFAULT) for line in text.removesuffix("\n").split("\n")]
    for key, (first, last) in read_document(text, "the front matter").lines.items():
        source = sources.of({"display_name": "name", "provider": "model"}.get(key, key))
        lines[first - 1 : last] = [(line, source) for line, _ in lines[first - 1 : last]]
    return lines


def _section(heading: str, lines: Iterable[tuple[str, Source]]) -> list[tuple[str, Source]]:
    """Return the lines of a section; an empty one is omitted."""
    items = list(lines)
    return [("", DEFAULT), (f"## {heading}", DEFAULT), ("", DEFAULT), *items] if items else []


def _skill_list(config: BuilderConfig) -> str:
    document = tomlkit.document()
    document.add(tomlkit.comment("The skills of this bot, one table each; their texts are in skills/NAME/SKILL.md."))
    for skill in config.skills:
        table = tomlkit.table()
        table.add("description", skill.description)
        table.add("skill_type", skill.skill_type)
        document.add(tomlkit.nl())
        document.add(skill.name, table)
    return tomlkit.dumps(document)


def _skill_text(skill: SkillChoice, skill_texts: Mapping[str, str]) -> str:
    if skill.name in skill_texts:
        return skill_texts[skill.name]
    if skill.name in catalogue():
        return catalogue()[skill.name]
    if skill.skill_type == "builtin":
        raise Invalid(f"There is no built-in skill {skill.name!r}. There are: {', '.join(catalogue())}.")
    description = " ".join(skill.description.split()) or skill.name.replace("-", " ").capitalize()
    front = {"name": skill.name, "description": description[:LONGEST_DESCRIPTION]}
    return write_document(front, f"{skill.description or description}\n")


def _page(text: str, source: Source) -> Page:
    return Page(text, [source] * (text.count("\n") + 1))


def _of_lines(lines: Sequence[tuple[str, Source]]) -> Page:
    return Page("\n".join(line for line, _ in lines), [source for _, source in lines])
