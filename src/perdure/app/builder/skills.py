"""The operations on skills: list and read built-in and own skills, create one from a description, edit it."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.app.idempotency import Idempotency
from perdure.bots.bot import skill_path
from perdure.bots.documents import MAX_BYTES, decode_text
from perdure.bots.skill_folder import SkillFolder, read_own_skill
from perdure.bots.skills import (
    SKILL_FILE,
    Skill,
    builtin_skill,
    builtin_skills,
    catalogue,
    is_skill_name,
    parse_skill,
)
from perdure.bots.writing import hold_bots_lock
from perdure.errors import Conflict, NotFound
from perdure.files.folders import ensure_folder
from perdure.settings import Settings

if TYPE_CHECKING:
    from perdure.app.wire.resources import bots as wire_bots
    from perdure.forge.capabilities import SuggestedCapability
    from perdure.kernel.ports import IdempotencyKeys, IdempotentCall

__all__ = ["MAX_BYTES", "SKILL_FILE", "SkillView", "Skills", "decode_text", "open_skills", "read_skill"]


@dataclass(frozen=True)
class SkillView:
    """A skill as every surface shows it."""

    skill: Skill
    capabilities: "tuple[SuggestedCapability, ...]" = ()
    """The suggested capabilities of a newly created skill, with reasons."""

    def wire(self) -> "wire_bots.SkillSummary":
        """Return the one JSON form of a skill in a list."""
        return {"name": self.skill.name, "description": self.skill.description, "origin": self.skill.skill_type}

    def details_wire(self) -> "wire_bots.Skill":
        """Return the one JSON form of a whole skill."""
        return {**self.wire(), "instructions": self.skill.instructions}

    def created_wire(self) -> "wire_bots.CreatedSkill":
        """Return the one JSON form of a created skill, with the path of its file relative to the home."""
        capabilities: list[wire_bots.SkillCapability] = [
            {"name": each.name, "reason": each.reason} for each in self.capabilities
        ]
        return {**self.wire(), "path": skill_path(self.skill.name), "capabilities": capabilities}


class Skills:
    """The skills of a home.

    async with Perdure.open() as p:
        await p.skills.create({"description": "Convert amounts between currencies"})
        print([skill.wire() for skill in await p.skills.list()])
    """

    def __init__(self, home: Path, bots_dir: Path, keys: "IdempotencyKeys | None" = None) -> None:
        self._home = home
        self._bots_dir = bots_dir
        self._keys = keys
        self.folder = SkillFolder(home)

    async def list(self) -> Sequence[SkillView]:
        """Return the skills that a bot can have, built-in skills first; unreadable skills are skipped."""
        own = await asyncio.to_thread(self.folder.skills)
        return [SkillView(skill) for skill in (*builtin_skills(), *own)]

    async def get(self, name: str) -> SkillView:
        """Return one skill.

        Raises: NotFound; Invalid, naming the file, when it cannot be read; Denied.
        """
        if name in catalogue():
            return SkillView(builtin_skill(name))
        return SkillView(read_own_skill(name, await self.text(name)))

    async def create(self, request: Any, *, once: "IdempotentCall | None" = None) -> SkillView:
        """Create a skill from `{description, name?, capabilities?}`; an identical call changes nothing.

        Raises: Invalid; Conflict when another skill has that name; KeyTaken when the key was used for another call;
        Denied.
        """
        from perdure.forge.new_skill import make_skill, read_skill_request

        skill_request = read_skill_request(request)
        capabilities = tuple(skill_request.resolve_capabilities())
        skill, text = make_skill(skill_request)
        if once is None or self._keys is None:
            await self._create(skill.name, text)
        else:
            await Idempotency(self._keys).keep_first(once, skill.name, lambda: self._create(skill.name, text))
        return SkillView(skill, capabilities)

    async def _create(self, name: str, text: str) -> None:
        """Write the file of a new skill, unless it exists."""
        if name in catalogue():
            raise Conflict(f"The skill {name} is built in. Choose another name.")
        ensure_folder(self._home)
        async with hold_bots_lock(self._bots_dir):
            await asyncio.to_thread(self._write_unless_exists, name, text)

    async def edit(self, name: str, text: str, *, seen: str | None = None) -> SkillView:
        """Validate and replace the text of a skill of the home; with `seen`, only if that is its current text.

        Raises: NotFound; Invalid, naming the file, when the text is not a skill of that name; Conflict when the skill
        is built in, or its text is not `seen`; Denied.
        """
        if name in catalogue():
            raise Conflict(f"The skill {name} is built in and cannot be edited. Create a skill under another name.")
        before = await self.text(name)
        skill = read_own_skill(name, text)
        async with hold_bots_lock(self._bots_dir):
            await asyncio.to_thread(self._replace, name, text, before if seen is None else seen)
        return SkillView(skill)

    async def text(self, name: str) -> str:
        """Return the text of the SKILL.md of a skill.

        Raises: NotFound; Invalid when it cannot be read; Denied.
        """
        if name in catalogue():
            return catalogue()[name]
        missing = NotFound(f"No skill {name[:80]!r}. `perdure skill list` shows the skills.")
        if not is_skill_name(name):
            raise missing
        try:
            return await asyncio.to_thread(self.folder.text, name)
        except NotFound:
            raise missing from None

    def _write_unless_exists(self, name: str, text: str) -> None:
        try:
            existing = self.folder.text(name)
        except NotFound:
            self.folder.write(name, text)
            return
        if existing != text:
            raise Conflict(f"Another skill {name} exists. Choose another name.")

    def _replace(self, name: str, text: str, seen: str) -> None:
        if self.folder.text(name) != seen:
            raise Conflict(f"The skill {name} was changed meanwhile. Read and edit it again.")
        self.folder.write(name, text)


def read_skill(data: bytes, path: Path) -> Skill:
    """Read a file in the Agent Skills format; a file named SKILL.md must be in a folder with the name of the skill.

    Raises: Invalid, naming the file.
    """
    folder = Path(os.path.abspath(path)).parent.name if path.name == SKILL_FILE else None
    return parse_skill(decode_text(data, str(path)), str(path), folder=folder)


def open_skills(settings: Settings) -> Skills:
    """Return the skills of a home without opening it; the home need not exist."""
    return Skills(settings.home, settings.bots_dir)
