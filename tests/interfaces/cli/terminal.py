"""Commands called in this process, and what they print."""

import io
import json
import re
from typing import Any

import pytest

from perdure.interfaces.cli.errors import run


class Screen(io.StringIO):
    """Text that counts as a terminal."""

    def isatty(self) -> bool:
        return True

    @property
    def lines(self) -> list[str]:
        """The lines without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.getvalue()).splitlines()


class Terminal:
    """Calls commands, and remembers what the last one printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        code = run(arguments)
        self.out, self.err = self._capsys.readouterr()
        return code

    def json(self, *arguments: str) -> Any:
        self("--json", *arguments)
        assert self.err == ""
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    def goals(self, *arguments: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json("goal", "list", *arguments)["goals"]
        return found

    def newest(self) -> str:
        return str(self.goals()[0]["id"])
