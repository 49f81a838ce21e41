"""What is printed of what the tools wrote and the model answered."""

import re
from pathlib import Path

import pytest

from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer, ScriptedCall
from tests.interfaces.cli.on_terminal import ESCAPES
from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_program import on_a_terminal

MORE = "head -c 1100000 /dev/zero | tr '\\0' a"


@pytest.mark.parametrize(("command", "name"), [(MORE, "stdout"), (f"({MORE}) >&2", "stderr")])
def test_it_is_said_how_much_of_an_output_is_missing(perdure: Terminal, command: str, name: str) -> None:
    assert perdure("run", "--shell", command) == 0
    assert f"\nstep command: 51424 bytes of its {name} were dropped" in perdure.err
    perdure("run", "--resume", perdure.newest())
    assert f"\nstep command: 51424 bytes of its {name} were dropped" in perdure.err


def test_an_answer_stays_on_lines_of_its_own_on_a_terminal(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(
        [ScriptedAnswer(calls=(ScriptedCall("recall", {"text": "x"}),)), ScriptedAnswer("Clear the cache.")]
    )
    with ModelServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        before, _, after = on_a_terminal("run", "--model", "openai:m", "What first?").partition("Clear the cache.")
    assert ready.exists()
    assert ESCAPES.sub("", re.split(r"\n|\x1b\[2K", before)[-1]).strip() == ""
    assert after.startswith("\r\n")
    assert "\x1b[1A" not in after, "nothing above is erased"
