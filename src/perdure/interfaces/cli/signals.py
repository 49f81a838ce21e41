"""Handles Ctrl-C, SIGTERM and SIGHUP at the start and the end of a command. Imported before all other modules."""

import os
import signal
import sys
import threading

_PATIENCE_S = 2.0


def leave_soon(exit_code: int) -> None:
    """Keep the exit code of a finished command when a late signal arrives; all output is written already.

    At exit, Python waits for running threads, such as those of a flow: here, for a short time only, and a signal ends
    the wait. It also joins child processes of `multiprocessing`, which a flow may have left on purpose, without a time
    limit; a signal ends that wait, too.
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
    """Return whether child processes of `multiprocessing` still run; the module is not imported for that."""
    module = sys.modules.get("multiprocessing")
    return module is not None and bool(module.active_children())


_received: list[int] = []
"""The signals that interrupted the command."""


def interrupted_code() -> int:
    """Return the exit code of an interrupted command: 130, but 0 for SIGTERM to a server that is starting.

    A running server handles SIGTERM itself, and exits with 0, too.
    """
    is_server = _words(sys.argv[1:])[:1] == ["serve"]
    return 0 if is_server and _received[-1:] == [signal.SIGTERM] else 130


def _words(arguments: list[str]) -> list[str]:
    """Return the arguments that are neither options nor values of --home or --url."""
    places = {at + 1 for at, argument in enumerate(arguments) if argument in ("--home", "--url")}
    return [word for at, word in enumerate(arguments) if at not in places and not word.startswith("-")]


def end_like_interrupt() -> None:
    """Let SIGTERM and SIGHUP end the command as Ctrl-C does, unless the parent process ignores them."""

    def end(number: int, _frame: object) -> None:
        _received.append(number)
        raise KeyboardInterrupt

    for kind in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(kind) is signal.SIG_DFL:
            signal.signal(kind, end)
