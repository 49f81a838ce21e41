"""Folders: made private and durable, and opened without following a link."""

import os
from pathlib import Path

from perdure.errors import Invalid, from_os_error
from perdure.files.fsync import fsync_folder

FOLDER_MODE = 0o700
"""Permissions of a folder that is ours: private."""


def ensure_folder(path: Path) -> None:
    """Make a folder, and its parents, unless they are there; what is made is private.

    Raises: Invalid when something else is in the way; Denied when it may not be made.
    """
    if path.is_dir():
        return
    if path != path.parent:
        ensure_folder(path.parent)
    try:
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Invalid(f"{path} must be a folder, but something else is there.") from error
    except OSError as error:
        raise from_os_error(f"The folder {path} cannot be created", error) from error


def open_folder(name: Path | str, *, folder: int | None = None) -> int:
    """Open a folder, which a symbolic link is not (ENOTDIR or ELOOP); a name may be looked up in an open folder.

    Raises: OSError
    """
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def make_folder(name: str, folder: int, mode: int = FOLDER_MODE) -> None:
    """Make a folder in an open folder, durably, unless its name is taken.

    Raises: OSError
    """
    try:
        os.mkdir(name, mode, dir_fd=folder)
    except FileExistsError:
        return
    fsync_folder(folder)
