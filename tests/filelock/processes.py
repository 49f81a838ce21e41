"""Forked children of the test itself, which share all that it has opened."""

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_WITHIN_S = 60.0


def in_a_fork(work: Callable[[], object]) -> int:
    """Do something in a forked child, and return its exit code: 0 when nothing was raised."""
    pid = os.fork()
    if pid == 0:
        _work(work)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextmanager
def stopped(work: Callable[[], object]) -> Iterator[int]:
    """Give the block a forked child that has done something, and then stopped."""

    def work_and_stop() -> None:
        work()
        os.kill(os.getpid(), signal.SIGSTOP)

    pid = os.fork()
    if pid == 0:
        _work(work_and_stop)
    try:
        os.waitpid(pid, os.WUNTRACED)
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def wait_for_state(pid: int, states: str) -> None:
    """Wait until a process is in one of some states: `T` is stopped."""
    deadline = time.monotonic() + _WITHIN_S
    while (state := state_of(pid)) not in states:
        assert state not in "ZX", "it has ended"
        assert time.monotonic() < deadline, f"it is {state}, not {states}"
        time.sleep(0.001)


def state_of(pid: int) -> str:
    """Return the state of a process as the system names it; X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "X"


def _work(work: Callable[[], object]) -> None:
    code = 1
    try:
        work()
        code = 0
    except BaseException:  # noqa: BLE001 (the exit code tells of it)
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
