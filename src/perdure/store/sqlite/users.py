"""Finds the processes of this machine that have a database file open, on systems with /proc."""

import os
from collections.abc import Iterator
from pathlib import Path

_PROCESSES = Path("/proc")


def processes_with(path: Path) -> list[int]:
    """Return the other processes that have a file open, as far as permissions allow."""
    name = os.path.realpath(path)
    numbers = [int(folder.name) for folder in _folders()]
    return sorted(pid for pid in numbers if pid != os.getpid() and name in _open_files(pid))


def _folders() -> Iterator[Path]:
    if _PROCESSES.is_dir():
        yield from (folder for folder in _PROCESSES.iterdir() if folder.name.isdecimal())


def _open_files(pid: int) -> set[str]:
    folder = _PROCESSES / str(pid) / "fd"
    found = set()
    try:
        for entry in folder.iterdir():
            found.add(str(entry.readlink()))
    except OSError:
        return found  # it has ended, or access is denied
    return found
