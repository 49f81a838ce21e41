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
_GRACE_S = 0.005
"""How long a stop that waits for no lock waits for a SIGCONT that was sent right behind it."""
_SAME_MOMENT_S = 0.01
"""Python runs the handlers of signals that arrive together in the order of their numbers: SIGCONT before SIGTSTP."""
_SHOW_CURSOR = b"\x1b[?25h"

_waiting: set[int] = set()
"""The process, while a stop waits in it. A second Ctrl-Z then changes nothing; a forked child has a pid of its own."""
_stopped: set[int] = set()
"""The process, from its stop until it has handled the SIGCONT that resumes it."""
_continued: dict[int, float] = {}
"""When the process last got a SIGCONT although it was not stopped."""


@contextlib.contextmanager
def stop_between_writes() -> Iterator[None]:
    """Handle terminal stops inside the block, unless they are ignored or handled already.

    SIGTTIN and SIGTTOU stay as they are: a handler would make the system call that caused them fail.
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
    """Withdraw a stop that waits, as the system does with one that it has not delivered yet."""
    pid = os.getpid()
    if pid in _stopped:
        _stopped.discard(pid)
    elif pid in _waiting:
        _waiting.discard(pid)
    else:
        _continued[pid] = time.monotonic()


def _on_stop(_number: int, _frame: object) -> None:
    """Stop now, or as soon as no lock is held. The main thread, which runs this, may hold one: it cannot wait here."""
    pid = os.getpid()
    if pid in _waiting or time.monotonic() - _continued.pop(pid, -_SAME_MOMENT_S) < _SAME_MOMENT_S:
        return
    _waiting.add(pid)
    token = holds.pause()
    if holds.is_quiet():
        time.sleep(_GRACE_S)
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
    while os.getpid() in _waiting and not holds.is_quiet():
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)
    return True


def _stop(token: object) -> None:
    """Stop the process until it is resumed, unless the stop is withdrawn.

    The signal goes to this thread: it does not return from the call before the process was stopped and resumed. One to
    the process may be taken by another thread, and this one would end the pause meanwhile.
    """
    pid = os.getpid()
    if pid in _waiting and os.isatty(2):
        with contextlib.suppress(OSError):
            os.write(2, _SHOW_CURSOR)  # the live view hides it
    if pid in _waiting:
        _waiting.discard(pid)
        _stopped.add(pid)
        signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
    holds.resume(token)
