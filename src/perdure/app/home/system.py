"""The clock, ids and worker identity of this machine and process: adapters of ports of the kernel."""

import asyncio
import contextlib
import os
import re
import secrets
import socket
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from uuid_utils import uuid7

from perdure.errors import from_os_error
from perdure.filelock.lock import FileLock, shared_now
from perdure.filelock.names import NameLock
from perdure.files.atomic import write_atomic
from perdure.files.folders import ensure_folder
from perdure.kernel.ports import Worker
from perdure.tools.exec.forks import sweep_forks
from perdure.tools.exec.processes import boot_id

_WORKER_ID = re.compile(r"\d+-[0-9a-f]{16}")
_GOAL_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9-]+-[a-z2-7]{4,}")
_SLUG_LENGTH = 32
_CHANCE_LENGTH = 6
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


def is_goal_id(name: str) -> bool:
    """Return whether a text has the form of the ids that `SystemIds.goal_id` makes."""
    return _GOAL_ID.fullmatch(name) is not None


class SystemClock:
    """The clock of this machine. See Clock."""

    def now_us(self) -> int:
        """See Clock.now_us."""
        return time.time_ns() // 1000

    def boottime_s(self) -> float:
        """See Clock.boottime_s."""
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))

    async def sleep(self, seconds: float) -> None:
        """See Clock.sleep."""
        await asyncio.sleep(seconds)


class SystemIds:
    """Ids from the time and random characters. See Ids."""

    def event_id(self) -> str:
        """See Ids.event_id."""
        return str(uuid7())

    def goal_id(self, text: str) -> str:
        """See Ids.goal_id."""
        words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_SLUG_LENGTH].strip("-")
        chance = "".join(secrets.choice(_ALPHABET) for _ in range(_CHANCE_LENGTH))
        return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{words or 'goal'}-{chance}"


def keep_for_ever(thing: object) -> None:
    """Keep an object alive for the life of the process, also while Python shuts down. See RunContext.keep."""
    threading.Thread(target=_hold, args=(thing,), name="perdure-left-alone", daemon=True).start()


def _hold(_thing: object) -> None:
    threading.Event().wait()


class WorkerIdentity:
    """The worker of this process; it holds a lock file while it is alive, so that other processes see it."""

    def __init__(self, home: Path) -> None:
        folder = home / "run"
        ensure_folder(folder)
        _sweep(folder)
        sweep_forks(folder)
        while True:
            self.worker = observer(home, worker_id=f"{os.getpid()}-{secrets.token_hex(8)}")
            self._lock = FileLock(folder / f"{self.worker.id}.lock", kind="lasting")
            if self._lock.try_acquire():
                break
            self._lock.close()  # another process took the new file for a dead worker's and removes it

    def close(self) -> None:
        """Stop the worker and remove its lock file. A forked child is not a worker, so nothing happens there."""
        if self._lock.fd >= 0:
            self._lock.path.unlink(missing_ok=True)
            self._lock.release()
            self._lock.close()


def observer(home: Path, worker_id: str = "") -> Worker:
    """Return the location of this process: its host, its home and the boot of the machine."""
    return Worker(id=worker_id, host=socket.gethostname(), home_id=_home_id(home), boot_id=boot_id())


def is_dead(home: Path, worker_id: str) -> bool:
    """Return whether a worker of this home is certainly dead: its file is gone, or its lock is free.

    The test takes a shared lock, so that two processes that test at once do not mistake each other for the worker.
    """
    if not _WORKER_ID.fullmatch(worker_id):
        return False
    try:
        with shared_now(home / "run" / f"{worker_id}.lock") as is_free:
            return is_free
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _sweep(folder: Path) -> None:
    """Remove the files of dead workers. A file is removed under its lock, so that no living worker can hold it.

    The lock is shared, as in `is_dead`: a process that tests at the same time does not mistake this one for the worker.
    """
    for path in folder.glob("*.lock"):
        with contextlib.suppress(OSError), shared_now(path) as is_free:
            if is_free:
                path.unlink(missing_ok=True)


def _home_id(home: Path) -> str:
    """Return the random id of a home, which is created once, atomically, and stored in the home.

    The device and inode of the folder are stored with it. They differ in a copy of a home, so a copy gets its own id: a
    process of the copy that shares the database must not take workers of the original for its own dead workers.
    """
    path = home / "home_id"
    try:
        status = home.stat()
        place = f"{status.st_dev}:{status.st_ino}"
        seen = _read_text(path)
        name, _, made_for = seen.partition(" ")
        if made_for != place:
            _put_text(path, f"{secrets.token_hex(16)} {place}", seen)
            name = _read_text(path).partition(" ")[0]
    except OSError as error:
        raise from_os_error(f"{path} cannot be read or written", error) from error
    return name


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return ""


def _put_text(path: Path, text: str, seen: str) -> None:
    """Write a file atomically, unless another process has changed its text since it was read."""
    with NameLock(path):
        if _read_text(path) == seen:
            write_atomic(path, text.encode("ascii"))
