"""A change of a bot that is there: what we would write now, merged with what a person made of what we wrote before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from perdure.bots.bot import FILES, IDENTITY, SKILLS, SOUL, USER, Bot, parse_bot, skill_path
from perdure.bots.documents import read_document
from perdure.bots.folder import NEW
from perdure.bots.merge import diff, merge_file
from perdure.bots.provenance import Source, Span, carried, read_spans, spans_of
from perdure.bots.provenance import sources_of as sources_of_spans
from perdure.bots.skills import parse_skill_list
from perdure.errors import Damaged, Invalid
from perdure.forge.assembly.texts import Page, Sources, build_pages, require_same, user_page
from perdure.forge.config import BuilderConfig, SkillChoice
from perdure.forge.ports import BotVersion

Provenance = dict[str, list[Span]]


@dataclass(frozen=True, slots=True)
class Changes:
    """What a new version would change on disk."""

    diffs: Mapping[str, str]
    """A unified diff for each file that changes."""
    clashes: tuple[str, ...]
    """Files in which a person's text stays where ours would differ; ours is beside it, as NAME.new."""

    def wire(self) -> dict[str, Any]:
        """Return the one JSON form."""
        return {"diffs": dict(self.diffs), "clashes": list(self.clashes)}


@dataclass(frozen=True, slots=True)
class Planned:
    """The files of a new version, and what was on disk when it was made."""

    files: Mapping[str, str]
    seen: Mapping[str, str]
    provenance: Provenance
    clashes: tuple[str, ...]

    def changes(self) -> Changes:
        """Show what is different from the disk."""
        paths = [path for path in (*self.files, *self.seen) if not path.endswith(NEW)]
        diffs = {
            path: diff(path, self.seen.get(path, ""), self.files.get(path, ""), names=("now", "then"))
            for path in dict.fromkeys(paths)
        }
        return Changes({path: text for path, text in diffs.items() if text}, self.clashes)


def config_of(version: BotVersion) -> BuilderConfig:
    """Return the config that a version was made of.

    Raises: Damaged
    """
    try:
        return BuilderConfig.model_validate(version.config)
    except ValidationError as error:
        raise Damaged(f"The config of {version.slug}, version {version.number}, cannot be read.") from error


def overlaid(config: BuilderConfig, bot: Bot) -> BuilderConfig:
    """Return a config with the values that stand in the files of the bot now.

    Raises: Invalid when a value cannot be kept.
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
        raise Invalid(f"{bot.slug}: {'.'.join(map(str, first['loc']))} cannot be kept: {first['msg']}.") from error


def plan_changes(
    disk: Mapping[str, str],
    previous: BotVersion,
    begun_with: BuilderConfig,
    config: BuilderConfig,
    sources: Sources,
    *,
    skills: Mapping[str, str],
) -> Planned:
    """Merge a new config into the files that a bot has on disk.

    `begun_with` is what it was when the person was asked. A skill that the bot has stays as it is; the text of another
    is that of `skills`, unless it is built in.

    What we wrote before is made anew from the config of the previous version: the files of that version may hold what a
    person wrote, which would else be taken for ours, and for dropped by us.

    Raises: Invalid, naming the file, when one on disk cannot be read: nothing can be merged with it.
    """
    slug = previous.slug
    bot = parse_bot(slug, disk)
    built = config_of(previous)
    begun_with, config = (_without_own(each, bot, built) for each in (begun_with, config))
    known = {
        **skills,
        **_skill_texts(previous.files),
        **{skill.name: disk[skill_path(skill.name)] for skill in bot.skills},
    }
    ours = build_pages(config, sources, skills=known)
    require_same(config, slug, {**{path: page.text for path, page in ours.items()}, USER: disk[USER]})
    base = _base(previous, begun_with, built, known)
    ours[USER] = user_page(config, sources)
    if ours[USER].text == user_page(begun_with).text:
        base[USER] = ours[USER].text  # nothing new is said about the person: the file stays as it is
    files: dict[str, str] = {}
    clashes = []
    for path in (SOUL, IDENTITY, USER, SKILLS):
        merged = merge_file(path, base=base[path], ours=ours[path].text, theirs=disk[path])
        files[path] = merged.text
        if merged.is_clash:
            clashes.append(path)
    texts = {**known, **_skill_texts({path: page.text for path, page in ours.items()}), **_skill_texts(disk)}
    files |= {skill_path(name): texts[name] for name in parse_skill_list(files[SKILLS], f"{slug}/{SKILLS}")}
    provenance = {path: _provenance(path, text, ours.get(path), previous) for path, text in files.items()}
    parse_bot(slug, files)
    kept = [path for path, text in disk.items() if path not in files and text != previous.files.get(path)]
    files |= {f"{path}{NEW}": ours[path].text for path in clashes}
    return Planned(files, disk, provenance, (*clashes, *kept))


def _base(
    previous: BotVersion, begun_with: BuilderConfig, built: BuilderConfig, known: Mapping[str, str]
) -> dict[str, str]:
    """Return what we wrote before. The first version is there as it was written, also by an earlier program."""
    base = {path: page.text for path, page in build_pages(begun_with, skills=known).items()}
    made = {path: page.text for path, page in build_pages(built, skills=known).items()} | {USER: user_page(built).text}
    if previous.origin == "assemble":
        made |= {path: previous.files[path] for path in (SOUL, IDENTITY, USER)}
    return base | {path: _front(base[path]) + _body(made[path]) for path in (SOUL, IDENTITY)} | {USER: made[USER]}


def new_provenance(pages: Mapping[str, Page]) -> Provenance:
    """Return where the lines of new files came from."""
    return {path: spans_of(page.sources) for path, page in pages.items()}


def _without_own(config: BuilderConfig, bot: Bot, built: BuilderConfig) -> BuilderConfig:
    """Return a config without the skills that a person added by hand: those stay as they are, whatever is chosen."""
    own = {skill.name for skill in bot.skills} - {skill.name for skill in built.skills}
    return config.model_copy(update={"skills": tuple(skill for skill in config.skills if skill.name not in own)})


def _provenance(path: str, text: str, ours: Page | None, previous: BotVersion) -> list[Span]:
    """Return where the lines of a merged file came from: what is as it was came from where it did."""
    before = previous.files.get(path, "")
    spans = read_spans(previous.provenance.get(path, ()), f"{previous.slug}/{path}")
    old = sources_of_spans(spans, before.count("\n") + 1)
    if ours is None:
        return spans_of(carried(old, before, text))
    carried_on: Sequence[Source | None] = [
        was or new for was, new in zip(carried(old, before, ours.text), ours.sources, strict=True)
    ]
    return spans_of(carried(carried_on, ours.text, text))


def _skill_texts(files: Mapping[str, str]) -> dict[str, str]:
    return {path.split("/")[1]: text for path, text in files.items() if path not in FILES and not path.endswith(NEW)}


def _front(text: str) -> str:
    return text.removesuffix(_body(text))


def _body(text: str) -> str:
    return read_document(text, "a page").body
