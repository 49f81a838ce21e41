"""Handles Ctrl-C, SIGTERM and SIGHUP during a run: the first signal ends it after the step, the second at once."""

import asyncio
import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

from perdure.app.goals.values import Loop, ToolCall
from perdure.app.workers.run_context import KILL_AFTER_S

KINDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ENDING = "Stopping after the running step. Press Ctrl-C again to stop now."
INTERRUPTED = 130
_PATIENCE = 2
"""The number of signals, from the one that ends at once, after which the process exits without waiting."""
_ANSWER_S = 0.5
"""The time in which the event loop must respond; code that blocks it for longer is not waited for."""
_ENDING_S = 1.0
"""The time limit of an immediate end if no process of a tool has to be killed."""
_OVER = b"\0"


class Interrupts:
    """Handles the signals inside a block.

    The first signal stops the loop after its step; without a loop, it ends the run at once. A signal that ends at once
    cancels the task, which terminates the processes of tools; the next signal kills them; a further one exits the
    process. The process also exits if the event loop does not respond, or if ending takes too long because user code
    blocks it or ignores the cancellation. That is safe, because goals survive a kill. Signals are received by a thread,
    so that blocking code cannot delay them. A signal that was ignored at the start, as under nohup, stays ignored.
    """

    def __init__(self, say: Callable[[str], None], leave: Callable[[int], Any]) -> None:
        self.count = 0
        self._say = say
        self._leave = leave
        self._cancelled = 0
        self._loops: list[Loop] = []
        self._before: dict[signal.Signals, Any] = {}
        self._has_announced = False

    def watch(self, loop: Loop) -> None:
        """Stop this loop after its step at the first signal, or immediately if a signal was already received."""
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
    def delegate_to_loop(self) -> Iterator[None]:
        """Let the event loop handle the signals inside a block in which no goal runs; each signal cancels the task.

        A prompt sets its own handlers of the event loop. They take over the wake-up descriptor, so the thread would
        receive no signals during the prompt and after it.
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
        """End the run as an immediate signal does.

        Raises: CancelledError
        """
        self._interrupt()
        await asyncio.sleep(0)

    def _interrupt(self) -> None:
        self.count += 1
        self._cancelled += 1
        self._cancel()

    def forget(self) -> bool:
        """Return whether a signal cancelled the task, and withdraw that cancellation so that the task can report it."""
        if self._task is not None:
            for _ in range(self._cancelled):
                self._task.uncancel()
        return self._cancelled > 0

    def _listen(self) -> None:
        """Let the C-level signal handler write signals into a pipe, because Python code cannot delay it."""
        for kind in KINDS:
            before = signal.getsignal(kind)
            if before not in (signal.SIG_IGN, None):
                self._before[kind] = before
        if not self._before:
            return
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        self._fd_before = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for kind in self._before:
            signal.signal(kind, _ignore)
        self._thread = threading.Thread(target=self._receive_signals, name="perdure-signals", daemon=True)
        self._thread.start()

    def _stop_listening(self) -> None:
        for kind, before in self._before.items():
            signal.signal(kind, before)
        signal.set_wakeup_fd(self._fd_before)
        os.write(self._write_fd, _OVER)
        self._thread.join()
        os.close(self._write_fd)
        os.close(self._read_fd)

    def _receive_signals(self) -> None:
        """Handle the signals in order, on a thread; exit the process when an immediate end takes too long."""
        until_s: float | None = None
        while True:
            left_s = None if until_s is None else max(until_s - time.monotonic(), 0)
            if not select.select([self._read_fd], [], [], left_s)[0]:
                self._leave(INTERRUPTED)
                return
            number = os.read(self._read_fd, 1)
            if number == _OVER:
                return
            if number[0] in self._before:
                until_s = self._handle_signal()

    def _handle_signal(self) -> float | None:
        """Let the event loop act on a signal; return the deadline of that action."""
        self.count += 1
        if self.count == 1 and self._loops:
            if not self._run_on_loop(self._stop):
                self._announce_once()
            return None
        self._cancelled += 1
        if self._cancelled > _PATIENCE or not self._run_on_loop(self._cancel):
            return time.monotonic()
        return time.monotonic() + (_ENDING_S if self._only_steps_run() else KILL_AFTER_S + _ENDING_S)

    def _run_on_loop(self, ask: Callable[[], None]) -> bool:
        answered = threading.Event()

        def answer() -> None:
            ask()
            answered.set()

        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._running.call_soon_threadsafe(answer)
        return answered.wait(_ANSWER_S)

    def _stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        self._announce_once()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _announce_once(self) -> None:
        if not self._has_announced:
            self._has_announced = True
            self._say(ENDING)

    def _only_steps_run(self) -> bool:
        """Return whether only steps of flows run; terminating the processes of tools takes longer."""
        calls = [call.call for loop in self._loops for call in list(loop.state.open_calls.values()) if call.runs]
        return bool(self._loops) and all(isinstance(call, ToolCall) and call.tool == "step" for call in calls)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing; the C-level handler has written the signal into the pipe."""
