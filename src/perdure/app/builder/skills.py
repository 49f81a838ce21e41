"""What can be done with skills: look at those that there are, built in or made here, and make one of a description."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.app.idempotency import Idempotency
from perdure.bots.bot import skill_path
from perdure.bots.shelf import SkillShelf, read_own_skill
from perdure.bots.skills import Skill, builtin_skill, builtin_skills, catalogue, is_skill_name
from perdure.bots.writing import locked
from perdure.errors import Conflict, NotFound
from perdure.files.folders import ensure_folder
from perdure.settings import Settings

if TYPE_CHECKING:
    from perdure.app.wire.resources import bots as wire_bots
    from perdure.forge.capabilities import SuggestedCapability
    from perdure.kernel.ports import IdempotencyKeys, IdempotentCall


@dataclass(frozen=True)
class SkillView:
    """A skill as every surface shows it."""

    skill: Skill
    capabilities: "tuple[SuggestedCapability, ...]" = ()
    """Of a skill that was just created: what it may use, and why."""

    def wire(self) -> "wire_bots.SkillSummary":
        """Return the one JSON form of a skill in a list."""
        return {"name": self.skill.name, "description": self.skill.description, "origin": self.skill.skill_type}

    def whole(self) -> "wire_bots.Skill":
        """Return the one JSON form of a whole skill."""
        return {**self.wire(), "instructions": self.skill.instructions}

    def made(self) -> "wire_bots.CreatedSkill":
        """Return the one JSON form of a skill that was made, and where its file is, relative to the home."""
        found: list[wire_bots.SkillCapability] = [
            {"name": each.name, "reason": each.reason} for each in self.capabilities
        ]
        return {**self.wire(), "path": skill_path(self.skill.name), "capabilities": found}


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
        self.shelf = SkillShelf(home)

    async def list(self) -> Sequence[SkillView]:
        """Return the skills that a bot can have, the built-in ones first; one that cannot be read hides no other."""
        own = await asyncio.to_thread(self.shelf.skills)
        return [SkillView(skill) for skill in (*builtin_skills(), *own)]

    async def get(self, name: str) -> SkillView:
        """Return one skill.

        Raises: NotFound; Invalid, naming the file, when it cannot be read; Denied.
        """
        if name in catalogue():
            return SkillView(builtin_skill(name))
        return SkillView(read_own_skill(name, await self.text(name)))

    async def create(self, request: Any, *, once: "IdempotentCall | None" = None) -> SkillView:
        """Make a skill of `{description, name?, capabilities?}`, and keep it; the same again changes nothing.

        Raises: Invalid; Conflict when there is another skill of that name; KeyTaken when the key of the call was used
        for another; Denied.
        """
        from perdure.forge.new_skill import make_skill, read_skill_request

        asked = read_skill_request(request)
        capabilities = tuple(asked.wanted())
        skill, text = make_skill(asked)
        if once is None or self._keys is None:
            await self._keep(skill.name, text)
        else:
            await Idempotency(self._keys).kept_first(once, skill.name, lambda: self._keep(skill.name, text))
        return SkillView(skill, capabilities)

    async def _keep(self, name: str, text: str) -> None:
        """Write the file of a new skill, unless it is there."""
        if name in catalogue():
            raise Conflict(f"The skill {name} is built in. Give another name.")
        ensure_folder(self._home)
        async with locked(self._bots_dir):
            await asyncio.to_thread(self._put, name, text)

    async def edit(self, name: str, text: str, *, seen: str | None = None) -> SkillView:
        """Replace the text of a skill of the home, validated first; with `seen`, only if that is the text now.

        Raises: NotFound; Invalid, naming the file, when the text is not a skill of that name; Conflict when the skill
        is built in, or its text is not the one that was seen; Denied.
        """
        if name in catalogue():
            raise Conflict(f"The skill {name} is built in. Create one of your own from it, under another name.")
        before = await self.text(name)
        skill = read_own_skill(name, text)
        async with locked(self._bots_dir):
            await asyncio.to_thread(self._replace, name, text, before if seen is None else seen)
        return SkillView(skill)

    async def text(self, name: str) -> str:
        """Return the SKILL.md of a skill, as it is written.

        Raises: NotFound; Invalid when it cannot be read; Denied.
        """
        if name in catalogue():
            return catalogue()[name]
        missing = NotFound(f"There is no skill {name[:80]!r}. `perdure skill list` shows those that there are.")
        if not is_skill_name(name):
            raise missing
        try:
            return await asyncio.to_thread(self.shelf.text, name)
        except NotFound:
            raise missing from None

    def _put(self, name: str, text: str) -> None:
        try:
            known = self.shelf.text(name)
        except NotFound:
            self.shelf.put(name, text)
            return
        if known != text:
            raise Conflict(f"There is another skill {name} already. Give another name.")

    def _replace(self, name: str, text: str, seen: str) -> None:
        if self.shelf.text(name) != seen:
            raise Conflict(f"The skill {name} was changed meanwhile. Edit it again.")
        self.shelf.put(name, text)


def open_skills(settings: Settings) -> Skills:
    """Look at the skills of a home alone; nothing else of the home is touched, and it need not be there."""
    return Skills(settings.home, settings.bots_dir)
