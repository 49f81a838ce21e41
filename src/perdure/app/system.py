"""The clock, names and identity of this machine and process: adapters of what the kernel asks for."""

import asyncio
import fcntl
import os
import re
import secrets
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

from perdure.errors import Denied
from perdure.kernel.ports import Worker
from perdure.settings import FILE_MODE, ensure_folder
from perdure.tools.processes import boot_id

_SLUG_LENGTH = 32
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"


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
    """Names by time and chance. See Ids."""

    def event_id(self) -> str:
        """See Ids.event_id."""
        from uuid_utils import uuid7

        return str(uuid7())

    def goal_id(self, text: str) -> str:
        """See Ids.goal_id."""
        words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_SLUG_LENGTH].strip("-")
        chance = "".join(secrets.choice(_ALPHABET) for _ in range(4))
        return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{words or 'goal'}-{chance}"


class WorkerIdentity:
    """The worker that this process is; it holds a lock file for as long as it lives, so that others see it."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "run"
        ensure_folder(self._folder)
        self.worker = Worker(
            id=f"{os.getpid()}-{secrets.token_hex(8)}",
            host=socket.gethostname(),
            home_id=_home_id(home),
            boot_id=boot_id(),
        )
        self._fd = os.open(self._path(self.worker.id), os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
        fcntl.flock(self._fd, fcntl.LOCK_EX)

    def close(self) -> None:
        """Stop being a worker."""
        self._path(self.worker.id).unlink(missing_ok=True)
        os.close(self._fd)

    def is_dead(self, worker_id: str) -> bool:
        """Tell of a worker of this home whether it is certainly dead: its file is gone, or its lock is free."""
        try:
            fd = os.open(self._path(worker_id), os.O_RDWR)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def _path(self, worker_id: str) -> Path:
        return self._folder / f"{worker_id}.lock"


def _home_id(home: Path) -> str:
    """Return the random name of a home, which is made once and kept in it."""
    path = home / "home_id"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    except FileExistsError:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise Denied(f"{path} cannot be written: {error.strerror}.") from error
    with os.fdopen(fd, "w", encoding="ascii") as file:
        name = secrets.token_hex(16)
        file.write(name)
    return name
