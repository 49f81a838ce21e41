"""`perdure` at a real terminal: a process with a pseudo-terminal of its own."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from perdure.interfaces.cli import main
from tests import children

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\x1b\][^\x07]*\x07")
ERASED = re.compile(r"\x1b\[[0-3]?J")
"""Erases what a list had drawn: what comes next begins a line for a person, whichever keys were drawn before."""
UP, DOWN, LEFT, ENTER, ESC = "\x1b[A", "\x1b[B", "\x1b[D", "\r", "\x1b"
CTRL_C, CTRL_D = "\x03", "\x04"
PATIENCE_S = 30


def plain_text(raw: bytes) -> str:
    """Return what a terminal was sent as text, with what follows an erased part on a line of its own."""
    return ESCAPES.sub("", ERASED.sub("\n", raw.decode(errors="ignore")))


class Program:
    """`perdure` in a process and on a terminal of its own; its standard output goes into a file."""

    def __init__(
        self, arguments: tuple[str, ...], out: Path, *, width: int = 100, term: str = "xterm-256color"
    ) -> None:
        self._terminal, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        environment["TERM"] = term
        self._out = out
        self.process = children.context().Process(
            target=_program, args=(["perdure", *arguments], os.ttyname(its), str(out), environment, str(Path.cwd()))
        )
        self.process.start()
        self._read(time.monotonic() + PATIENCE_S)  # the child has the terminal now
        os.close(its)
        self.seen = ""

    def until(self, text: str) -> str:
        """Wait until something is shown, and return all that was shown since the last time."""
        raw, deadline = b"", time.monotonic() + PATIENCE_S
        while text not in (plain := plain_text(raw)):
            some = self._read(deadline)
            assert some, f"{text!r} was never shown, but: {plain}"
            raw += some
        self.seen += raw.decode(errors="ignore")
        return plain

    def press(self, *keys: str) -> None:
        for key in keys:
            os.write(self._terminal, key.encode())

    def end(self) -> tuple[int, str, str]:
        """Wait for the end; return its exit code, what was shown at last, and its standard output."""
        raw, deadline = b"", time.monotonic() + PATIENCE_S
        while some := self._read(deadline):
            raw += some
        shown = plain_text(raw)
        self.process.join(max(deadline - time.monotonic(), 1))
        code = self.process.exitcode
        assert code is not None, "it did not end"
        return code, shown, self._out.read_text()

    def kill(self, kind: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, kind)

    def close(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join(PATIENCE_S)
        self.process.close()
        os.close(self._terminal)

    def _read(self, deadline: float) -> bytes:
        if not select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))[0]:
            return b""
        try:
            return os.read(self._terminal, 65536)
        except OSError:
            return b""  # Linux says so when the last writer has gone


def _program(arguments: list[str], terminal: str, out: str, environment: dict[str, str], folder: str) -> None:
    """Be the program, in a child that has imported all it needs."""
    os.setsid()
    its = os.open(terminal, os.O_RDWR)
    printed = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, source in ((0, its), (1, printed), (2, its)):
        os.dup2(source, number)
    os.write(2, b" ")
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)
    main()


Start = Callable[..., Program]
