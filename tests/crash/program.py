"""The command line in a child that is forked warm: as real as a new interpreter, and much quicker."""

import os
import resource
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
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

    def wait_for_end(self) -> None:
        """Wait until it has ended."""
        self.process.join(60)

    def kill(self) -> None:
        """Kill what is left of it."""
        self.process.kill()
        self.process.join()
        self.process.close()
        self.said.close()

    def end(self) -> tuple[int | None, str]:
        """Wait for its end, and return the exit code and the rest of what it said."""
        with self.said:
            rest = self.said.read()
        return children.end_of(self.process), rest


def start(
    home: Path,
    folder: Path,
    arguments: Sequence[str],
    *,
    interrupted_at: str | None = None,
    killed_at: tuple[str, int] | None = None,
    stopped_at: tuple[str, Sequence[int]] | None = None,
    terminated_at: str | None = None,
    files: int | None = None,
) -> Program:
    """Start the program in a folder, where it may open so many files.

    It may press Ctrl-C itself, once, when it reaches a fail-point, or send itself SIGTERM, press Ctrl-Z at some hits of
    one, or die by SIGKILL at the nth hit.
    """
    blows: dict[str, Callable[[], None]] = {}
    if interrupted_at is not None:
        blows[interrupted_at] = _Blow(signal.SIGINT)
    if killed_at is not None:
        blows[killed_at[0]] = _Blow(signal.SIGKILL, killed_at[1])
    if stopped_at is not None:
        blows[stopped_at[0]] = _Blow(signal.SIGTSTP, *stopped_at[1])
    if terminated_at is not None:
        blows[terminated_at] = _Blow(signal.SIGTERM)
    ours, theirs = children.context().Pipe(duplex=False)
    process = children.context().Process(target=_main, args=(home, folder, arguments, blows, files, theirs))
    process.start()
    theirs.close()
    return Program(process, os.fdopen(os.dup(ours.fileno()), encoding="utf-8"))


def run(home: Path, folder: Path, *arguments: str) -> tuple[int | None, str]:
    """Run the program to its end."""
    return start(home, folder, arguments).end()


def _main(
    home: Path,
    folder: Path,
    arguments: Sequence[str],
    blows: Mapping[str, Callable[[], None]],
    files: int | None,
    pipe: Connection,
) -> None:
    os.chdir(folder)
    if files is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    os.environ |= {"PERDURE_HOME": str(home), "NO_COLOR": "1", "COLUMNS": "120"}
    os.dup2(pipe.fileno(), 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdout, sys.stderr = (os.fdopen(fd, "w", encoding="utf-8", buffering=1, closefd=False) for fd in (1, 2))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a terminal starts it
    sys.argv = ["perdure", *arguments]
    from perdure.interfaces.cli import main

    with ExitStack() as stack:
        for point, blow in blows.items():
            stack.enter_context(failpoints.armed(point, blow))
        main()


class _Blow:
    """Sends itself a signal at some hits."""

    def __init__(self, number: signal.Signals, *hits: int) -> None:
        self._number = number
        self._hits = hits or (1,)
        self._hit = 0

    def __call__(self) -> None:
        self._hit += 1
        if self._hit in self._hits:
            os.kill(os.getpid(), self._number)
