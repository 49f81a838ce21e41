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
HOSTED, OLLAMA, OWN, SCRIPTED = blocks(PAGE, "sh")
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


def test_a_scripted_server_takes_the_place_of_a_vendor(tmp_path: Path) -> None:
    assert "openai:scripted answered 'ready'" in shell(tmp_path, SCRIPTED)


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
