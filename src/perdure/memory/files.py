"""Opening, flushing and replacing files, with errors in our words."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.errors import Damaged, Denied, Invalid, PerdureError, Unavailable
from perdure.settings import FILE_MODE, ensure_folder

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)


def open_file(path: Path, flags: int) -> int:
    """Open a regular file, making its folder where the flags ask for a new one.

    Raises: FileNotFoundError; Invalid when something else is there; Denied; Unavailable.
    """
    with told(path):
        if flags & os.O_CREAT and not path.parent.is_dir():
            ensure_folder(path.parent)
            flush_folder(path.parent.parent)
        fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, FILE_MODE)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise Invalid(f"{path} was expected to be a file, but something else is there.")
        return fd


def flush_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextmanager
def told(path: Path) -> Iterator[None]:
    """Tell what the operating system said about a file; that it is missing is for the caller to judge."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _meaning(path, error) from error


def _meaning(path: Path, error: OSError) -> PerdureError:
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return Unavailable(f"There is no space left for {path} ({why}); nothing was stored. Make room and try again.")
    if error.errno in _NOT_ALLOWED:
        return Denied(f"{path} cannot be used: {why}. Check the permissions of the file and its folder.")
    if error.errno == errno.EIO:
        return Damaged(f"The disk failed under {path} ({why}); nothing was stored.")
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENXIO):
        return Invalid(f"{path} cannot be the file of a memory: {why}.")
    return Unavailable(f"{path} cannot be used: {why}; nothing was stored.")
