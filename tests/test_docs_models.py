"""The page about models: every command of it runs, against the scripted server."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.minds.model.providers.names import parse_model_name
from perdure.model_settings import read_model_tables
from perdure.settings import load_settings
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer
from tests.test_docs import ROOT, blocks

PAGE = (ROOT / "docs/how-to/connect-a-model.md").read_text()
HOSTED, OLLAMA, OWN, SERVER, SCRIPTED = blocks(PAGE, "sh")
KEY = "sk-canary-5f1d"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer(Script([ScriptedAnswer("ready")], order="turns")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        yield server


def shell(folder: Path, text: str, given: str = "") -> str:
    """Run lines as a person would, and return what they print."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["sh", "-eu", "-c", text],
        cwd=folder,
        env={**os.environ, "PATH": path},
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, ""), ended.stdout + ended.stderr
    return ended.stdout


def default(tmp_path: Path) -> str | None:
    return load_settings({"home": str(tmp_path / "home")}, {}).models.default


def test_a_hosted_model_is_connected(tmp_path: Path, server: ModelServer) -> None:
    said = shell(tmp_path, HOSTED, f"{KEY}\n")
    assert "openai:gpt-4.1-mini answered 'ready'" in said
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in said
    assert default(tmp_path) == "openai:gpt-4.1-mini"


def test_ollama_is_connected(tmp_path: Path, server: ModelServer) -> None:
    assert "ollama:llama3.2 answered 'ready'" in shell(tmp_path, OLLAMA)
    assert default(tmp_path) == "ollama:llama3.2"
    assert server.requests[0].path == "/v1/chat/completions"


def test_a_server_of_ones_own_is_connected(tmp_path: Path, server: ModelServer) -> None:
    said = shell(tmp_path, OWN.replace("http://127.0.0.1:8000", server.url))
    assert "answered 'ready'" in said
    assert default(tmp_path) == f"openai-compatible:qwen@{server.url}/v1"


@pytest.fixture
def scripted_url(tmp_path: Path) -> Iterator[str]:
    """The server of the page, in a process of its own as in another terminal; only its port is another one."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    running = subprocess.Popen(
        ["sh", "-eu", "-c", SERVER.replace("--port 8399", "--port 0").replace("python -m", "exec python -m")],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    yield running.stdout.readline().strip()
    running.terminate()
    assert running.wait() == 0
    running.stdout.close()


def test_a_scripted_server_answers_a_forged_bot_as_often_as_it_is_asked(tmp_path: Path, scripted_url: str) -> None:
    said = shell(tmp_path, SCRIPTED.replace("http://127.0.0.1:8399", scripted_url))
    assert "openai:scripted answered 'ready'" in said
    assert "Talk to it: perdure chat coding-assistant" in said
    second = "This is the second answer. From now on I repeat it.\n"
    assert said.endswith(f"Hello! This answer is from a script.\n{second}{second}")
    assert default(tmp_path) == "openai:scripted"


def test_an_interview_with_the_scripted_server_asks_the_built_in_questions(
    tmp_path: Path, scripted_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", scripted_url)
    monkeypatch.setenv("PERDURE_MODEL", "openai:scripted")
    assert "is ready" in shell(tmp_path, 'perdure new "I want a coding assistant" --yes 2> notes')
    assert "this question is the built-in one" in (tmp_path / "notes").read_text()


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    (program,) = blocks(PAGE, "python")
    (tmp_path / "program.py").write_text(program)
    assert shell(tmp_path, "python program.py").endswith("[] []\n")


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    (config,) = blocks(PAGE, "toml")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(config)
    models = load_settings({"home": str(tmp_path / "home")}, {}).models
    assert models.fallbacks == ("openai:gpt-4.1-mini",)
    (name,) = read_model_tables("page", tomllib.loads(config)["models"])
    assert parse_model_name(name).text == name
    assert models.table(name).api_key == "QWEN_KEY"


def test_every_provider_of_the_page_is_a_name() -> None:
    rows = [line.split("`")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    assert [parse_model_name(row.replace("URL", "http://host/v1")).provider for row in rows] == [
        row.partition(":")[0] for row in rows
    ]
