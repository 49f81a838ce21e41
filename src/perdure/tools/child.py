"""A program that runs in a session of its own, let go only when it has been noted who it is."""

import asyncio
import errno
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from perdure.errors import Invalid
from perdure.tools.burial import Burial, pidfd_of
from perdure.tools.capture import Capture
from perdure.tools.command import Command, find_program
from perdure.tools.descriptors import restore_file_limit
from perdure.tools.processes import Birth, birth_of, end_session

PATIENCE_S = 0.5
"""How long those that a program leaves behind, and what they have to say, are waited for."""

_GATE = 'read -r PERDURE_GATE || exit 125; exec "$@" </dev/null'
"""Waits for a line. When we die before we write it, the program never starts."""

_SHELL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Child:
    """A program that was let go."""

    burial: Burial
    birth: Birth
    stdout: Capture
    stderr: Capture

    @property
    def exit_code(self) -> int | None:
        return self.burial.exit_code

    async def wait(self, timeout_s: float | None) -> bool:
        """Wait for the program, not for those it leaves behind; tell whether it ended in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.burial.wait()
        except TimeoutError:
            return False
        return True

    async def end(self, kill_after_s: float) -> None:
        """End all that is left, and read the rest of the output.

        Raises: Unavailable when the system does not let it end.
        """
        patience_s = 0.0 if self.exit_code is None else PATIENCE_S
        try:
            await end_session(self.birth, patience_s=patience_s, kill_after_s=kill_after_s)
            await self.burial.wait()
            self.stdout.drain()
            self.stderr.drain()
            if not (self.stdout.ended.done() and self.stderr.ended.done()):
                await asyncio.wait([self.stdout.ended, self.stderr.ended], timeout=PATIENCE_S)
        except asyncio.CancelledError:
            self.burial.hurry(PATIENCE_S)
            raise
        finally:
            self.stdout.close()
            self.stderr.close()


def start(command: Command, note: Callable[[Birth], None]) -> Child:
    """Start a program; it is let go when `note` has returned.

    Raises: NotFound; Denied; Invalid when it is given too much; OSError when the system starts no more; what `note`
    raises. Then nothing has run.
    """
    argv = _with_odd_names([find_program(command), *command.argv[1:]], command)
    stdout, stderr = Capture(), Capture()
    with stdout.writing_end() as out, stderr.writing_end() as err, _pipe() as (waiting, gate):
        process = _started(argv, command, (waiting, out, err))
        try:
            restore_file_limit(process.pid)
            birth = _known(process.pid)
            note(birth)
            burial = Burial(process, pidfd_of(process.pid))
            os.write(gate, b"\n")
        except BaseException:
            process.kill()
            process.wait()
            raise
    return Child(burial, birth, stdout, stderr)


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
        os.close(reading)
        os.close(writing)


def _known(pid: int) -> Birth:
    birth = birth_of(pid)
    if birth is None:
        raise ChildProcessError(f"process {pid} ended before it was let go")
    return birth


def _with_odd_names(argv: list[str], command: Command) -> list[str]:
    """Let `env` carry the variables that some shells drop, such as `a.b` or a function of bash."""
    odd = [f"{name}={value}" for name, value in command.environment.items() if not _SHELL_NAME.fullmatch(name)]
    return ["/usr/bin/env", *odd, *argv] if odd and "=" not in argv[0] else argv
