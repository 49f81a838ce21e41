"""The lock that orders all who write a log, between processes and between threads."""

import fcntl
import os
import threading
import time
import weakref
from pathlib import Path
from types import TracebackType

from perdure.errors import Unavailable
from perdure.memory.files import identity, open_file, told

WAIT_S = 10.0
_FIRST_PAUSE_S = 0.0001
_LONGEST_PAUSE_S = 0.004


class LogLock:
    """An exclusive lock on a file, with a deadline. Not re-entrant."""

    def __init__(self, path: Path, wait_s: float = WAIT_S) -> None:
        self._path = path
        self._wait_s = wait_s
        self._fd = -1
        self._threads = threading.Lock()
        self.is_marked = False
        """Whether one who held the lock before died between `mark` and `unmark`."""
        _locks.add(self)

    @property
    def fd(self) -> int:
        """The file that is locked."""
        return self._fd

    def __enter__(self) -> "LogLock":
        """Take the lock.

        Raises: Unavailable, naming the holder, when somebody keeps it for too long.
        """
        deadline = time.monotonic() + self._wait_s
        if not self._threads.acquire(timeout=self._wait_s):
            raise self._too_long("another thread of this process")
        try:
            self._between_processes(deadline)
        except BaseException:
            self.close()  # an interrupt may come when it is locked already; others would wait for us for ever
            self._threads.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            if self._threads.locked():
                self._threads.release()

    def mark(self) -> None:
        """Note, for whoever takes the lock next, that the names in the folder may not be durable yet."""
        with told(self._path):
            os.pwrite(self._fd, b"~", 0)

    def unmark(self) -> None:
        """Take the note back."""
        with told(self._path):
            os.ftruncate(self._fd, 0)
        self.is_marked = False

    def is_in_place(self) -> bool:
        """Tell whether those who come now would lock the same file; not when somebody removed it."""
        return self._in_place() is not None

    def _in_place(self) -> os.stat_result | None:
        try:
            found = os.fstat(self._fd)
            return found if identity(found) == identity(os.stat(self._path)) else None
        except OSError:
            return None

    def close(self) -> None:
        """Close the file, which gives the lock back; it may be taken again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def forget(self) -> None:
        """Start anew in a child process: a descriptor from before a fork shares its lock with the parent."""
        self.close()
        self._threads = threading.Lock()

    def _between_processes(self, deadline: float) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._try():
            if time.monotonic() > deadline:
                raise self._too_long(_holder(self._path))
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _try(self) -> bool:
        if self._fd < 0:
            self._fd = open_file(self._path, os.O_RDWR | os.O_CREAT)
        with told(self._path):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        if (found := self._in_place()) is not None:
            self.is_marked = found.st_size > 0
            return True
        self.close()  # somebody removed the file: those who come now lock another one
        return False

    def _too_long(self, holder: str) -> Unavailable:
        return Unavailable(
            f"{self._path} has been locked by {holder} for {self._wait_s:g} s; nothing was stored. Try again."
        )


_locks: "weakref.WeakSet[LogLock]" = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_locks):
        lock.forget()


os.register_at_fork(after_in_child=_forget_all)


def _holder(path: Path) -> str:
    """Name the process that holds a lock, where the system tells it."""
    try:
        file = os.stat(path)
        place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
        rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        pid = next(row[4] for row in rows if row[1] == "FLOCK" and row[5] == place)
        name = Path(f"/proc/{pid}/comm").read_text().strip()
    except (OSError, StopIteration, IndexError):
        return "another process"
    return f"process {pid} ({name})"
