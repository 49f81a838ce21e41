"""The command line in a child that is forked warm: as real as a new interpreter, and much quicker."""

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TextIO

from perdure import failpoints
from tests import children


@dataclass
class Program:
    """A `perdure` that runs; `said` is its standard error."""

    process: ForkServerProcess
    said: TextIO

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGINT)

    def wait_for(self, words: str) -> None:
        """Read on until it has said some words."""
        said = []
        for line in self.said:
            said.append(line)
            if words in line:
                return
        raise AssertionError(f"it never said {words!r}, but {''.join(said)!r}")

    def end(self) -> tuple[int | None, str]:
        """Wait for its end, and return the exit code and the rest of what it said."""
        with self.said:
            rest = self.said.read()
        return children.end_of(self.process), rest


def start(home: Path, folder: Path, arguments: Sequence[str], *, interrupted_at: str | None = None) -> Program:
    """Start the program in a folder; it may press Ctrl-C itself, once, when it reaches a fail-point."""
    ours, theirs = children.context().Pipe(duplex=False)
    process = children.context().Process(target=_main, args=(home, folder, arguments, interrupted_at, theirs))
    process.start()
    theirs.close()
    return Program(process, os.fdopen(os.dup(ours.fileno()), encoding="utf-8"))


def run(home: Path, folder: Path, *arguments: str) -> tuple[int | None, str]:
    """Run the program to its end."""
    return start(home, folder, arguments).end()


def _main(home: Path, folder: Path, arguments: Sequence[str], interrupted_at: str | None, pipe: Connection) -> None:
    os.chdir(folder)
    os.environ |= {"PERDURE_HOME": str(home), "NO_COLOR": "1", "COLUMNS": "120"}
    os.dup2(pipe.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout, sys.stderr = (os.fdopen(fd, "w", encoding="utf-8", buffering=1, closefd=False) for fd in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a terminal starts it
    sys.argv = ["perdure", *arguments]
    from perdure.interfaces.cli import main

    with ExitStack() as stack:
        if interrupted_at is not None:
            stack.enter_context(failpoints.armed(interrupted_at, _CtrlCOnce()))
        main()


class _CtrlCOnce:
    """Presses Ctrl-C the first time, and never again."""

    has_been = False

    def __call__(self) -> None:
        if not self.has_been:
            self.has_been = True
            os.kill(os.getpid(), signal.SIGINT)
