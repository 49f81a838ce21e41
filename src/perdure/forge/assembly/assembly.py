"""Assembly: a config becomes a bot atomically, and once per session.

All texts are made and read back in memory. One transaction stores them as a pending version. Then the folder is
written, and the version becomes current. If the process dies after the transaction, the next call completes the rest.
"""

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from perdure import failpoints
from perdure.bots.archive import PackedBot
from perdure.bots.bot import BUILT_IN, IDENTITY, SOUL, USER, parse_bot
from perdure.bots.folder import NEW, read_bot, read_texts
from perdure.bots.skill_folder import read_own_skill
from perdure.bots.skills import parse_skill_list
from perdure.bots.slugs import require_slug, slugs_for
from perdure.errors import Conflict, Invalid, NotFound
from perdure.forge.assembly.changes import (
    ChangePlan,
    Changes,
    Provenance,
    config_of,
    new_provenance,
    overlay_files,
    plan_changes,
)
from perdure.forge.assembly.hand_edits import edited_files
from perdure.forge.assembly.library import BotLibrary, hashes, require_intact
from perdure.forge.assembly.sources import sources_of
from perdure.forge.assembly.texts import build_pages, require_round_trip, user_page
from perdure.forge.config import BuilderConfig
from perdure.forge.interview.finish import rewrite_purpose
from perdure.forge.ports import BotStore, BotVersion, BuilderMemoryEntry, Origin
from perdure.forge.state import BuilderState, Target
from perdure.forge.turns import ReadyToAssemble, Wire
from perdure.forge.vocabulary import BuilderMode

_MOST_SLUGS = 1000


class AssemblyResult(Wire):
    """A bot that was built, with the paths of its files relative to the home."""

    bot_id: str
    bot_slug: str
    bot_name: str
    soul_path: str
    identity_path: str
    user_path: str
    skills_attached: tuple[str, ...]
    version: int = 1
    clashes: tuple[str, ...] = ()
    """Files with conflicting hand edits: they are unchanged, and the new text is stored beside each as NAME.new."""
    set_aside: tuple[str, ...] = ()
    """Hand-edited files that a rollback replaced, under their new names."""
    changed: bool = True
    """False if a reconfiguration changed nothing: there is no new version, and its session stays open."""


