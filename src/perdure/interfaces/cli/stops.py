"""Ctrl-Z (SIGTSTP): the process stops between two writes, not while it holds a lock that other processes wait for."""

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

from perdure.filelock.holds import holds

_PATIENCE_S = 4.0
"""How long a stop waits for all locks, also those that are held for a whole rewrite or restore."""
_LAST_PATIENCE_S = 1.0
"""How much longer it waits for the lock of one write; then the process stops in spite of it, as the user asked."""
_PAUSE_S = 0.001
_SHOW_CURSOR = b"\x1b[?25h"

_waiting: set[int] = set()
"""The process, while a stop waits in it. A second Ctrl-Z then changes nothing; a forked child has a pid of its own."""


@contextlib.contextmanager
def stop_between_writes() -> Iterator[None]:
    """Handle terminal stops inside the block, unless they are ignored or handled already.

    SIGTTIN and SIGTTOU stay as they are: a handler would make the system call that caused them fail.
    """
    is_ours = (
        threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
    )
    if is_ours:
        signal.signal(signal.SIGTSTP, _on_stop)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)


def _on_stop(_number: int, _frame: object) -> None:
    """Stop now, or as soon as no lock is held. The main thread, which runs this, may hold one: it cannot wait here."""
    if os.getpid() in _waiting:
        return
    _waiting.add(os.getpid())
    token = holds.pause()
    if holds.is_quiet():
        _stop(token)
        return
    try:
        _thread.start_new_thread(_stop_when_quiet, (token,))  # no lock of Python's is taken, which we may hold
    except RuntimeError:
        _stop(token)  # there can be no more threads


def _stop_when_quiet(token: object) -> None:
    if not _is_quiet_within(_PATIENCE_S):
        holds.pause_fully(token)
        _is_quiet_within(_LAST_PATIENCE_S)
    _stop(token)


def _is_quiet_within(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not holds.is_quiet():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _stop(token: object) -> None:
    """Stop the process until it is resumed.

    The signal goes to this thread: it does not return from the call before the process was stopped and resumed. One to
    the process may be taken by another thread, and this one would end the pause meanwhile.
    """
    if os.isatty(2):
        with contextlib.suppress(OSError):
            os.write(2, _SHOW_CURSOR)  # the live view hides it
    _waiting.discard(os.getpid())
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    holds.resume(token)
