"""Ctrl-C, SIGTERM and SIGHUP while goals are run: the first ends after the step, the second at once."""

import asyncio
import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from perdure.kernel.events import ToolCall
from perdure.kernel.loop import Loop
from perdure.tools.exec.process_tree import KILL_AFTER_S

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDING = "Ending after the step that runs; once more ends at once."
INTERRUPTED = 130
_PATIENCE = 2
"""How many more may come, after the one that ends at once, before we leave whatever is still being ended."""
_ANSWER_S = 0.5
"""How long the event loop may take to answer; code that blocks it for longer is not waited for."""
_ENDING_S = 1.0
"""How long an end at once may take where no program has to be ended."""
_OVER = b"\0"


class Interrupts:
    """Takes the signals for the time of a block.

    Before there is a loop to stop, the first ends at once: nothing has begun. Those that end at once cancel the task,
    which ends the processes of every tool; the next one kills them; after that we leave. We also leave when the event
    loop does not answer, or the end takes too long, because code that is not ours blocks it or does not let itself be
    cancelled: a thread of its own hears the signals, and nothing is lost by going as if killed. A signal that was
    ignored when we started, as under nohup, stays ignored.
    """

    def __init__(self, say: Callable[[str], None], leave: Callable[[int], Any]) -> None:
        self.count = 0
        self._say = say
        self._leave = leave
        self._cancelled = 0
        self._loops: list[Loop] = []
        self._before: dict[signal.Signals, Any] = {}
        self._has_said = False

    def stops(self, loop: Loop) -> None:
        """Let the first signal end this loop after its step; one that comes later is told at once."""
        self._loops.append(loop)
        if self.count:
            loop.stop()

    def __enter__(self) -> Self:
        self._running = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        if threading.current_thread() is threading.main_thread():
            self._listen()
        return self

    def __exit__(self, *_: object) -> None:
        if self._before:
            self._stop_listening()

    @contextlib.contextmanager
    def left_to_loop(self) -> Iterator[None]:
        """Let the event loop handle the signals for the time of a block in which no goal runs: each cancels the task.

        A prompt sets handlers of the event loop for itself. They take the wake-up descriptor, so ours would hear
        nothing meanwhile, nor after it.
        """
        self._loops.clear()
        kinds = dict(self._before)
        if kinds:
            self._stop_listening()
        for kind in kinds:
            self._running.add_signal_handler(kind, self._interrupt)
        try:
            yield
        finally:
            for kind, before in kinds.items():
                self._running.remove_signal_handler(kind)
                signal.signal(kind, before)
            if kinds:
                self._listen()

    async def interrupt(self) -> None:
        """End as a signal that ends at once would.

        Raises: CancelledError
        """
        self._interrupt()
        await asyncio.sleep(0)

    def _interrupt(self) -> None:
        self.count += 1
        self._cancelled += 1
        self._cancel()

    def forget(self) -> bool:
        """Tell whether the task was cancelled by us; if so, it may go on to say so."""
        if self._task is not None:
            for _ in range(self._cancelled):
                self._task.uncancel()
        return self._cancelled > 0

    def _listen(self) -> None:
        """Have the signals written into a pipe by the system's own handler, which no code of anybody can hold up."""
        for kind in KINDS:
            before = signal.getsignal(kind)
            if before not in (signal.SIG_IGN, None):
                self._before[kind] = before
        if not self._before:
            return
        self._heard, self._told = os.pipe()
        os.set_blocking(self._told, False)
        self._fd_before = signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        for kind in self._before:
            signal.signal(kind, _taken)
        self._hearing = threading.Thread(target=self._hear, name="perdure-signals", daemon=True)
        self._hearing.start()

    def _stop_listening(self) -> None:
        for kind, before in self._before.items():
            signal.signal(kind, before)
        signal.set_wakeup_fd(self._fd_before)
        os.write(self._told, _OVER)
        self._hearing.join()
        os.close(self._told)
        os.close(self._heard)

    def _hear(self) -> None:
        """Take one signal after the other, on a thread of its own; leave when an end at once takes too long."""
        until_s: float | None = None
        while True:
            left_s = None if until_s is None else max(until_s - time.monotonic(), 0)
            if not select.select([self._heard], [], [], left_s)[0]:
                self._leave(INTERRUPTED)
                return
            number = os.read(self._heard, 1)
            if number == _OVER:
                return
            if number[0] in self._before:
                until_s = self._take()

    def _take(self) -> float | None:
        """Ask the event loop for what a signal wants; return when that must be over."""
        self.count += 1
        if self.count == 1 and self._loops:
            if not self._is_answered(self._stop):
                self._say_once()
            return None
        self._cancelled += 1
        if self._cancelled > _PATIENCE or not self._is_answered(self._cancel):
            return time.monotonic()
        return time.monotonic() + (_ENDING_S if self._only_steps_run() else KILL_AFTER_S + _ENDING_S)

    def _is_answered(self, ask: Callable[[], None]) -> bool:
        answered = threading.Event()

        def answer() -> None:
            ask()
            answered.set()

        with contextlib.suppress(RuntimeError):  # it is closed
            self._running.call_soon_threadsafe(answer)
        return answered.wait(_ANSWER_S)

    def _stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        self._say_once()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _say_once(self) -> None:
        if not self._has_said:
            self._has_said = True
            self._say(ENDING)

    def _only_steps_run(self) -> bool:
        """Tell whether all that runs are functions of flows; programs are ended first, which takes longer."""
        calls = [call.call for loop in self._loops for call in list(loop.state.open_calls.values()) if call.runs]
        return bool(self._loops) and all(isinstance(call, ToolCall) and call.tool == "step" for call in calls)


def _taken(_number: int, _frame: object) -> None:
    """Do nothing: the signal was written into the pipe."""