class BotAssembler(BotLibrary):
    """Creates, changes, imports and rolls back bots."""

    def __init__(
        self,
        bots_dir: Path,
        bots: BotStore,
        *,
        now_us: Callable[[], int],
        new_id: Callable[[], str],
        skills: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        super().__init__(bots_dir, bots)
        self._now_us = now_us
        self._new_id = new_id
        self._skills = skills
        """Returns the texts of the skills that are not built in, by name."""

    async def assemble(
        self, state: BuilderState, config: BuilderConfig | None = None, *, revision: int | None = None
    ) -> AssemblyResult:
        """Create the bot of a session, or change the one that it reconfigures; `config` replaces the session's own.

        A session that was assembled before returns the same result again. `revision` is the expected revision of the
        draft of the session. A reconfiguration without a difference makes no version and keeps the session.

        Raises: Conflict when the session is not ready, or its draft or the bot was changed meanwhile; Invalid; Denied;
        Unavailable when the disk is full: call it again to complete the assembly.
        """
        result = await self.resume_assembly(state.session_id)
        if result is not None:
            return result
        complete, skills = await self._config_to_build(state, config)
        if state.mode is BuilderMode.RECONFIGURE:
            previous, plan = await self._plan_change(state, complete, skills)
            if _changes_nothing(state, complete, plan):
                return self._result(previous).model_copy(update={"changed": False})
            return await self._save_change(state, complete, previous, plan, revision)
        return await self._save_new(state, complete, skills, revision)

    async def resume_assembly(self, session_id: str) -> AssemblyResult | None:
        """Return the result of a session that was assembled, after completing it on disk; None if it was not yet.

        Raises: Invalid when another file has the name of the folder; Denied.
        """
        version = await self._bots.version_of_session(session_id)
        if version is None:
            return None
        aside = await self._finish(version.slug) if version.state == "pending" else ()
        return self._result(version).model_copy(update={"set_aside": aside})

    async def preview_changes(self, state: BuilderState, config: BuilderConfig | None = None) -> Changes:
        """Return the changes on disk that `assemble` would make.

        Raises: Conflict when the session is not ready, or the bot was changed meanwhile; Invalid; Denied.
        """
        complete, skills = await self._config_to_build(state, config)
        if state.mode is BuilderMode.RECONFIGURE:
            return (await self._plan_change(state, complete, skills))[1].changes()
        return ChangePlan(_new_files(state, complete, skills)[0], {}, {}, ()).changes()

    async def target(self, slug: str) -> Target:
        """Return a bot as the target of a reconfiguration, with the values that its files have now.

        Raises: NotFound; Invalid, naming the file, when one cannot be read; Denied.
        """
        version, bot = await self._read_consistently(slug, read_bot)
        config = overlay_files(config_of(version), bot)
        return Target(bot_id=version.bot_id, slug=slug, config=config.wire(), version=version.number)

    async def rollback(self, slug: str, number: int, *, call_id: str | None = None) -> AssemblyResult:
        """Restore the files of an earlier version as a new version.

        A file with hand edits that the earlier version lacks is renamed to NAME.old, whether it was edited since the
        newest version or between two versions. A repeated `call_id` makes one version only.

        Raises: NotFound when there is no such version; Damaged when its stored files do not match their SHA-256;
        Conflict when the bot is changed at the same time; Denied.
        """
        if call_id is not None and (result := await self.resume_assembly(call_id)) is not None:
            return result
        newest = await self.ensure_written(slug)
        earlier = await self._bots.version(slug, number)
        require_intact(earlier)
        files = {path: text for path, text in earlier.files.items() if not path.endswith(NEW)}
        parse_bot(slug, files)
        version = replace(
            earlier,
            number=newest.number + 1,
            state="pending",
            origin="rollback",
            files=files,
            sha256=hashes(files),
            session_id=call_id,
            created_at_us=self._now_us(),
            hand_edits=(),
        )
        return await self._save_version(version)

    async def import_bot(self, packed: PackedBot, *, call_id: str | None = None) -> AssemblyResult:
        """Create a bot from an archive. Its texts are stored unchanged; nothing in them is run.

        A repeated `call_id` makes one bot only.

        Raises: Invalid when the archive does not contain a valid bot; Denied.
        """
        bot = parse_bot(packed.slug, packed.files)
        try:
            config = overlay_files(BuilderConfig.model_validate(packed.config), bot)
        except ValidationError as error:
            raise Invalid(f"The config in the archive of {packed.slug} is not valid: {_first(error)}.") from error
        listed = {path for path in packed.files if not path.startswith("skills/")}
        listed |= {f"skills/{skill.name}/SKILL.md" for skill in bot.skills}
        files = {path: text for path, text in packed.files.items() if path in listed}
        version = replace(self._first_version(config, files, {}, origin="import"), session_id=call_id)
        return await self._save_under_free_slug(version)

    async def _config_to_build(
        self, state: BuilderState, config: BuilderConfig | None
    ) -> tuple[BuilderConfig, Mapping[str, str]]:
        """Return the config to build, and the texts of the skills in it that are not built in."""
        whole = _config_to_build(state, config)
        there = await asyncio.to_thread(self._skills)
        texts = {skill.name: there[skill.name] for skill in whole.skills if skill.name in there}
        return _with_types(whole, texts), texts

    async def _save_new(
        self, state: BuilderState, config: BuilderConfig, skills: Mapping[str, str], revision: int | None
    ) -> AssemblyResult:
        files, provenance = _new_files(state, config, skills)
        version = replace(
            self._first_version(config, files, provenance),
            conversation=[exchange.model_dump(mode="json") for exchange in state.conversation],
            session_id=state.session_id,
        )
        return await self._save_under_free_slug(version, self._choice(state, config), revision)

    async def _plan_change(
        self, state: BuilderState, config: BuilderConfig, skills: Mapping[str, str]
    ) -> tuple[BotVersion, ChangePlan]:
        target = state.target
        if target is None:
            raise Invalid("This session reconfigures a bot, but does not name it. Start a new session.")
        previous, disk = await self._read_consistently(target.slug, read_texts)
        if (previous.bot_id, previous.number) != (target.bot_id, target.version):
            raise Conflict(
                f"{target.slug} was changed since this session began: it was version {target.version} and is version"
                f" {previous.number} now. Start a new session from the present version."
            )
        start_config = config_of(replace(previous, config=target.config))
        sources = sources_of(state, config, earlier=len(previous.conversation))
        plan = partial(plan_changes, disk, previous, start_config, config, sources, skills=skills)
        return previous, await asyncio.to_thread(plan)

    async def _save_change(
        self,
        state: BuilderState,
        config: BuilderConfig,
        previous: BotVersion,
        plan: ChangePlan,
        revision: int | None,
    ) -> AssemblyResult:
        version = replace(
            self._first_version(config, plan.files, plan.provenance, origin="reconfigure"),
            bot_id=previous.bot_id,
            slug=previous.slug,
            number=previous.number + 1,
            conversation=[*previous.conversation, *(each.model_dump(mode="json") for each in state.conversation)],
            session_id=state.session_id,
            hand_edits=edited_files(previous.files, plan.seen),
        )
        choice = replace(self._choice(state, config), bot_slug=previous.slug)
        return await self._save_version(version, choice, revision=revision, seen=plan.seen, clashes=plan.clashes)

    async def _save_under_free_slug(
        self, version: BotVersion, choice: BuilderMemoryEntry | None = None, revision: int | None = None
    ) -> AssemblyResult:
        """Save a new bot under the first slug that is free in the database and on disk."""
        for slug in islice(slugs_for(version.name), _MOST_SLUGS):
            if await self._is_free(require_slug(slug)):
                chosen = None if choice is None else replace(choice, bot_slug=slug)
                try:
                    return await self._save_version(replace(version, slug=slug), chosen, revision=revision)
                except Conflict:
                    if await self._is_free(slug):
                        raise  # the conflict is not about the slug, which another process may have taken meanwhile
        raise Conflict(f"There are already {_MOST_SLUGS} bots named {version.name!r}. Choose another name.")

    async def _save_version(
        self,
        version: BotVersion,
        choice: BuilderMemoryEntry | None = None,
        *,
        revision: int | None = None,
        seen: Mapping[str, str] | None = None,
        clashes: Sequence[str] = (),
    ) -> AssemblyResult:
        failpoints.hit("forge.version.before")
        stored = await self._bots.save_version(version, choice, draft_revision=revision)
        failpoints.hit("forge.version.after")
        aside = await self._finish(stored.slug, seen)
        result = self._result(stored)
        return result.model_copy(update={"set_aside": aside, "clashes": tuple(clashes) or result.clashes})

    async def _is_free(self, slug: str) -> bool:
        if await asyncio.to_thread(os.path.lexists, self.folder(slug)):
            return False
        try:
            await self._bots.version(slug)
        except NotFound:
            return True
        return False

    def _first_version(
        self, config: BuilderConfig, files: Mapping[str, str], provenance: Provenance, *, origin: Origin = "assemble"
    ) -> BotVersion:
        """Return the first version of a new bot; its slug is not yet known."""
        return BotVersion(
            bot_id=self._new_id(),
            slug="",
            name=config.name,
            category=config.category,
            number=1,
            state="pending",
            origin=origin,
            files=files,
            sha256=hashes(files),
            config=config.wire(),
            provenance=_wire(provenance),
            created_at_us=self._now_us(),
        )

    def _choice(self, state: BuilderState, config: BuilderConfig) -> BuilderMemoryEntry:
        return BuilderMemoryEntry(
            id=self._new_id(),
            purpose_category=config.category,
            initial_description=state.initial_description,
            chosen_tone=config.personality.tone,
            chosen_model=config.model_settings.model,
            chosen_skills=tuple(skill.name for skill in config.skills),
            bot_slug="",
            created_at_us=self._now_us(),
        )

    def _result(self, version: BotVersion) -> AssemblyResult:
        folder = f"{self._bots_dir.name}/{version.slug}"
        return AssemblyResult(
            bot_id=version.bot_id,
            bot_slug=version.slug,
            bot_name=version.name,
            soul_path=f"{folder}/{SOUL}",
            identity_path=f"{folder}/{IDENTITY}",
            user_path=f"{folder}/{USER}",
            skills_attached=tuple(parse_skill_list(version.files.get("skills.toml", ""), "skills.toml")),
            version=version.number,
            clashes=tuple(path.removesuffix(NEW) for path in version.files if path.endswith(NEW)),
        )


def _config_to_build(state: BuilderState, config: BuilderConfig | None) -> BuilderConfig:
    """Return the config to build, validated again because it may have been edited."""
    if not isinstance(state.pending_turn, ReadyToAssemble):
        raise Conflict("This session is not ready: answer its remaining questions first.")
    if state.mode not in (BuilderMode.BOT, BuilderMode.RECONFIGURE):
        raise Invalid(f"A session of mode {state.mode} does not build a bot.")
    meant = state.pending_turn.config
    try:
        whole = rewrite_purpose(meant, BuilderConfig.model_validate((config or meant).wire()))
    except ValidationError as error:
        raise Invalid(f"The config is not valid: {_first(error)}.") from error
    model, skills = whole.model_settings.model, [skill.name for skill in whole.skills]
    if model != BUILT_IN and not all(model.partition(":")):
        raise Invalid(f"{model[:60]!r} is not a model. Expected provider:name, or {BUILT_IN}.")
    if twice := [name for name in skills if skills.count(name) > 1]:
        raise Invalid(f"The config has the skill {twice[0]!r} twice.")
    return whole


def _changes_nothing(state: BuilderState, config: BuilderConfig, plan: ChangePlan) -> bool:
    """Return whether a reconfiguration changes neither the files on disk nor the config."""
    changes = plan.changes()
    is_same_config = state.target is not None and config == BuilderConfig.model_validate(state.target.config)
    return is_same_config and not changes.diffs and not changes.clashes


def _with_types(config: BuilderConfig, texts: Mapping[str, str]) -> BuilderConfig:
    """Return a config with the types of its skills as their files have them; it may have been written by hand."""
    types = {name: read_own_skill(name, text).skill_type for name, text in texts.items()}
    skills = [
        skill.model_copy(update={"skill_type": types.get(skill.name, skill.skill_type)}) for skill in config.skills
    ]
    return config.model_copy(update={"skills": tuple(skills)})


def _new_files(
    state: BuilderState, config: BuilderConfig, skills: Mapping[str, str]
) -> tuple[dict[str, str], Provenance]:
    """Return all texts of a new bot, after reading them back."""
    sources = sources_of(state, config)
    pages = {**build_pages(config, sources, skills=skills), USER: user_page(config, sources)}
    files = {path: page.text for path, page in pages.items()}
    require_round_trip(config, "bot", files)
    return files, new_provenance(pages)


def _wire(provenance: Provenance) -> dict[str, list[dict[str, Any]]]:
    return {path: [span.wire() for span in spans] for path, spans in provenance.items()}


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
