"""A thread that writes to the terminal or the pipe, so that a slow reader does not block the goal."""

import asyncio
import contextlib
import logging
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from typing import TextIO

Job = Callable[[], None]
TICK_S = 0.1
log = logging.getLogger(__name__)


class Writer:
    """Runs jobs in order on its own thread, and `tick`, if set, ten times a second between them."""

    def __init__(self) -> None:
        self.tick: Job | None = None
        self.failure: OSError | None = None
        """The error of standard output, after which nothing more is written there; the goal itself continues."""
        self._stdout = sys.stdout
        """The stream at the start; redirecting the prints of a flow does not affect it."""
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, job: Job) -> None:
        """Queue a job and return at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="perdure-writer", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def out(self, text: str) -> None:
        """Queue a text for standard output."""
        if text:
            self.do(lambda: self._write(text))

    def err(self, text: str) -> None:
        """Queue a text for standard error."""
        self.do(lambda: print(text, end="", file=sys.stderr, flush=True))

    async def drain(self) -> None:
        """Wait until all queued jobs are done."""
        if self._thread is None:
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def signal_done() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        self.do(signal_done)
        await done.wait()

    def wait(self, within_s: float) -> None:
        """Block this thread until all queued jobs are done, at most for a time."""
        done = threading.Event()
        self.do(done.set)
        done.wait(within_s)

    async def finish(self, within_s: float) -> None:
        """Write pending text within a time limit, because a stopped terminal or a full pipe may block; then close."""
        try:
            async with asyncio.timeout(within_s):
                await self.drain()
        except TimeoutError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """End the thread after the queued jobs, without waiting: a stopped terminal may block it forever."""
        if self._thread is not None:
            self._jobs.put(None)

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=TICK_S if self.tick else None)
            except queue.Empty:
                job = self.tick or _nothing
            if job is None:
                return
            try:
                job()
            except OSError:
                pass  # the terminal is closed
            except Exception:  # a bug in the display must not block the goal, nor a caller that waits for the jobs
                log.exception("the display failed")

    def _write(self, text: str) -> None:
        if self.failure is None:
            try:
                write_out(text, self._stdout)
            except OSError as error:
                self.failure = error


def write_out(text: str, stdout: TextIO) -> None:
    """Write to standard output, bypassing its buffer if it has a file descriptor.

    Raises: OSError
    """
    stdout.flush()
    try:
        fd = stdout.fileno()
    except (OSError, ValueError):
        stdout.write(text)
        stdout.flush()
        return
    data = text.encode(stdout.encoding, stdout.errors or "strict")
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            select.select([], [fd], [])


def leave(exit_code: int, writer: Writer, within_s: float) -> None:
    """Exit the process without cleanup, after the queued text was written or the time is over."""
    for stream in (sys.stdout, sys.stderr):
        writer.do(stream.flush)  # on that thread, because a blocked reader would delay the exit
    writer.wait(within_s)
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")
    os._exit(exit_code)


def _nothing() -> None:
    """Do nothing."""
