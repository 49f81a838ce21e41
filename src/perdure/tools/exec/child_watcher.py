"""Waits for the end of a child process: by a pidfd if the system supports it, else on a thread."""

import asyncio
import os
import subprocess
import threading
from contextlib import suppress


class ChildWatcher:
    """Collects the exit code of a child as soon as it has ended, with or without a waiting caller."""

    def __init__(self, process: "subprocess.Popen[bytes]", pidfd: int | None) -> None:
        self._process = process
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._is_lost = False
        if pidfd is not None:
            try:
                self._loop.add_reader(pidfd, self._reap)
            except BaseException:
                os.close(pidfd)
                raise
        else:
            threading.Thread(target=self._reap_from_thread, daemon=True).start()

    @property
    def exit_code(self) -> int | None:
        """The exit code, or the negative signal; None while it runs, or if other code of this process collected it."""
        return None if self._is_lost else self._process.returncode

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended, even if its exit code is unknown."""
        return self._process.returncode is not None

    async def wait(self) -> None:
        """Return when the child has ended."""
        await asyncio.shield(self._done)

    def hurry(self, timeout_s: float) -> None:
        """Wait synchronously for a killed child; one that takes longer is reaped later."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
            self._reap()

    def _take_code(self) -> None:
        """Collect the exit code. If other code of this process has collected it, `Popen` would report 0."""
        with suppress(AttributeError):  # a system without waitid
            try:
                if self._process.returncode is None:
                    os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                with self._process._waitpid_lock:  # type: ignore[attr-defined]  # noqa: SLF001 (another thread may be in `wait`)
                    self._is_lost = self._process.returncode is None
        self._process.wait()

    def _reap(self) -> None:
        self._take_code()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if not self._done.done():
            self._done.set_result(None)

    def _reap_from_thread(self) -> None:
        self._take_code()
        with suppress(RuntimeError):  # the loop is closed, and no caller waits
            self._loop.call_soon_threadsafe(self._reap)


def pidfd_of(pid: int) -> int | None:
    """Return a descriptor that becomes readable when a child ends; None if the system has no pidfds."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
