"""What a saboteur types, leaves in a file or takes away: each time one sentence, and an exit code that fits."""

import json
import sys
from pathlib import Path

import pytest

from perdure.interfaces.cli.prompts.plain import read_number
from perdure.settings import load_settings
from tests.interfaces.cli.terminal import Terminal

LONG = "9" * 5_000
"""More digits than Python makes a number of."""


@pytest.mark.parametrize(
    "command",
    [
        ["run", "--", "true"],
        ["memory", "add", "--type", "lesson", "--title", "x", "--path", "a.py"],
        ["memory", "related", "--path", "a.py"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_current_folder_that_was_removed_is_named(
    perdure: Terminal, ready: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = ready / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert perdure(*command) == 3
    assert "The current folder has been removed" in perdure.err


@pytest.mark.parametrize("text", [f"jobs = {LONG}", "jobs = " + "[" * 5_000], ids=["digits", "nesting"])
def test_a_config_that_python_cannot_read_is_named_without_a_traceback(
    perdure: Terminal, ready: Path, text: str
) -> None:
    config = load_settings().home / "config.toml"
    config.write_text(text)
    assert perdure("goal", "list") == 2
    assert "is not valid TOML" in perdure.err
    assert "Traceback" not in perdure.err
    assert ready.exists()


def test_an_event_with_too_many_digits_is_refused(perdure: Terminal, ready: Path) -> None:
    assert ready.exists()
    perdure("run", "--", "true")
    assert perdure("goal", "fork", perdure.newest(), "--at", LONG) == 2
    assert "--at must be the seq of an event" in perdure.err


@pytest.mark.parametrize(
    ("text", "index"), [("1", 0), ("3", 2), ("03", 2), ("4", None), ("0", None), ("0" * 8 + "199", None)]
)
def test_only_the_number_of_a_choice_is_one(text: str, index: int | None) -> None:
    assert read_number(text, 3) == index


def test_a_step_that_prints_what_we_write_for_bytes_left_out_does_no_harm(perdure: Terminal, ready: Path) -> None:
    program = ready / "prints.py"
    program.write_text(f"print('[{LONG} bytes left out]')\nprint('x' * 2_000_000)\n")
    assert perdure("run", "--", sys.executable, str(program)) == 0


def test_a_pull_request_with_too_many_digits_keeps_no_other_record_out(perdure: Terminal, ready: Path) -> None:
    bad = {"type": "lesson", "title": "bad", "pr_number": LONG}
    good = {"type": "lesson", "title": "good", "pr_number": "#12"}
    lines = ready / "in.jsonl"
    lines.write_text("".join(json.dumps(each) + "\n" for each in (bad, good)))
    assert perdure("memory", "import", str(lines)) == 2
    assert "pr_number" in perdure.err + perdure.out
    assert [each["title"] for each in perdure.json("memory", "list")["records"]] == ["good"]


def test_a_new_token_leaves_no_code_behind(perdure: Terminal, ready: Path) -> None:
    assert ready.exists()
    perdure("token", "show")
    perdure("token", "url", "--port", "8765")
    home = load_settings().home
    assert list((home / "login-codes").iterdir())
    assert perdure("token", "rotate") == 0
    assert list((home / "login-codes").iterdir()) == []
