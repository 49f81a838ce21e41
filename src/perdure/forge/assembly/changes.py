"""Changes of an existing bot: the newly generated files are merged with hand edits of the present ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from perdure.bots.bot import FILES, IDENTITY, SKILLS, SOUL, USER, Bot, parse_bot, skill_path
from perdure.bots.documents import read_document
from perdure.bots.folder import NEW
from perdure.bots.merge import diff, merge_file
from perdure.bots.provenance import Source, Span, carry_sources, read_spans, sources_of_spans, spans_of
from perdure.bots.skills import parse_skill_list
from perdure.errors import Damaged, Invalid
from perdure.forge.assembly.texts import Page, Sources, build_pages, require_round_trip, user_page
from perdure.forge.config import BuilderConfig, SkillChoice
from perdure.forge.ports import BotVersion

Provenance = dict[str, list[Span]]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes on disk that a new version would make."""

    diffs: Mapping[str, str]
    """A unified diff for each file that changes."""
    clashes: tuple[str, ...]
    """Files with conflicting hand edits: they are unchanged, and the new text is stored beside each as NAME.new."""

    def wire(self) -> dict[str, Any]:
        """Return this as JSON."""
        return {"diffs": dict(self.diffs), "clashes": list(self.clashes)}


@dataclass(frozen=True, slots=True)
class ChangePlan:
    """The files of a new version, and the files on disk from which it was made."""

    files: Mapping[str, str]
    seen: Mapping[str, str]
    provenance: Provenance
    clashes: tuple[str, ...]

    def changes(self) -> Changes:
        """Return the differences from the files on disk."""
        paths = [path for path in (*self.files, *self.seen) if not path.endswith(NEW)]
        diffs = {
            path: diff(path, self.seen.get(path, ""), self.files.get(path, ""), names=("now", "then"))
            for path in dict.fromkeys(paths)
        }
        return Changes({path: text for path, text in diffs.items() if text}, self.clashes)


def config_of(version: BotVersion) -> BuilderConfig:
    """Return the config of a version.

    Raises: Damaged
    """
    try:
        return BuilderConfig.model_validate(version.config)
    except ValidationError as error:
        raise Damaged(f"The config of {version.slug}, version {version.number}, cannot be read.") from error


def overlay_files(config: BuilderConfig, bot: Bot) -> BuilderConfig:
    """Return a config with the values that the files of the bot have now.

    Raises: Invalid when a value cannot be stored in a config.
    """
    chosen = {skill.name: skill for skill in config.skills}
    values = config.wire()
    values |= {"name": bot.name, "category": bot.category}
    values["personality"] |= {"tone": bot.soul.tone, "traits": bot.soul.traits}
    settings = bot.model_settings
    values["model_config"] = {
        "model": settings.model,
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
    }
    values["skills"] = [
        chosen.get(skill.name)
        or SkillChoice(name=skill.name, description=skill.description, skill_type=skill.skill_type)
        for skill in bot.skills
    ]
    try:
        return BuilderConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise Invalid(f"{bot.slug}: the value of {field} is not valid: {first['msg']}.") from error


