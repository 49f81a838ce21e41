"""Ctrl-C, SIGTERM and SIGHUP: how they end a command, and what a late one does. Imported before all other modules."""

import os
import signal
import sys
import threading

_PATIENCE_S = 2.0


def leave_soon(exit_code: int) -> None:
    """Let a late signal change nothing about how a command ended: all output is written.

    Python waits for threads that are still at work, such as those of a flow, or a copy of a file. It may do so for a
    moment only, and a signal ends that at once. It also joins children of `multiprocessing`, which a flow may have left
    on purpose, for as long as they run; a signal ends that too.
    """
    has_threads = any(not thread.daemon and thread is not threading.main_thread() for thread in threading.enumerate())
    is_last = not has_threads and not _has_children()
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(kind, signal.SIG_IGN if is_last else lambda _number, _frame: os._exit(exit_code))
    if has_threads:
        leaving = threading.Timer(_PATIENCE_S, os._exit, [exit_code])
        leaving.daemon = True
        leaving.start()


def _has_children() -> bool:
    """Tell whether `multiprocessing` has started processes that still run; without it, it is not imported."""
    module = sys.modules.get("multiprocessing")
    return module is not None and bool(module.active_children())


_heard: list[int] = []
"""The signals that have ended the command."""


def interrupted_code() -> int:
    """Return the exit code of a command that a signal has ended: 0 for SIGTERM to a server that is starting.

    Once it runs, it handles SIGTERM itself, and exits with 0 too.
    """
    is_server = _words(sys.argv[1:])[:1] == ["serve"]
    return 0 if is_server and _heard[-1:] == [signal.SIGTERM] else 130


def _words(arguments: list[str]) -> list[str]:
    """Return what is neither an option nor the value of --home or --url."""
    places = {at + 1 for at, argument in enumerate(arguments) if argument in ("--home", "--url")}
    return [word for at, word in enumerate(arguments) if at not in places and not word.startswith("-")]


def end_like_interrupt() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, unless the parent process has them ignored."""

    def end(number: int, _frame: object) -> None:
        _heard.append(number)
        raise KeyboardInterrupt

    for kind in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(kind) is signal.SIG_DFL:
            signal.signal(kind, end)
