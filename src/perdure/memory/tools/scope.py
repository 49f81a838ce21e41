"""The records that a bot may recall."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Scope = Literal["own", "project", "all"]
DEFAULT_SCOPES: tuple[Scope, ...] = ("own", "project")


@dataclass(frozen=True, slots=True)
class RecallScope:
    """The records that one bot may recall in one goal.

    `own`: the records that the bot made. `project`: those of the repository of the goal, and those that name neither a
    repository nor a bot. `all`: every record.
    """

    bot: str
    scopes: Collection[Scope] = DEFAULT_SCOPES
    repo: str | None = None
    """The repository of the goal's folder; None outside of one."""

    def includes(self, record: Mapping[str, Any]) -> bool:
        """Return whether the bot may recall a record."""
        if "all" in self.scopes:
            return True
        author, repo = author_of(record), record.get("repo")
        is_own = "own" in self.scopes and author == self.bot
        is_of_project = repo == self.repo if repo else author is None
        return is_own or ("project" in self.scopes and is_of_project)


def author_of(record: Mapping[str, Any]) -> str | None:
    """Return the slug of the bot that made a record; None for a record of a person or a program."""
    metadata = record.get("metadata")
    bot = metadata.get("bot") if isinstance(metadata, Mapping) else None
    return bot if isinstance(bot, str) else None
