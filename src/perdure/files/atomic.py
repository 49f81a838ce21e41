"""Files that a crash leaves whole: written under another name, flushed, then given their name, which is flushed too.

The steps and their order are the same for every file: create the part exclusively, write it, fsync it, rename or link
it to its name, fsync the folder. A process that dies in between leaves the old content or the new one, and perhaps the
part, whose name begins with a dot; a later write of the same file removes that.
"""

import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perdure import failpoints
from perdure.filelock.names import NameLock
from perdure.files.fsync import fsync_file, fsync_folder, fsync_path
from perdure.files.opening import FILE_MODE, create_exclusive, write_all

_ABANDONED_S = 3600.0
"""The age in seconds after which the part of a file counts as left by a dead process."""
_LONGEST_STEM_BYTES = 200
"""The maximum length of the file name in the name of its part: most file systems allow 255 bytes."""


class PartFile:
    """A file that is being written, before it gets its final name. Created by `part_file`."""

    def __init__(self, target: str, name: str, fd: int, folder: int | None) -> None:
        self.fd = fd
        """The descriptor of the file; -1 after `close`."""
        self.is_placed = False
        """Whether the file may have its final name."""
        self._target = target
        self._name = name
        self._folder = folder
        self._is_flushed = False

    @property
    def path(self) -> Path:
        """The path of the part, for a library that writes files by path."""
        return Path(self._name)

    def write(self, data: bytes | bytearray) -> None:
        """Append data.

        Raises: OSError
        """
        self._is_flushed = False
        write_all(self.fd, data)

    def close(self) -> None:
        """Close the file, so that another library can write it by its path."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def fsync(self) -> None:
        """Flush the content, as `replace` and `publish` do too, unless it is flushed.

        Raises: OSError
        """
        failpoints.hit("files.fsync.before")
        if self.fd >= 0:
            fsync_file(self.fd)
        else:
            fsync_path(self._name, folder=self._folder)
        self._is_flushed = True

    def replace(self) -> None:
        """Rename the part to its final name, and replace an existing file.

        Raises: OSError
        """
        self._prepare()
        os.replace(self._name, self._target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self.is_placed = True

    def publish(self) -> None:
        """Rename the part to its final name, unless that exists.

        Raises: FileExistsError when it is taken; OSError.
        """
        self._prepare()
        publish(self._name, self._target, folder=self._folder)
        self.is_placed = True

    def _prepare(self) -> None:
        if not self._is_flushed:
            self.fsync()
        failpoints.hit("files.name.before")


@contextmanager
def part_file(
    target: Path | str, *, name: str | None = None, mode: int = FILE_MODE, folder: int | None = None
) -> Iterator[PartFile]:
    """Yield a new part file beside `target`, to write and then to `replace` or `publish`.

    After the block the name is durable, or the part is removed. `name` is the name of the part, for callers whose lock
    allows only one writer: an existing part was left by a dead writer and is removed. The default is a random name.

    Raises: OSError
    """
    target = os.fspath(target)
    beside, last = os.path.split(target)
    if name is None:
        _remove_abandoned(beside, last, folder)
        name = f"{_prefix(last)}{secrets.token_hex(4)}"
    else:
        _remove(_joined(beside, name), folder)
    part_path = _joined(beside, name)
    part = PartFile(target, part_path, create_exclusive(part_path, mode, folder=folder), folder)
    try:
        failpoints.hit("files.write.before")
        yield part
    finally:
        part.close()
        with suppress(OSError):  # a later write of the file removes it
            _remove(part_path, folder)
    if part.is_placed:
        failpoints.hit("files.folder.before")
        fsync_folder(Path(beside or ".") if folder is None else folder)
        failpoints.hit("files.folder.after")


def write_atomic(path: Path, data: bytes, *, mode: int = FILE_MODE, keeps_mode: bool = False) -> None:
    """Write a file atomically, and replace an existing one; with `keeps_mode`, its permissions are kept.

    Raises: OSError
    """
    kept = _mode_of(path) if keeps_mode else None
    with part_file(path, mode=mode if kept is None else kept) as part:
        if kept is not None:
            os.fchmod(part.fd, kept)  # including bits that the umask clears
        part.write(data)
        part.replace()


def publish(part: Path | str, target: Path | str, *, folder: int | None = None) -> None:
    """Rename a complete file, unless the new name exists.

    On a file system without hard links it is renamed instead: under a lock, if the folder is given by its path, so that
    only one of several processes of Perdure succeeds.

    Raises: FileExistsError when the name is taken; OSError; Unavailable.
    """
    try:
        os.link(part, target, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        if folder is not None:
            _rename_to_free_name(part, target, folder)
            return
        with NameLock(Path(target)):
            _rename_to_free_name(part, target, None)


def rename_durably(old: Path | str, new: Path | str, *, folder: int | None = None) -> None:
    """Rename a file or folder durably within its folder.

    Raises: OSError
    """
    os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)
    fsync_folder(Path(new).parent if folder is None else folder)


def unused(path: Path) -> Path:
    """Return the path, or the first of path-2, path-3, … that does not exist."""
    number, candidate = 1, path
    while os.path.lexists(candidate):
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def _rename_to_free_name(part: Path | str, target: Path | str, folder: int | None) -> None:
    try:
        os.stat(target, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        os.rename(part, target, src_dir_fd=folder, dst_dir_fd=folder)
        return
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))


def _joined(beside: str, name: str) -> str:
    return f"{beside.rstrip('/')}/{name}" if beside else name


def _mode_of(path: Path) -> int | None:
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def _prefix(name: str) -> str:
    """Return the prefix of the names of the parts of a file."""
    return f".{os.fsdecode(os.fsencode(name)[:_LONGEST_STEM_BYTES])}.part-"


def _remove(name: str, folder: int | None) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _remove_abandoned(beside: str, name: str, folder: int | None) -> None:
    """Remove the parts of a file that dead processes left, by their age."""
    prefix, oldest_s = _prefix(name), time.time() - _ABANDONED_S
    with suppress(OSError), os.scandir(folder if folder is not None else beside or ".") as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.stat(follow_symlinks=False).st_mtime < oldest_s:
                _remove(_joined(beside, entry.name), folder)
