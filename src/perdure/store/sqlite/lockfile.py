"""The advisory lock file that is held around every write transaction, every checkpoint and every close.

SQLite before 3.51.3 can damage a WAL database when one process restarts the log while another checkpoints.
Whoever writes or checkpoints holds this lock, so the two never meet. It also orders the processes that create,
migrate or replace the file.
"""

import fcntl
import os
import random
import threading
import time
from pathlib import Path
from types import TracebackType

from perdure.errors import Unavailable, from_os_error
from perdure.settings import FILE_MODE

WAIT_S = 30.0
_FIRST_PAUSE_S = 0.0002
_LONGEST_PAUSE_S = 0.005


class LockFile:
    """An exclusive lock between processes, and between threads of this one. Not re-entrant."""

    def __init__(self, path: Path, wait_s: float = WAIT_S) -> None:
        self.path = path
        self.is_new = False
        """True when this object made the file: nobody has used the database before."""
        self._wait_s = wait_s
        self._between_threads = threading.Lock()
        self._fd = -1
        self._name = os.fspath(path)
        self._file = (0, 0)

    def __enter__(self) -> "LockFile":
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self, wait_s: float | None = None) -> None:
        """Take the lock, waiting for it.

        Raises: Unavailable when somebody keeps it for too long; Denied when the file may not be made.
        """
        wait_s = self._wait_s if wait_s is None else wait_s
        deadline = time.monotonic() + wait_s
        if not self._between_threads.acquire(timeout=wait_s):
            raise Unavailable(f"Another thread has held {self.path} for {wait_s:g} s. Try again.")
        try:
            self._acquire_between_processes(deadline)
        except BaseException:
            self._between_threads.release()
            raise

    def acquire_now(self) -> bool:
        """Take the lock if it is free at this moment; false when somebody has it, or its file has to be made anew."""
        if not self._between_threads.acquire(blocking=False):
            return False
        is_ours = False
        try:
            if self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = self._is_still_in_place()
        except BlockingIOError:
            pass
        finally:
            if not is_ours:
                self._between_threads.release()
        return is_ours

    def release(self) -> None:
        """Give the lock back."""
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._between_threads.release()

    def close(self) -> None:
        """Close the file. It is never removed: two processes must always lock the same one."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _acquire_between_processes(self, deadline: float) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            if self._fd < 0 and not self._open():
                continue  # it was removed between two looks
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Unavailable(self._who_holds_it()) from None
                time.sleep(pause_s * random.uniform(0.5, 1.0))
                pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
                continue
            if self._is_still_in_place():
                return
            self.close()  # somebody removed or replaced the file: what we hold, nobody else would see

    def _open(self) -> bool:
        """Open the file, or make it; false when it was there and then was not."""
        try:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE_MODE)
            self.is_new = True
        except FileExistsError:
            try:
                self._fd = os.open(self.path, os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:
                return False
            except OSError as error:
                raise from_os_error(f"The lock file {self.path} cannot be opened", error) from error
        except OSError as error:
            raise from_os_error(f"The folder {self.path.parent} cannot be written", error) from error
        status = os.fstat(self._fd)
        self._file = (status.st_dev, status.st_ino)
        return True

    def _is_still_in_place(self) -> bool:
        try:
            named = os.stat(self._name)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == self._file

    def _who_holds_it(self) -> str:
        pid = _holder(os.fstat(self._fd))
        who = f"Process {pid}" if pid else "Another process"
        return f"{who} holds {self.path} and does not let go. Wait for it, or end it, and try again."


def _holder(status: os.stat_result) -> int | None:
    """Find who holds a lock on a file; Linux tells, other systems do not."""
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == file:
            pid = int(fields[4])
            return pid if pid > 0 else None
    return None
