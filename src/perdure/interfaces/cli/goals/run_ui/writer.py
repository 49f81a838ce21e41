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
    """Does jobs one after the other on its own thread, and `tick` ten times a second in between, if there is one."""

    def __init__(self) -> None:
        self.tick: Job | None = None
        self.failure: OSError | None = None
        """Why standard output cannot be written any more; the goal itself continues."""
        self._stdout = sys.stdout
        """As it was: a flow whose prints go elsewhere meanwhile changes nothing here."""
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def do(self, job: Job) -> None:
        """Have something done soon; returns at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="perdure-writer", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def out(self, text: str) -> None:
        """Have a text written to standard output."""
        if text:
            self.do(lambda: self._write(text))

    def err(self, text: str) -> None:
        """Have a text written to standard error."""
        self.do(lambda: print(text, end="", file=sys.stderr, flush=True))

    async def drained(self) -> None:
        """Wait until everything was done that was asked for."""
        if self._thread is None:
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        self.do(tell)
        await done.wait()

    def wait(self, within_s: float) -> None:
        """Do the same on a thread that may wait, but not for long."""
        done = threading.Event()
        self.do(done.set)
        done.wait(within_s)

    async def finish(self, within_s: float) -> None:
        """Write what is pending, unless the terminal is stopped or the pipe has no reader; then close."""
        try:
            async with asyncio.timeout(within_s):
                await self.drained()
        except TimeoutError:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """End the thread after what was asked for; does not wait, because a terminal may be held for ever."""
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
                pass  # a terminal that has gone
            except Exception:  # a mistake in the display must not block the goal, nor the caller that waits for it
                log.exception("something could not be shown")

    def _write(self, text: str) -> None:
        if self.failure is None:
            try:
                write_out(text, self._stdout)
            except OSError as error:
                self.failure = error


def write_out(text: str, stdout: TextIO) -> None:
    """Write to standard output, past its buffer where there is a file behind it.

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
    """End the process as it is, when what was to be said has been, or cannot be said in time."""
    for stream in (sys.stdout, sys.stderr):
        writer.do(stream.flush)  # there, because a reader who does not read would hold us up
    writer.wait(within_s)
    if os.isatty(2):
        os.write(2, b"\x1b[?25h\n")
    os._exit(exit_code)


def _nothing() -> None:
    """Do nothing."""
