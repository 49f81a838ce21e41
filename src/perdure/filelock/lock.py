"""An exclusive lock on a file, between processes and between threads, that no forked child inherits.

A file that is locked may be removed or replaced, for example by a restore that swaps its folder: a lock counts only
while its file is the one that is in place, because others would lock the new one.
"""

import fcntl
import os
import random
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from perdure.errors import Unavailable, from_os_error
from perdure.filelock.holders import holder_of
from perdure.filelock.holds import holds

WAIT_S = 30.0
_FILE_MODE = 0o600
_FIRST_PAUSE_S = 0.0001
_LONGEST_PAUSE_S = 0.004
_LONGEST_STEP_S = 1.0
"""The maximum time of one sleep that counts towards the deadline, so that a stopped process does not time out."""

Kind = Literal["inner", "outer", "lasting"]
"""`outer`: other locks are taken under it. `lasting`: held for the life of a worker, so that no stop waits for it."""


class FileLock:
    """An exclusive lock, taken with a deadline or at once. Not re-entrant. Threads may share it."""

    def __init__(self, path: Path, wait_s: float = WAIT_S, *, kind: Kind = "inner") -> None:
        self.path = path
        self.is_new = False
        """Whether this object created the file, so that no process has used it before."""
        self.size = 0
        """The size of the file when the lock was taken."""
        self._wait_s = wait_s
        self._threads = threading.Lock()
        self._fd = -1
        self._name = os.fspath(path)
        self._file = (0, 0)
        registers: dict[Kind, set[object]] = {"inner": holds.inner, "outer": holds.outer, "lasting": set()}
        self._register = registers[kind]
        self._is_counted = kind != "lasting"
        _all.add(self)

    @property
    def fd(self) -> int:
        """The descriptor of the lock file; -1 if it is not open."""
        return self._fd

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self, wait_s: float | None = None) -> None:
        """Take the lock, and wait for it if necessary.

        Raises: Unavailable, naming the holder, when it is held for too long; Denied when the file cannot be created.
        """
        wait_s = self._wait_s if wait_s is None else wait_s
        started_s = time.monotonic()
        if not self._threads.acquire(timeout=wait_s):
            raise self.thread_refusal(wait_s)
        try:
            self._wait(wait_s, wait_s - (time.monotonic() - started_s))
        except BaseException:
            self.close()  # an interrupt may arrive after the file was locked
            self._threads.release()
            raise

    def try_acquire(self) -> bool:
        """Try to take the lock without waiting.

        Raises: Denied when the file cannot be created.
        """
        if not self._threads.acquire(blocking=False):
            return False
        is_ours = False
        try:
            is_ours = self._take()
        except BaseException:
            self.close()
            raise
        finally:
            if not is_ours:
                self._threads.release()
        return is_ours

    def release(self) -> None:
        """Release the lock; do nothing in a forked child, which does not hold it."""
        try:
            if self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._register.discard(self)
            if self._threads.locked():
                self._threads.release()

    def close(self) -> None:
        """Close the file, which releases the lock; it can be taken again."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)
        self._register.discard(self)

    def is_in_place(self) -> bool:
        """Return whether the open file still has its name, so that other processes lock the same file."""
        try:
            named = os.stat(self._name)
        except OSError:
            return False
        self.size = named.st_size
        return (named.st_dev, named.st_ino) == self._file

    def refusal(self, wait_s: float) -> Unavailable:  # noqa: ARG002 (others name it)
        """Return the error for a lock that another process holds."""
        holder = holder_of(self.path)
        if holder is not None and holder.is_stopped:
            return Unavailable(holder.stopped_sentence(self.path))
        holder_text = f"Process {holder.pid}" if holder is not None else "Another process"
        return Unavailable(
            f"{holder_text} holds {self.path} and does not release it. Wait for it, or end it, and try again."
        )

    def thread_refusal(self, wait_s: float) -> Unavailable:
        """Return the error for a lock that another thread of this process holds."""
        return Unavailable(f"Another thread has held {self.path} for {wait_s:g} s. Try again.")

    def open_file(self) -> int:
        """Open or create the file; return -1 if it was removed meanwhile.

        Raises: Denied
        """
        try:
            fd = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE)
        except FileExistsError:
            try:
                return os.open(self._name, os.O_RDWR | os.O_NOFOLLOW)
            except FileNotFoundError:
                return -1
            except OSError as error:
                raise from_os_error(f"The lock file {self.path} cannot be opened", error) from error
        except OSError as error:
            raise from_os_error(f"The folder {self.path.parent} cannot be written", error) from error
        self.is_new = True
        return fd

    def _wait(self, wait_s: float, left_s: float) -> None:
        pause_s, before_s = _FIRST_PAUSE_S, time.monotonic()
        while not self._take():
            if left_s <= 0 and not holds.pauses:
                raise self.refusal(wait_s)
            time.sleep(pause_s * random.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            now_s = time.monotonic()
            if not holds.pauses:
                left_s -= min(now_s - before_s, _LONGEST_STEP_S)
            before_s = now_s

    def _take(self) -> bool:
        """Try to lock the file with this name, unless locks are paused."""
        while True:
            if self._fd < 0 and not self._open():
                continue
            self._register.add(self)
            if holds.pauses and self._is_counted and not holds.may_take(self._register):
                self._register.discard(self)
                return False
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._register.discard(self)
                return False
            except OSError as error:
                raise Unavailable(f"{self.path} cannot be locked: {error.strerror}.") from error
            if self.is_in_place():
                return True
            self.close()

    def _open(self) -> bool:
        """Open the file; return False if the caller must retry.

        A child that another thread forks between the two statements would inherit a descriptor that it does not know.
        """
        forks = _forks[0]
        self._fd = self.open_file()
        if self._fd < 0:
            return False
        if _forks[0] != forks:
            self.close()
            return False
        status = os.fstat(self._fd)
        self._file = (status.st_dev, status.st_ino)
        return True

    def forget(self) -> None:
        """Forget the lock in a forked child. The descriptor is closed but not unlocked: the parent holds the lock."""
        self.close()
        self._threads = threading.Lock()


@contextmanager
def shared_now(path: Path) -> Iterator[bool]:
    """Try to take a shared lock, and yield whether that was possible, because no process holds it exclusively.

    Raises: OSError when the file cannot be opened.
    """
    fd = os.open(path, os.O_RDONLY)
    _shared.add(fd)
    try:
        yield _is_shared(fd)
    finally:
        _shared.discard(fd)
        os.close(fd)


def _is_shared(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


_all: "weakref.WeakSet[FileLock]" = weakref.WeakSet()
_shared: set[int] = set()
_forks = [0]
"""The number of forks of this process and its ancestors."""


def _count_fork() -> None:
    _forks[0] += 1


def _forget_all() -> None:
    for lock in list(_all):
        lock.forget()
    for fd in _shared:
        os.close(fd)
    _shared.clear()
    holds.reset()


os.register_at_fork(after_in_parent=_count_fork, after_in_child=_forget_all)
