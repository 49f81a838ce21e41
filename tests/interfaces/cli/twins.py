"""Two homes with the same history: one that commands open, and one that a server process serves; their output compared.

What differs between any two homes is replaced by words: ids, moments, marks of files, the folder of the home, and the
option that names the one or the other.
"""

import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from perdure.app.access.token import read_token
from perdure.interfaces.cli.errors import run

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?")
_MARK = re.compile(r"\b(\d+)-[0-9a-f]{16}\b")
_PREFIX = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f-]{6,21}\b")
_ELAPSED = re.compile(r'("response_time_ms": )[0-9.]+')
MODEL = {"OLLAMA_HOST": "http://127.0.0.1:1"}
"""A model that both homes find in their environment; nothing is asked of it."""
_AT_SERVER = re.compile(r"Its files are in the home of \S+:\n")


@dataclass(frozen=True)
class Printed:
    """What a command has printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return [f"exit {self.code}", *self.out.splitlines(), "--", *self.err.splitlines()]


class Side:
    """Commands that work with one of the two homes."""

    def __init__(self, home: Path, options: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.home = home
        self._options = options
        self._environment = environment

    def __call__(self, *arguments: str) -> Printed:
        """Call a command, and return what it has printed."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patch:
            for name, value in self._environment.items():
                patch.setenv(name, value)
            code = run([*arguments, *self._options])
        return Printed(code, out.getvalue(), err.getvalue())

    def neutral(self, printed: Printed) -> Printed:
        """Return what was printed without what differs between any two homes."""
        ids: dict[str, str] = {}

        def word(text: str) -> str:
            text = text.replace(" ".join(self._options), "--PLACE")
            text = _AT_SERVER.sub("", text).replace(f"{self.home}/", "")
            text = _UUID.sub(lambda found: ids.setdefault(found[0], f"ID-{len(ids) + 1}"), text)
            text = _PREFIX.sub("PREFIX", text)
            return _ELAPSED.sub(r"\1MS", _MARK.sub(r"\1-MARK", _MOMENT.sub("MOMENT", text)))

        return Printed(printed.code, word(printed.out), word(printed.err))


@dataclass(frozen=True)
class Twins:
    """The same commands with a home, and with the server of another one."""

    home: Side
    server: Side

    def same(self, *arguments: str) -> Printed:
        """Call a command on both sides, and return what the server's printed, which is what the home's did."""
        return self.same_of(arguments, arguments)

    def same_of(self, here: tuple[str, ...], there: tuple[str, ...]) -> Printed:
        """Do that with commands that name ids, of which each side has its own."""
        at_home, at_server = self.home(*here), self.server(*there)
        expected, found = self.home.neutral(at_home), self.server.neutral(at_server)
        if found != expected:
            pytest.fail("\n".join(unified_diff(expected.lines, found.lines, "home", "server", lineterm="", n=0)))
        return at_server

    def each(self, *arguments: str) -> tuple[Any, Any]:
        """Return the objects that a command prints with the home and with the server."""
        return self.home(*arguments, "--json").json, self.server(*arguments, "--json").json


@contextmanager
def twins(folder: Path) -> Iterator[Twins]:
    """Make two homes, and serve the second one in a process of its own for the time of the block."""
    served = folder / "served"
    # `-m perdure` as anybody would start it; it prints one line of JSON as soon as it listens
    command = [sys.executable, "-m", "perdure", "serve", "--port", "0", "--home", str(served), "--json"]
    environment = {**MODEL, "PERDURE_HOME": str(folder / "neither")}
    with (
        (folder / "server.log").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder, env={**os.environ, **environment}
        ) as server,
    ):
        try:
            assert server.stdout is not None
            url = json.loads(server.stdout.readline())["url"]
            shown = {**environment, "PERDURE_TOKEN": read_token(served)}
            home = folder / "home"
            yield Twins(Side(home, ("--home", str(home)), shown), Side(served, ("--url", url), shown))
            assert not (folder / "neither").exists()
        finally:
            server.terminate()
            server.wait(30)
