"""A small BotStore in one JSON file: it survives a kill, and several processes may use it."""

import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from perdure.errors import Conflict, NotFound
from perdure.forge.ports import BotPurpose, BotStore, BotSummary, BotVersion, BuilderMemoryEntry, VersionSummary

T = TypeVar("T")


class FileBotStore:
    """See BotStore."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def save_version(
        self, version: BotVersion, choice: BuilderMemoryEntry | None = None, *, draft_revision: int | None = None
    ) -> BotVersion:
        """See BotStore.save_version; there are no drafts beside it, so that none can be at another revision."""
        assert draft_revision is None
        with self._changed() as content:
            made = next((each for each in content["versions"] if is_made_by(each, version.session_id)), None)
            if made is not None:
                return BotVersion(**made)
            numbers = [each["number"] for each in content["versions"] if each["bot_id"] == version.bot_id]
            taken = {each["slug"] for each in content["versions"] if each["bot_id"] != version.bot_id}
            if version.slug in taken or version.number != max(numbers, default=0) + 1:
                raise Conflict("taken")
            stored = replace(version, state="pending")
            content["versions"].append(asdict(stored))
            if choice is not None:
                content["choices"].append(asdict(choice))
            return stored

    async def mark_current(self, bot_id: str, number: int) -> None:
        with self._changed() as content:
            for each in content["versions"]:
                if each["bot_id"] == bot_id and each["number"] <= number:
                    each["state"] = "current" if each["number"] == number else "past"

    async def version_of_session(self, session_id: str) -> BotVersion | None:
        found = self._found(lambda each: is_made_by(each, session_id))
        return found[0] if found else None

    async def version(self, slug: str, number: int | None = None) -> BotVersion:
        if number is None:
            return self._of(slug)[-1]
        found = [each for each in self._of(slug) if each.number == number]
        if not found:
            raise NotFound(f"{slug} has no version {number}.")
        return found[0]

    async def versions(
        self, slug: str, *, limit: int | None = None, before: int | None = None
    ) -> Sequence[VersionSummary]:
        found = [each for each in reversed(self._of(slug)) if before is None or each.number < before]
        return [
            VersionSummary(v.number, v.state, v.origin, v.sha256, v.created_at_us, v.hand_edits) for v in found[:limit]
        ]

    async def list_bots(self, *, limit: int = 50, before: str | None = None) -> Sequence[BotSummary]:
        slugs = sorted({each.slug for each in self._found(lambda _each: True)})
        newest = [self._of(slug)[-1] for slug in slugs if before is None or slug > before][:limit]
        return [
            BotSummary(
                bot_id=v.bot_id,
                slug=v.slug,
                name=v.name,
                category=v.category,
                purpose=BotPurpose(v.config["purpose"]),
                version=v.number,
                state=v.state,
                created_at_us=v.created_at_us,
                updated_at_us=v.created_at_us,
            )
            for v in newest
        ]

    async def delete_bot(self, slug: str, number: int | None = None, *, with_choices: bool = False) -> None:
        if number not in (None, self._of(slug)[-1].number):
            raise Conflict("another version")
        with self._changed() as content:
            content["versions"] = [each for each in content["versions"] if each["slug"] != slug]
            if with_choices:
                content["choices"] = [each for each in content["choices"] if each["bot_slug"] != slug]

    def choices(self) -> list[dict[str, Any]]:
        """What was remembered."""
        with self._changed() as content:
            return list(content["choices"])

    def _of(self, slug: str) -> list[BotVersion]:
        found = self._found(lambda each: each["slug"] == slug)
        if not found:
            raise NotFound(f"There is no bot {slug}.")
        return found

    def _found(self, is_wanted: Callable[[dict[str, Any]], bool]) -> list[BotVersion]:
        with self._changed() as content:
            return [BotVersion(**each) for each in content["versions"] if is_wanted(each)]

    @contextmanager
    def _changed(self) -> Iterator[dict[str, Any]]:
        with self._path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = json.loads(self._path.read_text()) if self._path.exists() else {"versions": [], "choices": []}
            yield content
            part = self._path.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(content))
            part.replace(self._path)


def is_made_by(each: dict[str, Any], session_id: str | None) -> bool:
    return session_id is not None and each["session_id"] == session_id


_: Callable[[Path], BotStore] = FileBotStore