def plan_changes(
    disk: Mapping[str, str],
    previous: BotVersion,
    start_config: BuilderConfig,
    config: BuilderConfig,
    sources: Sources,
    *,
    skills: Mapping[str, str],
) -> ChangePlan:
    """Merge a new config into the files that a bot has on disk.

    `start_config` is the config with which the session began. A skill that the bot has is unchanged; the text of a new
    one is that of `skills`, unless it is built in.

    This is a three-way merge. Its base is generated again from the previous config instead of read from the previous
    version: the stored files may contain hand edits, and with those in the base, the merge would take lines that a
    person wrote for generated ones, and delete them because the new config does not generate them.

    Raises: Invalid, naming the file, when one on disk cannot be read.
    """
    slug = previous.slug
    bot = parse_bot(slug, disk)
    previous_config = config_of(previous)
    start_config, config = (_without_hand_added(each, bot, previous_config) for each in (start_config, config))
    skill_texts = {
        **skills,
        **_skill_texts(previous.files),
        **{skill.name: disk[skill_path(skill.name)] for skill in bot.skills},
    }
    ours = build_pages(config, sources, skills=skill_texts)
    require_round_trip(config, slug, {**{path: page.text for path, page in ours.items()}, USER: disk[USER]})
    base = _base(previous, start_config, previous_config, skill_texts)
    ours[USER] = user_page(config, sources)
    if ours[USER].text == user_page(start_config).text:
        base[USER] = ours[USER].text  # no new answer is about the person: the file is unchanged
    files: dict[str, str] = {}
    clashes = []
    for path in (SOUL, IDENTITY, USER, SKILLS):
        merged = merge_file(path, base=base[path], ours=ours[path].text, theirs=disk[path])
        files[path] = merged.text
        if merged.is_clash:
            clashes.append(path)
    texts = {**skill_texts, **_skill_texts({path: page.text for path, page in ours.items()}), **_skill_texts(disk)}
    files |= {skill_path(name): texts[name] for name in parse_skill_list(files[SKILLS], f"{slug}/{SKILLS}")}
    provenance = {path: _provenance(path, text, ours.get(path), previous) for path, text in files.items()}
    parse_bot(slug, files)
    hand_added = [path for path, text in disk.items() if path not in files and text != previous.files.get(path)]
    files |= {f"{path}{NEW}": ours[path].text for path in clashes}
    return ChangePlan(files, disk, provenance, (*clashes, *hand_added))


def _base(
    previous: BotVersion, start_config: BuilderConfig, previous_config: BuilderConfig, skill_texts: Mapping[str, str]
) -> dict[str, str]:
    """Return the merge base: the files as they were generated for the previous version.

    A new bot has its generated files in its first version, also if an earlier release wrote them in other words.
    """
    base = {path: page.text for path, page in build_pages(start_config, skills=skill_texts).items()}
    generated = {path: page.text for path, page in build_pages(previous_config, skills=skill_texts).items()} | {
        USER: user_page(previous_config).text
    }
    if previous.origin == "assemble":
        generated |= {path: previous.files[path] for path in (SOUL, IDENTITY, USER)}
    return (
        base
        | {path: _front(base[path]) + _body(generated[path]) for path in (SOUL, IDENTITY)}
        | {USER: generated[USER]}
    )


def new_provenance(pages: Mapping[str, Page]) -> Provenance:
    """Return the sources of the lines of new files."""
    return {path: spans_of(page.sources) for path, page in pages.items()}


def _without_hand_added(config: BuilderConfig, bot: Bot, previous_config: BuilderConfig) -> BuilderConfig:
    """Return a config without the skills that a person added by hand; a reconfiguration does not change those."""
    hand_added = {skill.name for skill in bot.skills} - {skill.name for skill in previous_config.skills}
    return config.model_copy(update={"skills": tuple(skill for skill in config.skills if skill.name not in hand_added)})


def _provenance(path: str, text: str, ours: Page | None, previous: BotVersion) -> list[Span]:
    """Return the sources of the lines of a merged file; an unchanged line keeps its source."""
    before = previous.files.get(path, "")
    previous_spans = read_spans(previous.provenance.get(path, ()), f"{previous.slug}/{path}")
    previous_sources = sources_of_spans(previous_spans, before.count("\n") + 1)
    if ours is None:
        return spans_of(carry_sources(previous_sources, before, text))
    generated: Sequence[Source | None] = [
        was or new for was, new in zip(carry_sources(previous_sources, before, ours.text), ours.sources, strict=True)
    ]
    return spans_of(carry_sources(generated, ours.text, text))


def _skill_texts(files: Mapping[str, str]) -> dict[str, str]:
    return {path.split("/")[1]: text for path, text in files.items() if path not in FILES and not path.endswith(NEW)}


def _front(text: str) -> str:
    return text.removesuffix(_body(text))


def _body(text: str) -> str:
    return read_document(text, "a page").body
