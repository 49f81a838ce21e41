"""The folder of a bot: reads and replaces its files without following links or leaving the folder."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perdure import failpoints
from perdure.bots.bot import FILES, SKILLS, Bot, parse_bot, skill_path
from perdure.bots.documents import MAX_BYTES, decode_text
from perdure.bots.skills import parse_skill_list
from perdure.bots.slugs import require_slug
from perdure.errors import Invalid, NotFound, PerdureError, from_os_error
from perdure.files.atomic import part_file, rename_durably
from perdure.files.folders import make_folder, open_folder
from perdure.files.fsync import fsync_folder
from perdure.files.opening import is_regular, open_file

NEW = ".new"
"""Suffix of a generated file that conflicts with hand edits, beside the edited file."""
_OLD = re.compile(r"\.old(?:-\d+)?\Z")
_FILES = "SOUL.md, IDENTITY.md, USER.md, skills.toml and skills/NAME/SKILL.md"
_PATH = re.compile(r"(?:SOUL\.md|IDENTITY\.md|USER\.md|skills\.toml|skills/(?P<skill>[a-z0-9-]+)/SKILL\.md)(?:\.new)?")


def require_bot_path(path: str) -> str:
    """Return a path that a file of a bot may have within its folder.

    Raises: Invalid
    """
    match = _PATH.fullmatch(path)
    if match is None:
        raise Invalid(f"{path[:200]!r} is not a file of a bot. Its files are {_FILES}.")
    if match["skill"]:
        skill_path(match["skill"])
    return path


class BotFolder:
    """An open folder of a bot."""

    def __init__(self, folder: int, name: str) -> None:
        self._folder = folder
        self.name = name

    @classmethod
    @contextmanager
    def open(cls, path: Path, name: str | None = None) -> Iterator["BotFolder"]:
        """Open a folder.

        Raises: NotFound; Invalid when it is not a folder; Denied.
        """
        try:
            folder = open_folder(path)
        except FileNotFoundError as error:
            raise NotFound(f"There is no folder {path}.") from error
        except OSError as error:
            raise _folder_error(str(path), error) from error
        try:
            yield cls(folder, name or path.name)
        finally:
            os.close(folder)

    def read(self, path: str) -> str | None:
        """Return the text of a file; None when it does not exist.

        Raises: Invalid, naming the file, when it is not a regular file, too large or not text; Denied.
        """
        shown = f"{self.name}/{path}"
        try:
            with self._parent(path) as (folder, name):
                file = open_file(name, folder=folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _read_error(shown, error) from error
        try:
            if not is_regular(file):
                raise Invalid(f"{shown} is not a regular file.")
            with os.fdopen(file, "rb", closefd=False) as stream:
                data = stream.read(MAX_BYTES + 1)
        except OSError as error:
            raise from_os_error(f"{shown} cannot be read", error) from error
        finally:
            os.close(file)
        return decode_text(data, shown)

    def skills(self) -> list[str]:
        """Return the names of the folders of skills, sorted.

        Raises: Invalid when `skills` is not a folder; Denied.
        """
        try:
            folder = open_folder("skills", folder=self._folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _folder_error(f"{self.name}/skills", error) from error
        try:
            with os.scandir(folder) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError as error:
            raise from_os_error(f"{self.name}/skills cannot be read", error) from error
        finally:
            os.close(folder)

    def write(self, path: str, text: str) -> None:
        """Replace a file atomically and durably: after a crash it has its old text or its new one.

        Raises: Invalid when it exists and is not a file; Denied; Unavailable when the disk is full.
        """
        shown = f"{self.name}/{path}"
        with self._write_errors(shown), self._parent(path, make=True) as (folder, name):
            with part_file(name, name=f".{name}.part", folder=folder) as part:  # a writer holds the lock
                part.write(text.encode())
                part.fsync()
                failpoints.hit("bots.file.before")
                part.replace()
            failpoints.hit("bots.file.after")

    def remove(self, path: str) -> None:
        """Remove a file, and the folder of its skill if that is empty afterwards.

        Raises: Denied
        """
        with self._write_errors(f"{self.name}/{path}"):
            failpoints.hit("bots.remove.before")
            with suppress(FileNotFoundError), self._parent(path) as (folder, name):
                os.unlink(name, dir_fd=folder)
                fsync_folder(folder)
            failpoints.hit("bots.remove.after")
            with suppress(OSError):
                os.rmdir(os.path.dirname(path), dir_fd=self._folder)  # noqa: PTH120 (relative to an open folder)

    def rename_aside(self, path: str) -> str:
        """Rename a file to an unused name, NAME.old or NAME.old-N, and return the new path.

        Raises: Denied
        """
        with self._write_errors(f"{self.name}/{path}"), self._parent(path) as (folder, name):
            taken = {entry.name for entry in os.scandir(folder)}
            aside = next(each for each in _old_names(name) if each not in taken)
            failpoints.hit("bots.aside.before")
            rename_durably(name, aside, folder=folder)
            failpoints.hit("bots.aside.after")
        return path.removesuffix(name) + aside

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of a file, one level at a time; yield it and the name of the file."""
        *steps, name = require_bot_path(path).split("/")
        folder = os.dup(self._folder)
        try:
            for at, step in enumerate(steps, 1):
                if make:
                    make_folder(step, folder)
                try:
                    inner = open_folder(step, folder=folder)
                except OSError as error:
                    if isinstance(error, FileNotFoundError):
                        raise
                    raise _folder_error(f"{self.name}/{'/'.join(steps[:at])}", error) from error
                os.close(folder)
                folder = inner
            yield folder, name
        finally:
            os.close(folder)

    @contextmanager
    def _write_errors(self, shown: str) -> Iterator[None]:
        try:
            yield
        except IsADirectoryError as error:
            raise Invalid(f"{shown} is a folder, but must be a file. Move it away.") from error
        except OSError as error:
            raise from_os_error(f"{shown} cannot be written", error) from error


