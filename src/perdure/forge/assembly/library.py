"""The bots of a home: opens, compares, explains, exports and deletes them."""

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from perdure import failpoints
from perdure.bots.archive import PackedBot, pack_bot
from perdure.bots.bot import FILES, Bot, parse_bot
from perdure.bots.folder import NEW, BotFolder, read_bot, read_texts, require_bot_path, verify
from perdure.bots.merge import diff
from perdure.bots.provenance import Source, carry_sources, read_spans, sources_of_spans
from perdure.bots.slugs import require_slug
from perdure.bots.writing import Update, hold_bots_lock, remove_bot, write_bot
from perdure.errors import Conflict, Damaged, Invalid, NotFound, PerdureError
from perdure.forge.assembly.changes import config_of, overlay_files
from perdure.forge.assembly.hand_edits import dropped_edits
from perdure.forge.ports import BotStore, BotVersion
from perdure.forge.state import without_hint

T = TypeVar("T")

_MARK_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Explanation:
    """The source of one line of a file."""

    path: str
    line: int
    text: str
    source: Source | None
    """None: edited by hand."""
    question: str | None = None
    answer: str | None = None

    @property
    def sentence(self) -> str:
        """The source as a sentence for a person."""
        if not self.text.strip():
            return "empty line"
        match self.source:
            case None:
                return "edited by hand"
            case Source("description"):
                return f"from the description: {self.answer}"
            case Source("default"):
                return "default for bots of this kind"
            case Source(_, None):
                return "changed when the bot was confirmed"
            case Source(kind):
                taken = ", as suggested" if kind == "suggestion" else ""
                return f"asked: {without_hint(self.question or '')} Answered{taken}: {self.answer}"


@dataclass(frozen=True, slots=True)
class BotOnDisk:
    """The newest version of a bot, and the present texts of its files."""

    version: BotVersion
    texts: Mapping[str, str]
    """The texts of all files, including those named NAME.new."""

    @property
    def etag(self) -> str:
        """Identifies this state of the bot: the number of the version, and a hash of its id and all files."""
        parts = [self.version.bot_id, *(part for path in sorted(self.texts) for part in (path, self.texts[path]))]
        rest = sha256(b"".join(len(data := part.encode()).to_bytes(8) + data for part in parts)).hexdigest()
        return f"{self.version.number}-{rest[:_MARK_DIGITS]}"

    def matches_etag(self, etag: str) -> bool:
        """Return whether an ETag identifies this state; a number alone identifies an unedited version."""
        return etag == self.etag or (etag == str(self.version.number) and self.texts == self.version.files)

    def edits(self) -> dict[str, str]:
        """Return the hand edits since the version: a unified diff for each file."""
        before, now = _without_new_files(self.version.files), _without_new_files(self.texts)
        names = (f"version {self.version.number}", "on disk")
        diffs = {path: diff(path, before.get(path, ""), now.get(path, ""), names=names) for path in {*before, *now}}
        return {path: text for path, text in sorted(diffs.items()) if text}


