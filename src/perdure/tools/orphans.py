"""Processes that a worker forked and left behind when it was killed: found by a file that every fork of it holds open.

A step of a flow may fork its whole process, as `multiprocessing` does. The fork has no mark in its environment and no
session of its own, but it inherits the descriptor of the worker's marker file, and keeps it until it ends or becomes
another program. The file is locked through that descriptor, only so that one call tells whether anybody holds it.
"""

import asyncio
import fcntl
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from perdure.errors import Unavailable
from perdure.settings import FILE_MODE
from perdure.tools.processes import HAS_PROC, Birth, birth_of, lineage_of, look_at, pids, printed

_WORKER_ID = re.compile(r"(\d+)-[0-9a-f]{16}")
_KILL_AFTER_S = 1.0
"""A fork of Python often inherits a handler that swallows TERM, so we do not wait long."""
_UNKILLABLE_AFTER_S = 10.0
_PAUSE_S = 0.02

_open_markers: dict[int, int] = {}
"""The descriptors of all markers of this process, inherited ones included, each with the pid of the worker."""


class ForkMarker:
    """The marker file of a worker; see this module."""

    def __init__(self, run_dir: Path, worker_id: str) -> None:
        """Make and hold the marker of a worker that this process becomes: it is nobody's orphan from now on."""
        for fd in [fd for fd, pid in _open_markers.items() if pid != os.getpid()]:
            del _open_markers[fd]
            os.close(fd)
        self._path = _marker_path(run_dir, worker_id)
        self._fd = -1
        while self._fd < 0:
            self._fd = _held(self._path)
        _open_markers[self._fd] = os.getpid()

    def close(self) -> None:
        """Hold the marker no longer; it stays for as long as a fork holds it. In a fork itself nothing changes."""
        if _open_markers.get(self._fd) == os.getpid():
            del _open_markers[self._fd]
            os.close(self._fd)
            _remove_if_free(self._path)


def sweep_markers(run_dir: Path) -> None:
    """Remove the markers that no process holds any more."""
    for path in run_dir.glob("*.forks"):
        with suppress(OSError):
            _remove_if_free(path)


async def end_orphans(run_dir: Path, worker_id: str, *, kill_after_s: float = _KILL_AFTER_S) -> None:
    """End what a dead worker of this home has forked, with all that descends from it; return when it is gone.

    A worker that holds its own marker lives, however old its lease is: nothing of it is touched.

    Raises: Unavailable when it does not end, or cannot be looked for.
    """
    name = _WORKER_ID.fullmatch(worker_id)
    path = _marker_path(run_dir, worker_id)
    try:
        if name is None or _remove_if_free(path):
            return
        orphans = _holders(path)
        if int(name[1]) in orphans:
            return
        left = await _end(_with_descendants(orphans), kill_after_s)
        _remove_if_free(path)
    except OSError as error:
        raise Unavailable(f"What the worker {worker_id} has forked cannot be looked for: {error}.") from error
    if left:
        raise Unavailable(
            f"Processes {left}, which the dead worker {worker_id} has forked, do not end. End them by hand."
        )


def _marker_path(run_dir: Path, worker_id: str) -> Path:
    return run_dir / f"{worker_id}.forks"


def _held(path: Path) -> int:
    """Make and hold a file; -1 when it was removed in between, as one that nobody holds."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    try:
        fcntl.flock(fd, fcntl.LOCK_SH)
        if path.exists():
            return fd
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return -1


def _remove_if_free(path: Path) -> bool:
    """Remove a marker that nobody holds; tell whether there is none now."""
    try:
        with _opened(path) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        yield fd
    finally:
        os.close(fd)


def _holders(path: Path) -> set[int]:
    """Return the processes that have a file open, except this one."""
    if not HAS_PROC:
        return {int(pid) for pid in printed("/usr/sbin/lsof", "-t", str(path)).split()} - {os.getpid()}
    wanted = path.stat()
    return {pid for pid in pids() if pid != os.getpid() and _has_open(pid, path.name, (wanted.st_dev, wanted.st_ino))}


def _has_open(pid: int, name: str, identity: tuple[int, int]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        files = os.listdir(folder)  # noqa: PTH208 (half the cost of iterdir)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    for file in files:
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            if name in os.readlink(f"{folder}/{file}"):  # noqa: PTH115 (many are read, and most are others')
                found = os.stat(f"{folder}/{file}")
                if (found.st_dev, found.st_ino) == identity:
                    return True
    return False


def _with_descendants(orphans: set[int]) -> list[Birth]:
    """Name orphans and all that descends from them, so that a pid that is used again is not taken for one."""
    lineages = {pid: each for pid in pids() if (each := lineage_of(pid))} if HAS_PROC else {}
    found, size = set(orphans), 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, each in lineages.items() if each.parent in found}
    return [birth for pid in sorted(found) if (birth := birth_of(pid))]


async def _end(orphans: list[Birth], kill_after_s: float) -> list[int]:
    """End processes by TERM, then by KILL; return the pids of those that do not end."""
    left = orphans
    for kind, wait_s in ((signal.SIGTERM, kill_after_s), (signal.SIGKILL, _UNKILLABLE_AFTER_S)):
        for each in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each.pid, kind)
        for _ in range(round(wait_s / _PAUSE_S)):
            left = [each for each in left if _lives(each)]
            if not left:
                return []
            await asyncio.sleep(_PAUSE_S)
    return [each.pid for each in left]


def _lives(orphan: Birth) -> bool:
    seen = look_at(orphan.pid)
    return seen is not None and seen[1] == orphan.started and seen[0] not in "ZX"
