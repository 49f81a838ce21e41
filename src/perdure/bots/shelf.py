"""The skills of a home that are not built in: `skills/NAME/SKILL.md`, read and written without following a link."""

import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from perdure.bots.bot import skill_path
from perdure.bots.documents import read_document
from perdure.bots.folder import BotFolder
from perdure.bots.skills import Skill, SkillType, catalogue, is_skill_name, parse_skill
from perdure.errors import NotFound, PerdureError

TYPE_KEY = "skill-type"
"""Where the metadata of a skill says who made it."""

log = logging.getLogger(__name__)


class SkillShelf:
    """The skills that were made in a home, or put there by hand."""

    def __init__(self, home: Path) -> None:
        self._home = Path(os.path.realpath(home))

    def texts(self, besides: Collection[str] = ()) -> Mapping[str, str]:
        """Return the texts of all skills that can be read, by name; others are logged. What is built in stays so.

        Those `besides` which others are wanted are not looked at.
        """
        found = {}
        for name in self._names():
            if name in besides:
                continue
            try:
                text = self.text(name)
                read_own_skill(name, text)
            except NotFound:
                continue  # its writer died before it was there
            except PerdureError as error:
                log.warning("a skill was left out: %s", error.detail)
            else:
                found[name] = text
        return found

    def is_empty(self) -> bool:
        """Tell, by one look, whether there can be no skill at all; most homes have none."""
        return not (self._home / "skills").is_dir()

    def skills(self, besides: Collection[str] = ()) -> tuple[Skill, ...]:
        """Return all skills that can be read, by name."""
        return tuple(read_own_skill(name, text) for name, text in self.texts(besides).items())

    def text(self, name: str) -> str:
        """Return the text of one skill.

        Raises: NotFound; Invalid when it cannot be read; Denied.
        """
        with BotFolder.open(self._home) as folder:
            text = folder.read(skill_path(name))
        if text is None:
            raise NotFound(f"There is no skill {name!r}.")
        return text

    def put(self, name: str, text: str) -> None:
        """Write a skill atomically; the caller holds the lock of the bots.

        Raises: Invalid when something else is in the way; Denied.
        """
        with BotFolder.open(self._home) as folder:
            folder.write(skill_path(name), text)

    def _names(self) -> list[str]:
        try:
            with BotFolder.open(self._home) as folder:
                names = folder.skills()
        except NotFound:
            return []
        return [name for name in names if name not in catalogue() and is_skill_name(name)]


def read_own_skill(name: str, text: str) -> Skill:
    """Read the text of a skill of a home; who made it stands in its metadata.

    Raises: Invalid, naming the file.
    """
    path = skill_path(name)
    metadata = read_document(text, path).front.get("metadata")
    made_by = metadata.get(TYPE_KEY) if isinstance(metadata, dict) else None
    kind: SkillType = "builder-created" if made_by == "builder-created" else "custom"
    return parse_skill(text, path, folder=name, skill_type=kind)
