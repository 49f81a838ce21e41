"""Opening files: links are not followed, descriptors are not inherited, and a pipe without a writer is not waited for.

With `folder`, an open folder, a name is looked up in that folder, even if its path now leads to another one.
"""

import errno
import os
import re
import stat
from pathlib import Path

from perdure.errors import Invalid

_PASSED_BY_SHELL = re.compile(r"/dev/(?:stdin|null|fd/\d+)|/proc/self/fd/\d+")
"""Paths by which a shell passes a pipe."""

FILE_MODE = 0o600
"""The permissions of private files."""


def open_file(
    name: Path | str,
    flags: int = os.O_RDONLY,
    mode: int = FILE_MODE,
    *,
    folder: int | None = None,
    follows_links: bool = False,
) -> int:
    """Open a file; a symbolic link is an error (ELOOP) unless links are followed.

    Raises: OSError
    """
    guard = 0 if follows_links else os.O_NOFOLLOW
    return os.open(name, flags | guard | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder)


def open_input(path: Path | str) -> int:
    """Open a file for reading by a path from a caller; links are followed.

    Anything but a regular file is rejected, because reading it may block forever. The exception is a pipe under a name
    that a shell passes, such as `/dev/stdin`.

    Raises: Invalid, naming the kind of file; OSError.
    """
    try:
        fd = open_file(path, follows_links=True)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise _not_regular(path, "a socket, or a missing device") from error
    try:
        mode = os.fstat(fd).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode) and not _PASSED_BY_SHELL.fullmatch(str(path)):
            raise _not_regular(path, "a pipe" if stat.S_ISFIFO(mode) else "a device")
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_input_file(path: Path | str, largest: int = -1) -> bytes:
    """Return the content of a file at a path from a caller, up to a size.

    Raises: Invalid when it is not a regular file, see `open_input`; OSError.
    """
    with os.fdopen(open_input(path), "rb") as file:
        return file.read(largest)


def _not_regular(path: Path | str, what: str) -> Invalid:
    return Invalid(f"{path} is {what}, not a regular file. Give a file, or /dev/stdin behind a pipe.")


def create_exclusive(name: Path | str, mode: int = FILE_MODE, *, folder: int | None = None) -> int:
    """Create a file and open it for writing. Of concurrent processes, only one succeeds.

    Raises: FileExistsError when the name is taken, also by a link that leads nowhere; OSError.
    """
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)


def create_empty(name: Path | str, mode: int = FILE_MODE, *, folder: int | None = None) -> None:
    """Create an empty file.

    Raises: FileExistsError when the name is taken; OSError.
    """
    os.close(create_exclusive(name, mode, folder=folder))


def is_regular(fd: int) -> bool:
    """Return whether an open file is a regular file."""
    return stat.S_ISREG(os.fstat(fd).st_mode)


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Write all data, in several calls if necessary.

    Raises: OSError; data written before the error stays.
    """
    done = 0
    while done < len(data):
        done += os.write(fd, data[done:] if done else data)
