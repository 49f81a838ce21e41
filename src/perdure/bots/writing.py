"""Writes a version of a bot to disk: a new bot atomically, an existing one file by file. Hand edits are kept.

A writer holds the lock of the folder of all bots. Every step can be repeated after a crash.
"""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from perdure import failpoints
from perdure.bots import LOCK_FILE
from perdure.bots.folder import NEW, BotFolder
from perdure.bots.merge import merge_file
from perdure.bots.slugs import require_slug
from perdure.errors import Denied, Invalid, PerdureError, Unavailable, from_os_error
from perdure.filelock.holders import holder_of
from perdure.filelock.lock import FileLock
from perdure.filelock.names import NameLock
from perdure.files.atomic import rename_durably
from perdure.files.folders import FOLDER_MODE, ensure_folder
from perdure.files.fsync import fsync_folder
from perdure.files.opening import open_file

WAIT_S = 30.0
_PAUSE_S = 0.005
_LEFTOVER = re.compile(r"\.[a-z0-9-]+\.(?:part|gone)")
"""The temporary folder of a bot that is being created or removed."""


@dataclass(frozen=True, slots=True)
class Update:
    """The files to write, and the texts that are known to have been on disk."""

    files: Mapping[str, str]
    before: Mapping[str, str] = field(default_factory=dict)
    """The files of the previous version."""
    seen: Mapping[str, str] = field(default_factory=dict)
    """The files on disk when the version was made; their edits are part of the version."""
    replaces_edits: bool = False
    """Whether hand-edited files are replaced; each is renamed first."""
    dropped_edits: Collection[str] = ()
    """Paths of files whose text in the previous version has hand edits that this version lacks."""

    def is_unedited(self, path: str, text_on_disk: str) -> bool:
        """Return whether a text on disk is that of the previous version, without hand edits that would be dropped."""
        return text_on_disk == self.before.get(path) and path not in self.dropped_edits

    def is_replaceable(self, path: str, text_on_disk: str) -> bool:
        """Return whether a text on disk can be replaced without losing hand edits."""
        return self.is_unedited(path, text_on_disk) or text_on_disk == self.seen.get(path) or path.endswith(NEW)


@asynccontextmanager
async def hold_bots_lock(bots_dir: Path, wait_s: float = WAIT_S) -> AsyncIterator[None]:
    """Hold the lock of the folder of all bots, across processes; remove leftovers of crashed writers first.

    Raises: Unavailable when another process holds the lock for too long; Denied.
    """
    lock = _BotsLock(bots_dir / LOCK_FILE, kind="outer")
    try:
        deadline = asyncio.get_running_loop().time() + wait_s
        while not lock.try_acquire():
            if asyncio.get_running_loop().time() > deadline:
                raise lock.refusal(wait_s)
            await asyncio.sleep(_PAUSE_S)
        try:
            await asyncio.to_thread(_remove_leftovers, bots_dir)
            yield
        finally:
            lock.release()
    finally:
        lock.close()


