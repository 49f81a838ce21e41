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
"""Key of the metadata whose value tells skills made by Forge from those of a person."""

log = logging.getLogger(__name__)


class SkillFolder:
    """The skills of a home, made by Forge or written by hand."""

    def __init__(self, home: Path) -> None:
        self._home = Path(os.path.realpath(home))

    def texts(self, except_for: Collection[str] = ()) -> Mapping[str, str]:
        """Return the texts of all valid skills by name, except some names; invalid ones are logged.

        Built-in skills cannot be replaced.
        """
        texts = {}
        for name in self._names():
            if name in except_for:
                continue
            try:
                text = self.text(name)
                read_own_skill(name, text)
            except NotFound:
                continue  # its writer died before the file existed
            except PerdureError as error:
                log.warning("invalid skill skipped: %s", error.detail)
            else:
                texts[name] = text
        return texts

    def is_empty(self) -> bool:
        """Return whether the folder of the skills is missing, as in most homes; one system call."""
        return not (self._home / "skills").is_dir()

    def skills(self, except_for: Collection[str] = ()) -> tuple[Skill, ...]:
        """Return all valid skills in the order of their names, except some."""
        return tuple(read_own_skill(name, text) for name, text in self.texts(except_for).items())

    def text(self, name: str) -> str:
        """Return the text of one skill.

        Raises: NotFound; Invalid when it cannot be read; Denied.
        """
        with BotFolder.open(self._home) as folder:
            text = folder.read(skill_path(name))
        if text is None:
            raise NotFound(f"There is no skill {name!r}.")
        return text

    def write(self, name: str, text: str) -> None:
        """Write a skill atomically; the caller holds the lock of the bots.

        Raises: Invalid when another file has the name of the folder; Denied.
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
    """Parse the text of a skill of a home; its metadata says who made it.

    Raises: Invalid, naming the file.
    """
    path = skill_path(name)
    metadata = read_document(text, path).front.get("metadata")
    version_of_session = metadata.get(TYPE_KEY) if isinstance(metadata, dict) else None
    kind: SkillType = "builder-created" if version_of_session == "builder-created" else "custom"
    return parse_skill(text, path, folder=name, skill_type=kind)
