"""Opening files: links are not followed, descriptors are not inherited, and a pipe without a writer is not waited for.

With `folder`, an open folder, a name is looked up in that folder, whatever its path leads to by now.
"""

import os
import stat
from pathlib import Path

FILE_MODE = 0o600
"""Permissions of a file that is ours: private."""


def open_file(
    name: Path | str,
    flags: int = os.O_RDONLY,
    mode: int = FILE_MODE,
    *,
    folder: int | None = None,
    follows_links: bool = False,
) -> int:
    """Open a file; a symbolic link in its place is an error (ELOOP) unless links are followed.

    Raises: OSError
    """
    guard = 0 if follows_links else os.O_NOFOLLOW
    return os.open(name, flags | guard | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder)


def create_exclusive(name: Path | str, mode: int = FILE_MODE, *, folder: int | None = None) -> int:
    """Create a file and open it for writing. Of several processes that do so, one succeeds.

    Raises: FileExistsError when the name is taken, also by a link that leads nowhere; OSError.
    """
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)


def create_empty(name: Path | str, mode: int = FILE_MODE, *, folder: int | None = None) -> None:
    """Create an empty file.

    Raises: FileExistsError when the name is taken; OSError.
    """
    os.close(create_exclusive(name, mode, folder=folder))


def is_regular(fd: int) -> bool:
    """Tell whether an open file is a regular one: no folder, pipe, socket or device."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Write all of the data, in as many calls as it takes.

    Raises: OSError; what was written before it stays.
    """
    done = 0
    while done < len(data):
        done += os.write(fd, data[done:] if done else data)
