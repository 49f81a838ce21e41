"""Ctrl-C, SIGTERM and SIGHUP while a goal is run: the first ends after the step, the second at once."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Self

from perdure.kernel.loop import Loop

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDING = "Ending after the step that runs; once more ends at once."
INTERRUPTED = 130
_PATIENCE = 2
"""How many more may come, after the one that ends at once, before we leave whatever is still being ended."""


def _leave(exit_code: int) -> None:
    """Leave without tidying up, but for the cursor."""
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")
    os._exit(exit_code)


class Interrupts:
    """Takes the signals for the time of a block.

    Before there is a loop to stop, the first ends at once: nothing has begun. Those that end at once cancel the task,
    which ends the processes of every tool; the next one kills them; after that we leave. A signal that was ignored when
    we started, as under nohup, stays ignored.
    """

    def __init__(self, say: Callable[[str], None], leave: Callable[[int], Any] = _leave) -> None:
        self.count = 0
        self._say = say
        self._leave = leave
        self._cancelled = 0
        self._loop: Loop | None = None
        self._before: dict[signal.Signals, Any] = {}

    def stops(self, loop: Loop) -> None:
        """Let the first signal end this loop after its step."""
        self._loop = loop

    def __enter__(self) -> Self:
        self._running = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        if threading.current_thread() is threading.main_thread():
            for kind in KINDS:
                before = signal.getsignal(kind)
                if before not in (signal.SIG_IGN, None):
                    self._before[kind] = before
                    self._running.add_signal_handler(kind, self.interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for kind, before in self._before.items():
            self._running.remove_signal_handler(kind)
            signal.signal(kind, before)

    def interrupt(self) -> None:
        """Do what a signal asks for."""
        self.count += 1
        if self.count == 1 and self._loop is not None:
            self._loop.stop()
            self._say(ENDING)
            return
        self._cancelled += 1
        if self._cancelled > _PATIENCE:
            self._leave(INTERRUPTED)
        elif self._task is not None:
            self._task.cancel()

    def forget(self) -> bool:
        """Tell whether the task was cancelled by us; if so, it may go on to say so."""
        if self._task is not None:
            for _ in range(self._cancelled):
                self._task.uncancel()
        return self._cancelled > 0
