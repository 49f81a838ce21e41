"""A bot, as its files say it is: who it is, what answers for it, whom it works for, and what it can do."""

from collections.abc import Mapping
from dataclasses import dataclass

from perdure.bots.documents import read_document, require_text
from perdure.bots.fields import Fields
from perdure.bots.skills import MOST_SKILLS, SKILL_FILE, Skill, parse_skill, parse_skill_list, require_skill_name
from perdure.bots.slugs import require_slug
from perdure.bots.soul import LONGEST_NAME, Soul, parse_soul
from perdure.errors import Invalid

SOUL = "SOUL.md"
IDENTITY = "IDENTITY.md"
USER = "USER.md"
SKILLS = "skills.toml"
FILES = (SOUL, IDENTITY, USER, SKILLS)
MOST_FILES = len(FILES) + MOST_SKILLS
BUILT_IN = "builtin"
"""The provider, and the model, of a bot that needs none."""
LONGEST_CATEGORY = 50


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What answers for a bot, and how freely."""

    model: str
    """`provider:name`, or `builtin`."""
    temperature: float
    max_tokens: int

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Identity:
    """How a bot appears, and what answers for it."""

    display_name: str
    category: str
    model_settings: ModelSettings
    body: str


@dataclass(frozen=True, slots=True)
class Bot:
    """A bot, as its files say it is. `prompt()` and `model_settings` are all that is needed to run it."""

    slug: str
    soul: Soul
    identity: Identity
    user: str
    skills: tuple[Skill, ...]

    @property
    def name(self) -> str:
        """What the bot is called."""
        return self.identity.display_name

    @property
    def category(self) -> str:
        """What kind of bot it is."""
        return self.identity.category

    @property
    def model_settings(self) -> ModelSettings:
        """Which model answers, and how freely."""
        return self.identity.model_settings

    def prompt(self, *, with_instructions: bool = True) -> str:
        """Return the system prompt: soul, identity, user and skills, or only what the skills are for."""
        traits = f"\nYour traits: {', '.join(self.soul.traits)}." if self.soul.traits else ""
        parts = [
            f"You are {self.soul.name}.\nYour tone: {self.soul.tone}.{traits}",
            self.soul.body,
            self.identity.body,
            self.user,
            *([self._skills_whole()] if with_instructions else [self._skills_listed()]),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _skills_whole(self) -> str:
        texts = (f"# Skill: {skill.name}\n\n{skill.description}\n\n{skill.instructions}" for skill in self.skills)
        return "\n\n".join(texts)

    def _skills_listed(self) -> str:
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in self.skills)
        return f"# Skills\n\nLoad one with `load_skill` before you use it.\n\n{listed}" if listed else ""


def skill_path(name: str) -> str:
    """Return where the text of a skill lies within the folder of a bot.

    Raises: Invalid
    """
    return f"skills/{require_skill_name(name)}/{SKILL_FILE}"


def parse_bot(slug: str, texts: Mapping[str, str]) -> Bot:
    """Read a bot from the texts of its files, by their path within its folder.

    Raises: Invalid, naming the file.
    """
    if missing := [f"{slug}/{path} is missing." for path in FILES if path not in texts]:
        raise Invalid(missing[0], errors=missing)
    for path, text in texts.items():
        require_text(text, f"{slug}/{path}")
    return Bot(
        slug=require_slug(slug),
        soul=parse_soul(texts[SOUL], f"{slug}/{SOUL}"),
        identity=parse_identity(texts[IDENTITY], f"{slug}/{IDENTITY}"),
        user=texts[USER].strip(),
        skills=_skills(slug, texts),
    )


def parse_identity(text: str, name: str) -> Identity:
    """Read the text of an IDENTITY.md. The provider may stand in the model, beside it, or both.

    Raises: Invalid, naming the file.
    """
    document = read_document(text, name)
    fields = Fields(document, name)
    model = fields.text("model")
    if ":" not in model and model != BUILT_IN:
        model = f"{fields.text('provider')}:{model}"
    return Identity(
        display_name=fields.text("display_name", LONGEST_NAME),
        category=fields.text("category", LONGEST_CATEGORY),
        model_settings=ModelSettings(
            model=model,
            temperature=float(fields.number("temperature", 0, 2)),
            max_tokens=fields.whole_number("max_tokens", 1, 1_000_000),
        ),
        body=document.body.strip(),
    )


def _skills(slug: str, texts: Mapping[str, str]) -> tuple[Skill, ...]:
    skills = []
    for name, skill_type in parse_skill_list(texts[SKILLS], f"{slug}/{SKILLS}").items():
        path = skill_path(name)
        if path not in texts:
            raise Invalid(f"{slug}/{path} is missing, but {SKILLS} names it.")
        skills.append(parse_skill(texts[path], f"{slug}/{path}", folder=name, skill_type=skill_type))
    return tuple(skills)
