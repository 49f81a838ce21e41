"""Opens and reads the files of a memory, and translates errors of the operating system."""

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
    """An open file, closed with its last reference; it stays readable when another file replaces it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.identity = identity(os.fstat(fd))

    def __del__(self) -> None:
        os.close(self.fd)


def identity(status: os.stat_result) -> tuple[int, int]:
    """Return device and inode, which are equal for two names of one file."""
    return status.st_dev, status.st_ino


def open_file(path: Path, flags: int) -> int:
    """Open a regular file; with O_CREAT its folder is created too. A link is not followed for writing.

    Raises: FileNotFoundError without O_CREAT; Invalid when it is not a regular file; Denied; Unavailable.
    """
    with translate_os_errors(path):
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
            raise Invalid(f"{path} must be a regular file.")
        return fd


def read_at(fd: int, path: Path, start: int, size: int) -> bytes:
    """Return the bytes from an offset on; fewer at the end of the file.

    Raises: Damaged when the disk fails.
    """
    with translate_os_errors(path):
        return os.pread(fd, size, start) if size > 0 else b""


def chunks_of(fd: int, path: Path, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes between two offsets in chunks.

    Raises: Damaged when there are fewer, or the disk fails.
    """
    while start < end:
        chunk = read_at(fd, path, start, min(_CHUNK, end - start))
        if not chunk:
            raise Damaged(f"{path} became shorter while it was read; nothing was changed.")
        yield chunk
        start += len(chunk)


def copy_owner(new: int, old: int, path: Path) -> None:
    """Give a new file the owner and the permissions of the old one.

    Raises: Denied when that is not possible: the owner would lose access.
    """
    theirs, ours = os.fstat(old), os.fstat(new)
    try:
        if (theirs.st_uid, theirs.st_gid) != (ours.st_uid, ours.st_gid):
            os.fchown(new, theirs.st_uid, theirs.st_gid)
        os.fchmod(new, stat.S_IMODE(theirs.st_mode))
    except OSError as error:
        raise Denied(f"{path} belongs to another user. Rewrite it as that user.") from error


def translate_os_errors(path: Path) -> AbstractContextManager[None]:
    """Translate errors of the operating system about a file, except FileNotFoundError."""
    return _TranslateOsErrors(path)


class _TranslateOsErrors:
    """A class because each append uses several, and a generator-based context manager costs three times as much."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise _translated(self._path, error) from error


def _make_folder(path: Path) -> None:
    """Create a folder and its missing parents, and make all their names durable.

    A restore that replaces the folder holds the lock of its name; it would fail if the folder were created meanwhile.
    """
    if path.is_dir():
        return
    missing = [path, *(each for each in path.parents if not each.is_dir())]
    ensure_folder(path.parent)
    with NameLock(path):
        ensure_folder(path)
    for each in missing:
        with suppress(PermissionError):  # a folder with search permission only: its owner has made it durable
            fsync_folder(each.parent)


def _translated(path: Path, error: OSError) -> PerdureError:
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in _FULL:
        return Unavailable(f"There is no space left for {path} ({why}); nothing was stored. Make room and try again.")
    if error.errno in _NOT_ALLOWED:
        return Denied(f"{path} cannot be used: {why}. Check the permissions of the file and its folder.")
    if error.errno == errno.EIO:
        return Damaged(f"The disk failed under {path} ({why}); nothing was stored.")
    if error.errno == errno.ELOOP:
        return Invalid(
            f"{path} is a symbolic link, which a rewrite would replace by a file. Use the path that it points to, or"
            " make the folder the link."
        )
    if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ENXIO):
        return Invalid(f"{path} cannot be the file of a memory: {why}.")
    return Unavailable(f"{path} cannot be used: {why}; nothing was stored.")