class _BotsLock(FileLock):
    """The lock of the folder of all bots; acquiring it creates the folder."""

    def open_file(self) -> int:
        """See FileLock.open_file."""
        folder = self.path.parent
        if not folder.is_dir():
            ensure_folder(folder.parent)
            with NameLock(folder):  # a restore holds it while it replaces the folder
                ensure_folder(folder)
        try:
            return open_file(self.path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            return -1  # a restore replaced the folder meanwhile
        except OSError as error:
            raise from_os_error(f"The folder {folder} cannot be written", error) from error

    def refusal(self, wait_s: float) -> Unavailable:  # noqa: ARG002 (see FileLock.refusal)
        holder = holder_of(self.path)
        if holder is not None and holder.is_stopped:
            return Unavailable(holder.stopped_sentence(self.path))
        return Unavailable(f"Another process holds the lock of {self.path.parent} for too long. Try again.")


def write_bot(bots_dir: Path, slug: str, update: Update) -> tuple[str, ...]:
    """Write a version to disk, and return the new names of hand-edited files that were replaced. Idempotent.

    Raises: Invalid when another file has the name of the folder; Denied; Unavailable when the disk is full.
    """
    folder = bots_dir / require_slug(slug)
    if not os.path.lexists(folder):
        _write_new(folder, update.files)
        return ()
    with BotFolder.open(folder) as opened:
        written = [_write_file(opened, path, text, update) for path, text in update.files.items()]
        dropped_paths = [
            path
            for path in update.before
            if path not in update.files and (update.replaces_edits or not path.endswith(NEW))
        ]
        removed = [_remove_unless_edited(opened, path, update) for path in dropped_paths]
    return tuple(name for name in (*written, *removed) if name)


def remove_bot(bots_dir: Path, slug: str) -> bool:
    """Remove the folder of a bot; return false if it does not exist.

    Raises: Denied
    """
    folder, renamed = bots_dir / require_slug(slug), bots_dir / f".{slug}.gone"
    try:
        _remove(renamed)
        if not os.path.lexists(folder):
            return False
        failpoints.hit("bots.delete.before")
        rename_durably(folder, renamed)
        failpoints.hit("bots.delete.after")
        _remove(renamed)
    except OSError as error:
        raise from_os_error(f"{folder} cannot be removed", error) from error
    except RecursionError as error:
        raise Denied(f"{renamed} has too deeply nested folders. Remove it by hand.") from error
    return True


def _write_new(folder: Path, files: Mapping[str, str]) -> None:
    part = folder.with_name(f".{folder.name}.part")
    try:
        _remove(part)
        part.mkdir(FOLDER_MODE)
        with BotFolder.open(part, folder.name) as opened:
            for path, text in files.items():
                opened.write(path, text)
        fsync_folder(part)
        failpoints.hit("bots.folder.before")
        rename_durably(part, folder)
        failpoints.hit("bots.folder.after")
    except OSError as error:
        raise from_os_error(f"{folder} cannot be written", error) from error
    finally:
        with suppress(OSError):
            _remove(part)


def _write_file(folder: BotFolder, path: str, text: str, update: Update) -> str | None:
    """Write one file; return the new name of a replaced file with hand edits."""
    try:
        text_on_disk = folder.read(path)
    except Invalid:
        if not update.replaces_edits:
            raise
        text_on_disk = None
        aside: str | None = folder.rename_aside(path)
    else:
        aside = None
    if text_on_disk == text:
        return aside
    if text_on_disk is not None and not update.is_replaceable(path, text_on_disk):
        if not update.replaces_edits:
            _write_merged(folder, path, text, text_on_disk, update)
            return aside
        aside = folder.rename_aside(path)
    folder.write(path, text)
    return aside


def _write_merged(folder: BotFolder, path: str, text: str, text_on_disk: str, update: Update) -> None:
    """Merge hand edits since the version was made into the file, and write it."""
    try:
        merged = merge_file(path, base=update.before.get(path, text), ours=text, theirs=text_on_disk)
    except PerdureError:
        return  # the person must repair the file; reading the bot reports the error
    if merged.is_clash:
        folder.write(f"{path}{NEW}", text)
    if merged.text != text_on_disk:
        folder.write(path, merged.text)


def _remove_unless_edited(folder: BotFolder, path: str, update: Update) -> str | None:
    """Remove one file, or rename it if it has hand edits; return the new name. Unreadable files are unchanged."""
    with suppress(Invalid):
        text_on_disk = folder.read(path)
        if text_on_disk is None or update.is_unedited(
            path, text_on_disk
        ):  # of a missing file, an empty folder may be left
            folder.remove(path)
        elif update.replaces_edits:
            return folder.rename_aside(path)
    return None


def _remove_leftovers(bots_dir: Path) -> None:
    """Remove temporary folders of crashed writers; the caller holds the lock, so they are not in use.

    Errors are ignored here; a write that needs the same name reports them.
    """
    try:
        leftovers = [entry.name for entry in os.scandir(bots_dir) if _LEFTOVER.fullmatch(entry.name)]
    except OSError as error:
        raise from_os_error(f"The folder {bots_dir} cannot be read", error) from error
    for name in leftovers:
        with suppress(OSError, RecursionError):
            _remove(bots_dir / name)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
