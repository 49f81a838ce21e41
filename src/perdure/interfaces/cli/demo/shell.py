"""The shell of the demo: runs commands in a temporary folder, prints them with their output, and kills them."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

from perdure.errors import Unavailable
from perdure.setting_definitions import DEFINITIONS
from perdure.settings import Settings, load_settings

LEDGER = "ledger.txt"
WIDTH = 80
_INDENT = "  "
_TIMEOUT_S = 60.0
_POLL_S = 0.02
_PROGRAMS = {"python": [sys.executable], "perdure": [sys.executable, "-m", "perdure"]}


class Shell:
    """A folder with a home and a ledger, and the commands that run there."""

    def __init__(self, folder: Path, show: Callable[[str], None]) -> None:
        self.folder = folder
        self._show = show
        self._has_spoken = False
        self._work.mkdir()
        self._running: set[asyncio.subprocess.Process] = set()

    @property
    def settings(self) -> Settings:
        return load_settings({"home": str(self._home)}, environment={})

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of a command: the home of the demo, without variables that select another home."""
        ours = {name for definition in DEFINITIONS for name in definition.environment}
        kept = {name: value for name, value in os.environ.items() if name not in ours}
        return {**kept, "PERDURE_HOME": str(self._home), "COLUMNS": str(WIDTH - len(_INDENT)), "TERM": "dumb"}

    def say(self, text: str) -> None:
        """Show a sentence, wrapped."""
        self._show(("\n" if self._has_spoken else "") + textwrap.fill(text, WIDTH))
        self._has_spoken = True

    def show(self, text: str) -> None:
        """Show the output lines of a program, indented."""
        for line in text.rstrip().splitlines():
            indent = _INDENT + " " * (len(line) - len(line.lstrip()))
            if len(_INDENT + line) <= WIDTH:
                self._show(f"{_INDENT}{line}".rstrip())
            else:
                self._show(textwrap.fill(line.strip(), WIDTH, initial_indent=indent, subsequent_indent=indent))

    def write(self, name: str, text: str) -> None:
        """Write a file into the work folder."""
        (self._work / name).write_text(text, encoding="utf-8")

    def ledger(self) -> list[str]:
        """Return the lines that steps have written."""
        file = self._work / LEDGER
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    async def run(
        self, line: str, *arguments: str, shown: str | None = None, pick: Callable[[str], bool] | None = None
    ) -> tuple[int, str]:
        """Run a command, show it and its output, and return its exit code and output.

        With `pick`, only the lines for which it returns True are shown.
        """
        self.show(f"$ {shown or ' '.join((line, *arguments))}")
        program = await self.start(line, *arguments)
        async with asyncio.timeout(_TIMEOUT_S):
            printed, _ = await program.communicate()
        self._running.discard(program)
        output = printed.decode(errors="replace").replace(shlex.join(_PROGRAMS["perdure"]), "perdure")
        shown_lines = output.splitlines() if pick is None else [line for line in output.splitlines() if pick(line)]
        self.show("\n".join(shown_lines))
        return program.returncode or 0, output

    async def run_and_kill(self, line: str, *arguments: str, when: str, shown: str | None = None) -> int:
        """Start a command, wait for a line in the ledger, and kill the command with SIGKILL; return its pid.

        Raises: Unavailable when it ends without writing that line.
        """
        program = await self.start(line, *arguments)
        self.show(f"$ {shown or ' '.join((line, *arguments))} &   # pid {program.pid}")
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                while when not in self.ledger():
                    if program.returncode is not None:
                        raise Unavailable("The command of the demo ended before it could be killed.")
                    await asyncio.sleep(_POLL_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
            await program.communicate()
            self._running.discard(program)
        self.show(f"$ kill -9 {program.pid}   # the ledger says `{when}`; no outcome is recorded")
        self.show("Killed")
        return program.pid

    async def close(self) -> None:
        """Kill running commands."""
        for program in self._running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            await program.wait()

    async def start(self, line: str, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command in the work folder; `close` ends it, if it still runs."""
        name, *words = line.split()
        program = await asyncio.create_subprocess_exec(
            *_PROGRAMS[name],
            *words,
            *arguments,
            cwd=self._work,
            env=self.environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._running.add(program)
        return program

    @property
    def _home(self) -> Path:
        return self.folder / "home"

    @property
    def _work(self) -> Path:
        return self.folder / "work"
