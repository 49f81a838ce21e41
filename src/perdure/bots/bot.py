"""A bot as its files define it: soul, identity with model settings, user, and skills."""

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
"""The provider and the model of a bot without a model."""
LONGEST_CATEGORY = 50
RECALLS = ("own", "project", "all")
"""The records that a bot may recall: its own, those of the project that it works in, or all."""
RECALL = ("own", "project")


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The model of a bot, and its sampling settings."""

    model: str
    """`provider:name`, or `builtin`."""
    temperature: float
    max_tokens: int

    @property
    def provider(self) -> str:
        return self.model.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Identity:
    """The display name, category and model of a bot."""

    display_name: str
    category: str
    model_settings: ModelSettings
    body: str
    recall: tuple[str, ...] = RECALL
    """The records of the memory that it may recall."""


@dataclass(frozen=True, slots=True)
class Bot:
    """A bot as its files define it. `prompt()` and `model_settings` are enough to run it."""

    slug: str
    soul: Soul
    identity: Identity
    user: str
    skills: tuple[Skill, ...]

    @property
    def name(self) -> str:
        """The display name."""
        return self.identity.display_name

    @property
    def category(self) -> str:
        """The category."""
        return self.identity.category

    @property
    def recall(self) -> tuple[str, ...]:
        """The records of the memory that the bot may recall."""
        return self.identity.recall

    @property
    def model_settings(self) -> ModelSettings:
        """The model and its sampling settings."""
        return self.identity.model_settings

    def prompt(self, *, with_instructions: bool = True) -> str:
        """Return the system prompt: soul, identity, user, and skills.

        Without instructions, the skills are only listed, each with its description.
        """
        traits = f"\nYour traits: {', '.join(self.soul.traits)}." if self.soul.traits else ""
        parts = [
            f"You are {self.soul.name}.\nYour tone: {self.soul.tone}.{traits}",
            self.soul.body,
            self.identity.body,
            self.user,
            *([self._full_skills()] if with_instructions else [self._skill_list()]),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _full_skills(self) -> str:
        texts = (f"# Skill: {skill.name}\n\n{skill.description}\n\n{skill.instructions}" for skill in self.skills)
        return "\n\n".join(texts)

    def _skill_list(self) -> str:
        listed = "\n".join(f"- {skill.name}: {skill.description}" for skill in self.skills)
        return f"# Skills\n\nLoad a skill with `load_skill` before you use it.\n\n{listed}" if listed else ""


def skill_path(name: str) -> str:
    """Return the path of the text of a skill within the folder of a bot.

    Raises: Invalid
    """
    return f"skills/{require_skill_name(name)}/{SKILL_FILE}"


def parse_bot(slug: str, texts: Mapping[str, str]) -> Bot:
    """Parse a bot from the texts of its files, by their path within its folder.

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
    """Parse the text of an IDENTITY.md. The provider is part of `model`, or a key of its own, or both.

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
        recall=_recall(fields),
    )


def _recall(fields: Fields) -> tuple[str, ...]:
    if fields.document.front.get("recall") is None:
        return RECALL
    scopes = fields.texts("recall", len(RECALLS))
    unknown = next((each for each in scopes if each not in RECALLS), None)
    if unknown is not None:
        raise fields.error("recall", f"must be a list of {', '.join(RECALLS)}; found {unknown!r}")
    return scopes


def _skills(slug: str, texts: Mapping[str, str]) -> tuple[Skill, ...]:
    skills = []
    for name, skill_type in parse_skill_list(texts[SKILLS], f"{slug}/{SKILLS}").items():
        path = skill_path(name)
        if path not in texts:
            raise Invalid(f"{slug}/{path} is missing, but {SKILLS} names it.")
        skills.append(parse_skill(texts[path], f"{slug}/{path}", folder=name, skill_type=skill_type))
    return tuple(skills)
