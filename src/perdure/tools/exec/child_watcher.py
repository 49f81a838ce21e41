"""Waiting for a child of ours to end: the system tells, where it can, and a thread waits where it cannot."""

import asyncio
import os
import subprocess
import threading
from contextlib import suppress


class Burial:
    """Collects the exit code of a child as soon as it has ended, with or without a waiting caller."""

    def __init__(self, process: "subprocess.Popen[bytes]", pidfd: int | None) -> None:
        self._process = process
        self._pidfd = pidfd
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._is_lost = False
        if pidfd is not None:
            try:
                self._loop.add_reader(pidfd, self._bury)
            except BaseException:
                os.close(pidfd)
                raise
        else:
            threading.Thread(target=self._bury_from_thread, daemon=True).start()

    @property
    def exit_code(self) -> int | None:
        """The exit code, or minus the signal; None while it runs, or when other code of this process collected it."""
        return None if self._is_lost else self._process.returncode

    @property
    def has_ended(self) -> bool:
        """Whether the child has ended, its exit code known or not."""
        return self._process.returncode is not None

    async def wait(self) -> None:
        """Return when the child has ended."""
        await asyncio.shield(self._done)

    def hurry(self, timeout_s: float) -> None:
        """Wait here and now for a child that was killed; one that takes longer is buried when it is dead."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
            self._bury()

    def _take_code(self) -> None:
        """Take the exit code. Where other code of this process has waited for any child, `Popen` would say 0."""
        with suppress(AttributeError):  # a system without waitid
            try:
                if self._process.returncode is None:
                    os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                with self._process._waitpid_lock:  # type: ignore[attr-defined]  # noqa: SLF001 (another thread may be in `wait`)
                    self._is_lost = self._process.returncode is None
        self._process.wait()

    def _bury(self) -> None:
        self._take_code()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        if not self._done.done():
            self._done.set_result(None)

    def _bury_from_thread(self) -> None:
        self._take_code()
        with suppress(RuntimeError):  # the loop is closed, and no caller waits any more
            self._loop.call_soon_threadsafe(self._bury)


def pidfd_of(pid: int) -> int | None:
    """Return a file that is readable when a child of ours has ended; None where there is no such thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
