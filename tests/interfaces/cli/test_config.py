"""`perdure config`."""

import json
from pathlib import Path

import pytest

from perdure.interfaces.cli.errors import run


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, tuple[str, str]]:
    """Every setting with its value and its origin."""
    assert run(["config", "show", "--json", *arguments]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    return {setting["name"]: (setting["value"], setting["origin"]) for setting in settings}


def test_every_setting_is_shown_with_its_origin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "mine"
    home.mkdir()
    (home / "config.toml").write_text('memory_state_dir = "/memory"')
    monkeypatch.setenv("DATABASE_PATH", "/elsewhere.db")
    assert shown(capsys, "--home", str(home)) == {
        "home": (str(home), "flag --home"),
        "database_url": ("/elsewhere.db", "environment DATABASE_PATH"),
        "memory_state_dir": ("/memory", "user config.toml"),
        "park_after_s": ("60", "default"),
        "flows": ("", "default"),
        "imports": ("", "default"),
        "wake_cli_goals": ("true", "default"),
        "goals.keep_days": ("0", "default"),
        "goals.cancel_grace_s": ("60", "default"),
        "model.default": ("", "default"),
        "model.fallbacks": ("", "default"),
        "chat.bot": ("assistant", "default"),
        "policy.preset": ("ask", "default"),
        "policy.rules": ("[]", "default"),
        "memory.enabled": ("true", "default"),
        "memory.retention_days": ("90", "default"),
        "memory.max_matches": ("3", "default"),
    }


def test_the_policy_is_shown_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").write_text('[[policy.rules]]\ntool = "exec"\nverdict = "deny"\n')
    monkeypatch.setenv("PERDURE_POLICY", "read-only")
    found = shown(capsys, "--home", str(tmp_path))
    assert found["policy.preset"] == ("read-only", "environment PERDURE_POLICY")
    assert found["policy.rules"] == ('[{"tool": "exec", "verdict": "deny"}]', "user config.toml")


def test_without_settings_everything_is_a_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PERDURE_HOME")
    found = shown(capsys)
    assert found["home"] == (str(tmp_path / "user" / ".perdure"), "default")
    assert {origin for _, origin in found.values()} == {"default"}


def test_a_person_sees_origins_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config", "show"]) == 0
    plain = capsys.readouterr().out
    assert run(["config", "show", "--origin"]) == 0
    with_origin = capsys.readouterr().out
    assert plain.splitlines()[0].split() == ["setting", "value"]
    assert with_origin.splitlines()[0].split() == ["setting", "value", "origin"]
    assert with_origin.splitlines()[1].split() == ["home", str(tmp_path / "home"), "environment", "PERDURE_HOME"]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@host/x",
        "postgresql://host/x?user=me&password=hunter2",
        "postgresql://me:hunter%32@host/x?sslmode=require",
        "unknown://me:hunter2@host",
    ],
)
@pytest.mark.parametrize("arguments", [[], ["--origin"], ["--json"], ["--debug"]], ids=["", "origin", "json", "debug"])
def test_a_password_is_not_shown(
    url: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", url)
    assert run(["config", "show", *arguments]) == 0
    said = capsys.readouterr().out
    assert "***" in said
    assert "hunter" not in said


def test_a_repository_does_not_configure_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.toml").write_text('database_url = "/of/somebody/else"')
    assert shown(capsys)["database_url"] == (str(tmp_path / "home" / "perdure.db"), "default")


def test_showing_settings_creates_nothing(tmp_path: Path) -> None:
    assert run(["config", "show"]) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_setting_that_does_not_exist_is_refused_with_a_suggestion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('databaseurl = "x"')
    assert run(["config", "show"]) == 2
    assert "Did you mean 'database_url'?" in capsys.readouterr().err


def test_a_mistake_in_the_settings_of_the_memory_is_reported_beside_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("[memory]\nretention_dys = 3\nmax_matches = 99")
    assert run(["config", "show"]) == 0
    said = capsys.readouterr().out
    assert "Did you mean 'retention_days'?" in said
    assert "memory.max_matches is '99' (user config.toml); expected a whole number from 1 to 20." in said
    assert run(["config", "show", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["problems"]) == 2


def test_a_table_of_a_model_is_shown_without_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "secrets").mkdir()
    (home / "secrets" / "LOCAL_KEY").write_text("sk-canary-5f1d")
    (home / "config.toml").write_text('[models."ollama:qwen3"]\ncontext_window = 4096\napi_key = "secret:LOCAL_KEY"')
    found = shown(capsys)
    assert found['models."ollama:qwen3".context_window'] == ("4096", "user config.toml")
    assert found['models."ollama:qwen3".api_key'] == ("secret:LOCAL_KEY", "user config.toml")
    assert "canary" not in str(found)
