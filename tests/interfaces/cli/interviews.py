"""Interviews from a list of answers, for tests of the commands of Forge."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.interfaces.cli.terminal import Terminal

YES = {"confirm": True}
FIRST = {"option_index": 0}
SECOND = {"option_index": 1}
WISH = "I want a coding assistant"
MODEL = "ollama:llama3.2"


def said(text: str) -> dict[str, str]:
    return {"free_text": text}


def coding(name: str = "Ada", tone: Any = SECOND) -> list[Any]:
    """Answers to all that is asked about a coding assistant: basics, personality, model, skills, and yes."""
    return [said(name), FIRST, FIRST, tone, SECOND, said(MODEL), FIRST, YES]


def written(answers: object, name: str = "answers.json") -> str:
    """Write answers into the current folder, and return the name of the file."""
    Path(name).write_text(json.dumps(answers))
    return name


def forged(perdure: Terminal, *arguments: str, answers: Sequence[Any] | None = None) -> dict[str, Any]:
    """Make or change a bot, and return what became of it."""
    how = ["--yes"] if answers is None else ["--answers", written(answers)]
    found: dict[str, Any] = perdure.json("new", *(arguments or (WISH,)), *how)
    assert "result" in found, found
    result: dict[str, Any] = found["result"]
    return result


def begun(perdure: Terminal, *answers: Any, wish: str = WISH) -> str:
    """Leave a draft after some answers, and return its id."""
    assert perdure("new", wish, "--answers", written(list(answers))) == 2
    return str(perdure.json("draft", "list", "--limit", "1")["drafts"][0]["session_id"])


def front_of(path: Path) -> dict[str, Any]:
    """The front matter of a file."""
    found: dict[str, Any] = yaml.safe_load(path.read_text().split("---\n")[1])
    return found