class BotLibrary:
    """The bots of a home."""

    def __init__(self, bots_dir: Path, bots: BotStore) -> None:
        self._bots_dir = bots_dir
        self._bots = bots

    async def open_bot(self, slug: str) -> Bot:
        """Read a bot from its files; a version that is not yet on disk is written first.

        Raises: NotFound; Invalid, naming the file, when a file cannot be read; Denied.
        """
        return (await self._read_consistently(slug, read_bot))[1]

    async def ensure_written(self, slug: str) -> BotVersion:
        """Write the newest version of a bot to disk unless it is there, and return it.

        Raises: NotFound; Invalid when another file has the name of the folder; Denied.
        """
        version = await self._bots.version(require_slug(slug))
        if version.state != "pending":
            return version
        await self._finish(slug)
        return replace(version, state="current")

    async def edits(self, slug: str) -> dict[str, str]:
        """Return the hand edits since the last version: a unified diff for each file.

        Raises: NotFound; Invalid, naming the file, when one cannot be read; Denied.
        """
        return (await self.on_disk(slug)).edits()

    async def explain(self, slug: str, place: str) -> Explanation:
        """Return the source of a line; a place is `SOUL.md:12`.

        Raises: NotFound; Invalid when there is no such line.
        """
        path, _, number = place.rpartition(":")
        if not (number.isascii() and number.isdigit() and len(number) < 8):
            raise Invalid(f"{place[:80]!r} is not a place in a bot. Expected FILE:LINE, such as SOUL.md:12.")
        path = require_bot_path(path)
        version, text = await self._read_consistently(slug, lambda folder: _read_file(folder, path))
        lines = text.removesuffix("\n").split("\n")
        if not 1 <= int(number) <= len(lines):
            raise Invalid(f"{slug}/{path} does not have line {number}; its last line is {len(lines)}.")
        source = _sources(version, path, text)[int(number) - 1]
        question, answer = _exchange_of(version, source)
        return Explanation(path, int(number), lines[int(number) - 1], source, question, answer)

    async def export_bot(self, slug: str) -> bytes:
        """Return a bot as an archive of its present files.

        Raises: NotFound; Invalid, naming the file, when one cannot be read; Denied.
        """
        version, texts = await self._read_consistently(slug, read_texts)
        config = overlay_files(config_of(version), parse_bot(slug, texts))
        return pack_bot(PackedBot(slug, config.wire(), texts))

    async def on_disk(self, slug: str) -> BotOnDisk:
        """Return the newest version of a bot with its present files.

        Raises: NotFound; Invalid, naming the file, when one cannot be read; Denied.
        """
        version, texts = await self._read_consistently(slug, read_texts)
        return BotOnDisk(version, texts | await asyncio.to_thread(self._read_new_files, version))

    async def text(self, slug: str, path: str) -> str:
        """Return the text of one file of a bot.

        The files that every bot has can be read while another one is invalid.

        Raises: NotFound when the bot has no such file; Invalid when the name is not valid or it cannot be read; Denied.
        """
        if require_bot_path(path) not in FILES and path not in (await self.on_disk(slug)).texts:
            raise NotFound(f"{slug} has no file {path}.")
        return (await self._read_consistently(slug, lambda folder: _read_file(folder, path)))[1]

    async def verify(self, slug: str) -> list[str]:
        """Return the problems of the files of a bot, one sentence each.

        Raises: NotFound
        """
        return (await self._read_consistently(slug, verify))[1]

    async def delete(self, slug: str, seen: str | None = None, *, with_choices: bool = False) -> None:
        """Delete a bot, all its versions and its folder; after a crash the same call completes it.

        `seen` is the ETag that the bot must have, or the number of a version without edits. With `with_choices`, the
        choices that were recorded for it are deleted, too.

        Raises: NotFound when there is neither a bot nor a folder; Conflict when the bot does not match `seen`; Denied.
        """
        missing: NotFound | None = None
        async with hold_bots_lock(self._bots_dir):
            failpoints.hit("forge.delete.before")
            try:
                number = None if seen is None else await self._number_of(require_slug(slug), seen)
                await self._bots.delete_bot(require_slug(slug), number, with_choices=with_choices)
            except NotFound as error:
                missing = error
            failpoints.hit("forge.delete.after")
            had_folder = await asyncio.to_thread(remove_bot, self._bots_dir, slug)
        if missing is not None and not had_folder:
            raise missing

    async def _number_of(self, slug: str, seen: str) -> int:
        """Return the number of the newest version of a bot if the bot still matches an ETag; the caller holds the lock.

        Raises: NotFound; Conflict when it does not match; Denied.
        """
        version = await self._bots.version(slug)
        try:
            await self._write_pending(slug)
            texts = await asyncio.to_thread(read_texts, self.folder(slug))
            on_disk = BotOnDisk(version, texts | await asyncio.to_thread(self._read_new_files, version))
        except (Invalid, NotFound) as error:
            raise Conflict(f"{slug} was changed meanwhile: {error.detail}") from error
        if not on_disk.matches_etag(seen):
            raise Conflict(f"{slug} was changed meanwhile: its ETag is {on_disk.etag}, not {seen}. Read it again.")
        return version.number

    async def _read_consistently(self, slug: str, read: Callable[[Path], T]) -> tuple[BotVersion, T]:
        """Read from the folder of a bot, again while the version changes meanwhile; return the version, too.

        Raises: NotFound; what `read` raises.
        """
        while True:
            version = await self.ensure_written(slug)
            try:
                result = await asyncio.to_thread(read, self.folder(slug))
            except PerdureError:
                if await self._is_newest(version):
                    self._require_folder(version)
                    raise
            else:
                if await self._is_newest(version):
                    return version, result

    async def _is_newest(self, version: BotVersion) -> bool:
        """Return whether a version is still the newest and on disk. Raises: NotFound when the bot was deleted."""
        now = await self._bots.version(version.slug)
        return (now.bot_id, now.number, now.state) == (version.bot_id, version.number, version.state)

    def _require_folder(self, version: BotVersion) -> None:
        """Require the folder of a bot. Raises: NotFound, with the command that restores it, if it was removed."""
        folder = self.folder(version.slug)
        if not os.path.lexists(folder):
            command = f"perdure bot rollback {version.slug} {version.number}"
            raise NotFound(f"The folder {folder} is missing. `{command}` writes it again.")

    async def _finish(self, slug: str, seen: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Write the newest version to disk unless it is there; return the new names of replaced hand-edited files."""
        async with hold_bots_lock(self._bots_dir):
            return await self._write_pending(slug, seen)

    async def _write_pending(self, slug: str, seen: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """Do the work of `_finish`; the caller holds the lock."""
        version = await self._bots.version(slug)
        if version.state != "pending":
            return ()
        require_intact(version)
        before = (await self._bots.version(slug, version.number - 1)).files if version.number > 1 else {}
        is_rollback = version.origin == "rollback"
        dropped = dropped_edits(await self._bots.versions(slug), version.number) if is_rollback else ()
        update = Update(version.files, before, seen or {}, replaces_edits=is_rollback, dropped_edits=dropped)
        aside = await asyncio.to_thread(write_bot, self._bots_dir, slug, update)
        failpoints.hit("forge.current.before")
        await self._bots.mark_current(version.bot_id, version.number)
        failpoints.hit("forge.current.after")
        return aside

    def folder(self, slug: str) -> Path:
        """Return the folder of a bot.

        Raises: Invalid when it is not a slug.
        """
        return self._bots_dir / require_slug(slug)

    def _read_new_files(self, version: BotVersion) -> dict[str, str]:
        """Return the texts of the files named NAME.new."""
        with BotFolder.open(self.folder(version.slug)) as folder:
            texts = {path: folder.read(path) for path in version.files if path.endswith(NEW)}
        return {path: text for path, text in texts.items() if text is not None}


def hashes(files: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each file."""
    return {path: sha256(text.encode()).hexdigest() for path, text in files.items()}


def require_intact(version: BotVersion) -> None:
    """Require that the stored files of a version match their SHA-256.

    Raises: Damaged
    """
    if hashes(version.files) != version.sha256:
        raise Damaged(
            f"The stored files of {version.slug}, version {version.number}, do not match their SHA-256."
            " Nothing was changed, neither in the database nor on disk."
        )


def _without_new_files(files: Mapping[str, str]) -> dict[str, str]:
    return {path: text for path, text in files.items() if not path.endswith(NEW)}


def _read_file(folder: Path, path: str) -> str:
    with BotFolder.open(folder) as opened:
        text = opened.read(path)
    if text is None:
        raise NotFound(f"{folder.name} has no file {path}.")
    return text


def _sources(version: BotVersion, path: str, text: str) -> list[Source | None]:
    """Return the source of each line on disk; lines are matched with those of the version."""
    written = version.files.get(path, "")
    spans = read_spans(version.provenance.get(path, ()), f"{version.slug}/{path}")
    return carry_sources(sources_of_spans(spans, written.count("\n") + 1), written, text)


def _exchange_of(version: BotVersion, source: Source | None) -> tuple[str | None, str | None]:
    if source is None:
        return None, None
    if source.kind == "description":
        return None, str(version.config.get("description", ""))
    if source.exchange is None or source.exchange >= len(version.conversation):
        return None, None
    exchange = version.conversation[source.exchange]
    return str(exchange.get("question", "")), str(exchange.get("answer", ""))
