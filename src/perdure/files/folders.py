"""Creates private folders durably, and opens folders without following links."""

import os
from pathlib import Path

from perdure.errors import Invalid, from_os_error
from perdure.files.fsync import fsync_folder

FOLDER_MODE = 0o700
"""The permissions of private folders."""


def ensure_folder(path: Path) -> None:
    """Create a folder and its missing parents, all of them private.

    Raises: Invalid when the path exists and is not a folder; Denied.
    """
    if path.is_dir():
        return
    if path != path.parent:
        ensure_folder(path.parent)
    try:
        path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise Invalid(f"{path} must be a folder, but is another file.") from error
    except OSError as error:
        raise from_os_error(f"The folder {path} cannot be created", error) from error


def open_folder(name: Path | str, *, folder: int | None = None) -> int:
    """Open a folder, but not a symbolic link (ENOTDIR or ELOOP); with an open folder, `path` is a name in it.

    Raises: OSError
    """
    return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def make_folder(name: str, folder: int, mode: int = FOLDER_MODE) -> None:
    """Create a folder in an open folder durably, unless its name exists.

    Raises: OSError
    """
    try:
        os.mkdir(name, mode, dir_fd=folder)
    except FileExistsError:
        return
    fsync_folder(folder)
