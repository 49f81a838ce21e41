"""Starts a program in its own session, after its identity was recorded."""

import asyncio
import errno
import os
import re
import subprocess
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from perdure.errors import Invalid, Unavailable
from perdure.file_limit import restore_file_limit
from perdure.tools.exec.capture import Capture
from perdure.tools.exec.child_watcher import ChildWatcher, pidfd_of
from perdure.tools.exec.command import Command, find_program
from perdure.tools.exec.process_tree import CallTree
from perdure.tools.exec.processes import ProcessIdentity, identity_of

PATIENCE_S = 0.5
"""How long to wait for processes that a program leaves behind, and for their output."""

_GATE = 'read -r PERDURE_GATE || exit 125; exec "$@" </dev/null'
"""Waits for a line. If the worker dies before it writes the line, the program never starts."""

_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Child:
    """A started program."""

    watcher: ChildWatcher
    tree: CallTree
    stdout: Capture
    stderr: Capture

    @property
    def exit_code(self) -> int | None:
        return self.watcher.exit_code

    @property
    def has_ended(self) -> bool:
        return self.watcher.has_ended

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait for the program, but not for its descendants; return whether it ended in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.watcher.wait()
        except TimeoutError:
            return False
        return True

    async def end(self, kill_after_s: float) -> Unavailable | None:
        """End all remaining processes, and read the rest of the output; return the error if some may still run."""
        patience_s = PATIENCE_S if self.has_ended else 0.0
        unended = None
        try:
            try:
                await self.tree.end(patience_s=patience_s, kill_after_s=kill_after_s)
                await self.watcher.wait()
            except Unavailable as error:
                unended = error
            self.stdout.drain()
            self.stderr.drain()
            if not (self.stdout.ended.done() and self.stderr.ended.done()):
                await asyncio.wait([self.stdout.ended, self.stderr.ended], timeout=PATIENCE_S)
        except asyncio.CancelledError:
            self.watcher.hurry(PATIENCE_S)
            raise
        finally:
            self.stdout.close()
            self.stderr.close()
        return unended


def start(command: Command, marks: Collection[str], note: Callable[[ProcessIdentity], None]) -> Child:
    """Start a program with the marks in its environment; it runs after `note` has returned.

    After any exception, the program has not run: everything that may fail comes before the gate is opened.

    Raises: NotFound; Denied; Invalid when the arguments are too large; OSError, RuntimeError or MemoryError when the
    system has no more descriptors, processes, threads or memory; the exception of `note`.
    """
    argv = _with_odd_names([find_program(command), *command.argv[1:]], command)
    stdout, stderr = Capture(), Capture()
    with stdout.writing_end() as out, stderr.writing_end() as err, _pipe() as (waiting, gate):
        process = _started(argv, command, (waiting, out, err))
        try:
            restore_file_limit(process.pid)
            identity = _known(process.pid)
            tree = CallTree(identity, marks, is_child=True)
            note(identity)
            begun = Child(ChildWatcher(process, pidfd_of(process.pid)), tree, stdout, stderr)
            os.write(gate, b"\n")
        except BaseException:
            process.kill()
            process.wait()
            raise
    return begun


def _started(argv: list[str], command: Command, files: tuple[int, int, int]) -> "subprocess.Popen[bytes]":
    stdin, stdout, stderr = files
    try:
        return subprocess.Popen(
            ("/bin/sh", "-c", _GATE, "perdure", *argv),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=command.cwd,
            env=command.environment,
            start_new_session=True,
        )
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise Invalid(_too_much(argv, command)) from error
        raise


def _too_much(argv: list[str], command: Command) -> str:
    given = sum(len(os.fsencode(text)) for text in argv)
    environment = sum(len(os.fsencode(text)) for item in command.environment.items() for text in item)
    return (
        f"{given} bytes of arguments and {environment} of environment are more than this system gives to a program. "
        "Put what is large into a file."
    )


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        for end in (reading, writing):
            with suppress(OSError):  # the program may run by now, and the other end is closed in any case
                os.close(end)


def _known(pid: int) -> ProcessIdentity:
    identity = identity_of(pid)
    if identity is None:
        raise ChildProcessError(f"process {pid} ended before it was started")
    return identity


def _with_odd_names(argv: list[str], command: Command) -> list[str]:
    """Pass variables that some shells drop, such as `a.b` or functions of bash, through `env`."""
    odd = [f"{name}={value}" for name, value in command.environment.items() if not _SHELL_NAME.fullmatch(name)]
    return ["/usr/bin/env", *odd, *argv] if odd and "=" not in argv[0] else argv
