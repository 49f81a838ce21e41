"""Ctrl-Z (SIGTSTP): stops the process between writes, not while it holds a lock that other processes wait for."""

import _thread
import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

from perdure.filelock.holds import holds

_PATIENCE_S = 4.0
"""The time that a stop waits for all locks, including those of a whole rewrite or restore."""
_LAST_PATIENCE_S = 1.0
"""The additional wait for the lock of one write; after it, the process stops anyway."""
_PAUSE_S = 0.001
_GRACE_S = 0.005
"""The time that a stop without locks waits for a SIGCONT that was sent right after it."""
_SAME_MOMENT_S = 0.01
"""Python runs the handlers of signals that arrive together in the order of their numbers: SIGCONT before SIGTSTP."""
_SHOW_CURSOR = b"\x1b[?25h"

_pending: set[int] = set()
"""Contains the pid of this process while a stop is pending, so that a second Ctrl-Z is ignored.

The pid, and not a flag, because a forked child inherits this set, but not the pending stop.
"""
_stopped: set[int] = set()
"""Contains the pid of this process from its stop until it has handled the SIGCONT that resumes it."""
_continued: dict[int, float] = {}
"""By pid, the time of the last SIGCONT that arrived while no stop was in effect or pending."""


@contextlib.contextmanager
def stop_between_writes() -> Iterator[None]:
    """Handle terminal stops inside the block, unless they are already ignored or handled.

    SIGTTIN and SIGTTOU keep their handlers: a handler would make the system call that caused them fail.
    """
    handlers = {signal.SIGTSTP: _on_stop, signal.SIGCONT: _on_continue}
    is_ours = (
        threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
    )
    ours = [kind for kind in handlers if is_ours and signal.getsignal(kind) == signal.SIG_DFL]
    for kind in ours:
        signal.signal(kind, handlers[kind])
    try:
        yield
    finally:
        for kind in ours:
            signal.signal(kind, signal.SIG_DFL)


def _on_continue(_number: int, _frame: object) -> None:
    """Cancel a pending stop, as the system does with an undelivered one."""
    pid = os.getpid()
    if pid in _stopped:
        _stopped.discard(pid)
    elif pid in _pending:
        _pending.discard(pid)
    else:
        _continued[pid] = time.monotonic()


def _on_stop(_number: int, _frame: object) -> None:
    """Stop now, or as soon as no lock is held. The main thread, which runs this, may hold one: it cannot wait here."""
    pid = os.getpid()
    if pid in _pending or time.monotonic() - _continued.pop(pid, -_SAME_MOMENT_S) < _SAME_MOMENT_S:
        return
    _pending.add(pid)
    token = holds.pause()
    if holds.is_quiet():
        time.sleep(_GRACE_S)
        _stop(token)
        return
    try:
        _thread.start_new_thread(_stop_when_quiet, (token,))  # needs no lock of Python, which the main thread may hold
    except RuntimeError:
        _stop(token)  # no more threads can be started


def _stop_when_quiet(token: object) -> None:
    if not _is_quiet_within(_PATIENCE_S):
        holds.pause_fully(token)
        _is_quiet_within(_LAST_PATIENCE_S)
    _stop(token)


def _is_quiet_within(seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while os.getpid() in _pending and not holds.is_quiet():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _stop(token: object) -> None:
    """Stop the process until it is resumed, unless the stop is cancelled.

    The signal is sent to this thread, so that the call returns only after the process was stopped and resumed. A signal
    to the process could be handled by another thread, while this one already ends the pause.
    """
    pid = os.getpid()
    if pid in _pending and os.isatty(2):
        with contextlib.suppress(OSError):
            os.write(2, _SHOW_CURSOR)  # the live view hides it
    if pid in _pending:
        _pending.discard(pid)
        _stopped.add(pid)
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    holds.resume(token)
