"""Flushes files, and names in folders, to stable storage."""

import fcntl
import os
import sys
from pathlib import Path


def fsync_file(fd: int, *, only_data: bool = False) -> None:
    """Flush an open file; with `only_data`, only the metadata that reading needs.

    Raises: OSError
    """
    if sys.platform == "darwin":
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)  # fsync of macOS does not flush the cache of the disk
    elif only_data:
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def fsync_path(path: Path | str, *, folder: int | None = None) -> None:
    """Flush a file by its name. Never call it on a database that is open in this process: closing drops its locks.

    Raises: OSError
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        fsync_file(fd)
    finally:
        os.close(fd)


def fsync_folder(folder: Path | int) -> None:
    """Make the names in a folder durable; `folder` is a path or a descriptor.

    Raises: OSError
    """
    if isinstance(folder, int):
        os.fsync(folder)
        return
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
