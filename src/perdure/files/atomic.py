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
"""A part that was not written to for so long is of a process that died."""
_LONGEST_STEM_BYTES = 200
"""What the name of a part repeats of the name of its file: most file systems allow 255 bytes."""


class PartFile:
    """A file that is being written, and is to take the name of another or a new one. Made by `part_file`."""

    def __init__(self, target: str, name: str, fd: int, folder: int | None) -> None:
        self.fd = fd
        """The open file; -1 when it was closed, because another library writes it by its path."""
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
        """Write data behind what was written before.

        Raises: OSError
        """
        self._is_flushed = False
        write_all(self.fd, data)

    def close(self) -> None:
        """Close the file, to let another library write it by its path."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            os.close(fd)

    def fsync(self) -> None:
        """Flush the content. `replace` and `publish` do so too, unless it was done.

        Raises: OSError
        """
        failpoints.hit("files.fsync.before")
        if self.fd >= 0:
            fsync_file(self.fd)
        else:
            fsync_path(self._name, folder=self._folder)
        self._is_flushed = True

    def replace(self) -> None:
        """Give the file its name, in place of what has it now.

        Raises: OSError
        """
        self._prepare()
        os.replace(self._name, self._target, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        self.is_placed = True

    def publish(self) -> None:
        """Give the file its name, unless the name is taken.

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
    """Give the block a new file beside `target` to fill, and then to `replace` or `publish`.

    After the block the name is durable, or nothing of the part is left. `name` is the name of the part where a lock
    makes sure that there is one writer: what a dead one left there is removed. Otherwise it is random.

    Raises: OSError
    """
    target = os.fspath(target)
    beside, last = os.path.split(target)
    if name is None:
        _remove_abandoned(beside, last, folder)
        name = f"{_prefix(last)}{secrets.token_hex(4)}"
    else:
        _remove(_joined(beside, name), folder)
    place = _joined(beside, name)
    part = PartFile(target, place, create_exclusive(place, mode, folder=folder), folder)
    try:
        failpoints.hit("files.write.before")
        yield part
    finally:
        part.close()
        with suppress(OSError):  # what cannot be removed now is removed by a later write of the file
            _remove(place, folder)
    if part.is_placed:
        failpoints.hit("files.folder.before")
        fsync_folder(Path(beside or ".") if folder is None else folder)
        failpoints.hit("files.folder.after")


def write_atomic(path: Path, data: bytes, *, mode: int = FILE_MODE, keeps_mode: bool = False) -> None:
    """Write a file whole, in place of one that is there; with `keeps_mode`, that one's permissions stay.

    Raises: OSError
    """
    kept = _mode_of(path) if keeps_mode else None
    with part_file(path, mode=mode if kept is None else kept) as part:
        if kept is not None:
            os.fchmod(part.fd, kept)  # also what the umask takes away
        part.write(data)
        part.replace()


def publish(part: Path | str, target: Path | str, *, folder: int | None = None) -> None:
    """Give a complete file its name, unless the name is taken.

    Without hard links, a rename does it: in a folder that is given by its path, under a lock, so that of several
    processes of ours one gives the name.

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
    """Rename a file or a folder within its folder, and make that durable.

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
    """Return how the names of a file's parts begin."""
    return f".{os.fsdecode(os.fsencode(name)[:_LONGEST_STEM_BYTES])}.part-"


def _remove(name: str, folder: int | None) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _remove_abandoned(beside: str, name: str, folder: int | None) -> None:
    """Remove the parts of a file that processes have left which died; one that is being written is young."""
    prefix, oldest_s = _prefix(name), time.time() - _ABANDONED_S
    with suppress(OSError), os.scandir(folder if folder is not None else beside or ".") as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.stat(follow_symlinks=False).st_mtime < oldest_s:
                _remove(_joined(beside, entry.name), folder)