def read_texts(path: Path) -> dict[str, str]:
    """Return the texts of all files of a bot.

    Raises: NotFound when there is no such folder; Invalid, naming the file; Denied.
    """
    with BotFolder.open(path) as folder:
        texts = {name: text for name in FILES if (text := folder.read(name)) is not None}
        for skill in parse_skill_list(texts.get(SKILLS, ""), f"{path.name}/{SKILLS}"):
            if (text := folder.read(skill_path(skill))) is not None:
                texts[skill_path(skill)] = text
    return texts


def read_bot(path: Path) -> Bot:
    """Read the bot in a folder.

    Raises: NotFound when there is no such folder; Invalid, naming the file; Denied.
    """
    return parse_bot(require_slug(path.name), read_texts(path))


def verify(path: Path) -> list[str]:
    """Return the problems of the bot in a folder, one sentence each.

    Raises: NotFound when there is no such folder.
    """
    problems: list[str] = []
    try:
        read_bot(path)
    except NotFound:
        raise
    except PerdureError as error:
        problems += error.errors or (error.detail,)
    skills = path / "skills"
    with suppress(OSError, PerdureError):
        listed = parse_skill_list(read_texts(path).get(SKILLS, ""), SKILLS)
        unlisted = (entry for entry in os.scandir(skills) if entry.is_dir() and entry.name not in listed)
        strays = sorted(entry.name for entry in unlisted if not _holds_only_old(skills / entry.name))
        problems += [f"{path.name}/skills/{name[:80]!r} exists, but {SKILLS} does not name it." for name in strays]
    return problems


def _holds_only_old(folder: Path) -> bool:
    """Return whether a folder of a skill contains only files that a rollback renamed."""
    names = [path.name for path in folder.iterdir()]
    return bool(names) and all(_OLD.search(name) for name in names)


def _old_names(name: str) -> Iterator[str]:
    yield f"{name}.old"
    number = 2
    while True:
        yield f"{name}.old-{number}"
        number += 1


def _folder_error(shown: str, error: OSError) -> PerdureError:
    if error.errno in (errno.ENOTDIR, errno.ELOOP):
        return Invalid(f"{shown} is not a folder; a link is not followed.")
    return from_os_error(f"{shown} cannot be opened", error)


def _read_error(shown: str, error: OSError) -> PerdureError:
    if error.errno in (errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.EISDIR):
        return Invalid(f"{shown} is not a regular file; a link is not followed.")
    return from_os_error(f"{shown} cannot be read", error)
