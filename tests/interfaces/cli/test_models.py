"""`perdure model`."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.extras import install_command
from perdure.interfaces.cli.errors import run
from perdure.minds.model.providers import choice
from perdure.testing.model_server import ModelServer, ScriptedAnswer
from perdure.testing.model_server.script import Order
from tests.interfaces.cli.on_terminal import ENTER, Start

KEY = "sk-canary-5f1d"


@pytest.fixture
def answer_order() -> Order:
    return "requests"


@pytest.fixture
def model_key() -> str | None:
    return None


def give(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def answered(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert run(["model", *arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_models_are_a_table_with_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:4] == ["model", "status", "from", "window"]
    assert lines[1].startswith("openai:gpt-4.1-mini")
    assert "needs a key" in lines[1]
    assert "  openai:gpt-4.1-mini: perdure model login openai" in lines
    assert [model["provider"] for model in answered(capsys, "list")["models"]][:2] == ["openai", "anthropic"]


def test_a_key_is_read_from_standard_input_and_never_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, f"{KEY}\n")
    assert run(["model", "login", "openai"]) == 0
    said = capsys.readouterr()
    assert (tmp_path / "home" / "secrets" / "OPENAI_API_KEY").read_text() == f"{KEY}\n"
    assert "  perdure model test openai:gpt-4.1-mini" in said.out.splitlines()
    assert "  perdure model default openai:gpt-4.1-mini" in said.out.splitlines()
    log = (tmp_path / "home" / "logs" / "perdure.log").read_text()
    assert KEY not in said.out + said.err + log
    give(monkeypatch, f"{KEY}\n")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    found = answered(capsys, "login", "openai")
    assert (found["secret"], found["overridden_by"]) == ("OPENAI_API_KEY", "OPENAI_API_KEY")
    assert answered(capsys, "logout", "openai")["overridden_by"] == "OPENAI_API_KEY"
    assert run(["model", "logout", "openai"]) == 3
    assert "No key of openai is stored." in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "\n", "short\n", "with blanks inside\n"])
def test_what_is_no_key_is_not_stored(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, text)
    assert run(["model", "login", "openai"]) == 2
    assert not (tmp_path / "home" / "secrets").exists()
    assert not text.strip() or text.strip() not in capsys.readouterr().err


def test_a_key_is_never_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "login", "openai", KEY]) == 2
    assert run(["model", "login", "openai", "--key", KEY]) == 2
    assert "canary" not in capsys.readouterr().out


def test_on_a_terminal_the_key_is_typed_without_being_shown(start: Start, tmp_path: Path) -> None:
    program = start("model", "login", "openai")
    program.until("Key of openai (not shown): ")
    program.press(KEY, ENTER)
    code, shown, printed = program.end()
    assert code == 0
    assert "Stored the key of openai" in printed
    assert KEY not in program.seen + shown + printed
    assert (tmp_path / "home" / "secrets" / "OPENAI_API_KEY").read_text() == f"{KEY}\n"


def test_a_model_is_tried(model_server: ModelServer, capsys: pytest.CaptureFixture[str]) -> None:
    model_server.script.add(ScriptedAnswer("ready"), ScriptedAnswer("ready"))
    assert run(["model", "test", "openai:gpt-4.1-mini"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("openai:gpt-4.1-mini answered 'ready' in ")
    assert second.endswith(" USD.")
    assert answered(capsys, "test", "openai:gpt-4.1-mini")["text"] == "ready"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "openai:m answered with status 401: No. Run `perdure model login openai`."),
        (404, "openai:m answered with status 404: No. Run `perdure model list`."),
        (503, "openai:m answered with status 503: No."),
    ],
)
def test_a_model_that_does_not_answer_is_exit_code_8(
    status: int, said: str, model_server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model_server.script.add(ScriptedAnswer(status=status, message="No."))
    assert run(["model", "test", "openai:m"]) == 8
    assert capsys.readouterr().err == f"perdure: {said}\n"


def test_without_a_model_it_is_said_how_to_connect_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "test"]) == 8
    assert capsys.readouterr().err.replace("\n", " ") == (
        "perdure: No model is configured. `perdure model list` shows the providers; set one:"
        " perdure model default PROVIDER:NAME "
    )
    assert run(["model", "default"]) == 0
    assert capsys.readouterr().out == "No model is configured. Set one: perdure model default PROVIDER:NAME\n"


@pytest.mark.parametrize("name", ["PROVIDER", "foo", "foo:bar"])
def test_an_unknown_provider_is_refused_with_the_known_ones(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    give(monkeypatch, f"{KEY}\n")
    assert run(["model", "login", name]) == 2
    assert f"Unknown provider '{name.partition(':')[0]}'. Providers: openai, " in capsys.readouterr().err
    assert run(["model", "default", "foo:bar"]) == 2
    assert "Unknown provider 'foo'. Providers: openai, " in capsys.readouterr().err
    assert not (tmp_path / "home" / "config.toml").exists()
    assert run(["model", "default", "groq:llama"]) == 0, "known, whether its package is installed or not"


def test_a_model_without_a_key_is_not_called_ready(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "list"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("ollama:"))
    assert "  needs no key  " in line


def test_a_missing_extra_is_listed_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(choice, "PACKAGES", {**choice.PACKAGES, "models": ("no_such_package",)})
    (openai, *_) = answered(capsys, "list")["models"]
    assert (openai["missing"], openai["next"]) == ("the extra 'models'", install_command("models"))


WITHOUT_PACKAGES = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pydantic_ai", "openai", "anthropic", "genai_prices", "httpx2", "xllamacpp"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from perdure.interfaces.cli import main
sys.argv = ["perdure", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["model", "test", "openai:m"],
            8,
            f"needs the extra 'models', which is not installed. Run `{install_command('models')}`.",
        ),
        (["model", "test", "anthropic:m"], 8, install_command("anthropic")),
        (["model", "test", "groq:m"], 8, install_command("models", "pydantic-ai-slim[groq]")),
        (["model", "test", f"gguf:{__file__}"], 8, install_command("local")),
        (["model", "list"], 0, "needs the extra 'models'"),
        (["doctor"], 0, "models"),
    ],
)
def test_without_the_packages_every_command_works_or_says_what_to_install(
    arguments: list[str], code: int, said: str
) -> None:
    environment = {**os.environ, "OPENAI_BASE_URL": "http://127.0.0.1:1"}
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_PACKAGES, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert ended.returncode == code, ended.stderr
    assert said in (ended.stdout + ended.stderr).replace("\n", " ")
    assert "Traceback" not in ended.stderr


def test_the_default_is_set_and_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["model", "default", "openai:gpt-4.1-mini"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Goals that name no model use openai:gpt-4.1-mini from now on.",
        "It needs a key:",
        "  perdure model login openai",
    ]
    assert answered(capsys, "default") == {"default": "openai:gpt-4.1-mini"}
    monkeypatch.setenv("PERDURE_MODEL", "ollama:qwen3")
    assert run(["model", "default", "openai:gpt-5"]) == 0
    assert "The variable PERDURE_MODEL is set, and takes precedence." in capsys.readouterr().out
    assert run(["model", "default", "gpt-5"]) == 2


LOADED = """
import sys
from perdure.interfaces.cli import main
packages = {"pydantic_ai", "openai", "anthropic", "genai_prices", "httpx2", "pydantic"}
for command in ["--version"], ["goal", "list"], ["model", "default"], ["run", "--", "echo", "hello"]:
    sys.argv = ["perdure", *command]
    try:
        main()
    except SystemExit as end:
        assert not end.code, command
    loaded = packages & {name.partition(".")[0] for name in sys.modules}
    assert not loaded, (command, loaded)
print("all", file=sys.stderr)
"""


def test_commands_that_ask_no_model_import_none_of_its_packages() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1] == "all", ended.stderr
