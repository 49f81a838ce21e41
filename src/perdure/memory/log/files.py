"""Files of a memory: opened and read, with errors in our words."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType

from perdure.errors import Damaged, Denied, Invalid, PerdureError, Unavailable
from perdure.filelock.names import NameLock
from perdure.files import opening
from perdure.files.folders import ensure_folder
from perdure.files.fsync import fsync_folder

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS)
_CHUNK = 1 << 20


class FolderGone(Unavailable):
    """The folder of a file was moved or removed just before the file was to be made in it."""


class OpenFile:
    """An open file that stays open for as long as somebody uses it, also when another one takes its place."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.identity = identity(os.fstat(fd))

    def __del__(self) -> None:
        os.close(self.fd)


def identity(found: os.stat_result) -> tuple[int, int]:
    """Return what two names of one file have in common."""
    return found.st_dev, found.st_ino


def open_file(path: Path, flags: int) -> int:
    """Open a regular file, making its folder where the flags ask for a new one; a link is not followed for writing.

    Raises: FileNotFoundError where none is to be made; Invalid when something else is there; Denied; Unavailable.
    """
    with told(path):
        if flags & os.O_CREAT:
            _make_folder(path.parent)
        is_read = flags & os.O_ACCMODE == os.O_RDONLY
        try:
            fd = opening.open_file(path, flags, follows_links=is_read)
        except FileNotFoundError:
            if flags & os.O_CREAT:
                raise FolderGone(f"The folder of {path} was removed just now; nothing was stored.") from None
            raise
        if not opening.is_regular(fd):
            os.close(fd)
            raise Invalid(f"{path} was expected to be a file, but something else is there.")
        return fd


def read_at(fd: int, path: Path, start: int, size: int) -> bytes:
    """Return the bytes from an offset on; fewer at the end of the file.

    Raises: Damaged when the disk fails.
    """
    with told(path):
        return os.pread(fd, size, start) if size > 0 else b""


def chunks_of(fd: int, path: Path, start: int, end: int) -> Iterator[bytes]:
    """Give the bytes between two offsets in handy pieces.

    Raises: Damaged when there are fewer, or the disk fails.
    """
    while start < end:
        chunk = read_at(fd, path, start, min(_CHUNK, end - start))
        if not chunk:
            raise Damaged(f"{path} became shorter while it was read; nothing was changed.")
        yield chunk
        start += len(chunk)


def hand_over(new: int, old: int, path: Path) -> None:
    """Let a new file belong to whom the old one belongs, with the same permissions.

    Raises: Denied when that cannot be: whose file it is would be locked out.
    """
    theirs, ours = os.fstat(old), os.fstat(new)
    try:
        if (theirs.st_uid, theirs.st_gid) != (ours.st_uid, ours.st_gid):
            os.fchown(new, theirs.st_uid, theirs.st_gid)
        os.fchmod(new, stat.S_IMODE(theirs.st_mode))
    except OSError as error:
        raise Denied(f"{path} belongs to somebody else, and only that user can let it be rewritten.") from error


def told(path: Path) -> AbstractContextManager[None]:
    """Tell what the operating system said about a file; that it is missing is for the caller to judge."""
    return _Told(path)


class _Told:
    """A class, because each append has several of them, and a generator costs three times as much."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise _meaning(self._path, error) from error


def _make_folder(path: Path) -> None:
    """Make a folder and the missing ones above it, and make all their names durable.

    A restore that is just replacing the folder holds the lock of its name: it would fail if we made another.
    """
    if path.is_dir():
        return
    missing = [path, *(each for each in path.parents if not each.is_dir())]
    ensure_folder(path.parent)
    with NameLock(path):
        ensure_folder(path)
    for each in missing:
        with suppress(PermissionError):  # a folder that may be entered, not read: its owner has to care for it
            fsync_folder(each.parent)


def _meaning(path: Path, error: OSError) -> PerdureError:
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return Unavailable(f"There is no space left for {path} ({why}); nothing was stored. Make room and try again.")
    if error.errno in _NOT_ALLOWED:
        return Denied(f"{path} cannot be used: {why}. Check the permissions of the file and its folder.")
    if error.errno == errno.EIO:
        return Damaged(f"The disk failed under {path} ({why}); nothing was stored.")
    if error.errno == errno.ELOOP:
        return Invalid(
            f"{path} is a symbolic link, and a rewrite would put a file in its place. Name the file that it leads to,"
            " or let the folder be the link."
        )
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENXIO):
        return Invalid(f"{path} cannot be the file of a memory: {why}.")
    return Unavailable(f"{path} cannot be used: {why}; nothing was stored.")
