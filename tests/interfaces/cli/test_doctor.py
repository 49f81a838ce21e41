"""`perdure doctor`."""

import asyncio
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perdure import DatabaseClient
from perdure.interfaces.cli.errors import run


@pytest.fixture
def home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A home in use."""
    run(["db", "migrate"])
    capsys.readouterr()
    return tmp_path / "home"


def checks(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """Every check of the doctor by its name."""
    assert run(["doctor", "--json", *arguments]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is (code == 0)
    return {check["name"]: check for check in found["checks"]}


def modes(home: Path) -> list[int]:
    """The permissions of the home, its database and its log."""
    return [path.stat().st_mode & 0o777 for path in (home, home / "perdure.db", home / "logs" / "perdure.log")]


def test_a_home_in_order_is_healthy(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = checks(capsys)
    assert [found[name]["status"] for name in ("python", "home", "database", "sqlite")] == ["ok"] * 4
    assert str(home / "perdure.db") in found["database"]["detail"]


def test_a_check_has_a_name_a_status_and_a_detail(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for check in checks(capsys, "--home", str(home)).values():
        assert set(check) == {"name", "status", "detail"}
        assert check["status"] in {"ok", "warn", "fail"}


def test_the_doctor_names_the_sqlite_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert checks(capsys)["sqlite"]["detail"].startswith(sqlite3.sqlite_version)


def test_a_person_gets_a_line_for_each_check(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = list(checks(capsys, "--home", str(home)))
    run(["doctor"])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["check", *names]


@pytest.mark.parametrize("arguments", [[], ["--fix"]], ids=["look", "fix"])
def test_a_home_that_is_not_there_yet_is_no_illness_and_is_not_made(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checks(capsys, *arguments)["home"]["status"] == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_home_without_a_database_gets_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    assert checks(capsys)["database"]["status"] == "ok"
    assert [path.name for path in (tmp_path / "home").iterdir() if path.name != "logs"] == []


def test_what_others_can_read_is_reported_and_left(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "perdure.db").chmod(0o644)
    found = checks(capsys)["home"]
    assert (found["status"], "doctor --fix" in found["detail"]) == ("warn", True)
    assert modes(home) == [0o700, 0o644, 0o600]


def test_fix_makes_everything_private_again(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.chmod(0o755)
    (home / "perdure.db").chmod(0o644)
    (home / "logs" / "perdure.log").chmod(0o666)
    assert checks(capsys, "--fix")["home"]["status"] == "ok"
    assert modes(home) == [0o700, 0o600, 0o600]


def test_a_database_that_cannot_be_read_is_damage(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "perdure.db").write_bytes(b"noise" * 10_000)
    found = checks(capsys, code=7)["database"]
    assert found["status"] == "fail"
    assert "It was not changed" in found["detail"]
    assert (home / "perdure.db").read_bytes() == b"noise" * 10_000


def test_the_other_checks_continue_when_one_fails(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "perdure.db").write_bytes(b"noise" * 10_000)
    assert {"python", "home", "database", "sqlite", "git"} <= set(checks(capsys, code=7))


def test_an_older_database_is_reported_and_not_migrated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "home" / "perdure.db"

    async def make() -> None:
        await (await DatabaseClient.create(path, migrate=False)).close()

    asyncio.run(make())
    before = path.read_bytes()
    found = checks(capsys)["database"]
    assert (found["status"], "perdure db migrate" in found["detail"]) == ("warn", True)
    assert path.read_bytes() == before


def test_a_broken_config_file_is_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.toml").write_text("nonsense")
    found = checks(capsys, code=2)["settings"]
    assert found["status"] == "fail"
    assert str(home / "config.toml") in found["detail"]


def test_a_file_in_place_of_the_home_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home").write_text("mine")
    assert "is not a folder" in checks(capsys, code=2)["home"]["detail"]


def test_a_folder_in_place_of_the_database_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home" / "perdure.db").mkdir(parents=True, mode=0o700)
    assert checks(capsys, code=2)["database"]["status"] == "fail"


def test_a_server_that_does_not_answer_is_found_without_showing_its_password(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql://me:hunter2@127.0.0.1:1/x")
    found = checks(capsys, code=8)["database"]
    assert found["status"] == "fail"
    assert "hunter2" not in found["detail"]


def test_a_missing_git_is_a_warning(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert checks(capsys, "--home", str(home))["git"]["status"] == "warn"


def test_the_doctor_looks_at_the_memory(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert checks(capsys)["memory"]["detail"] == f"{home / 'state' / 'memory.jsonl'} does not exist yet"
    (home / "config.toml").write_text("[memory]\nenabled = false")
    assert checks(capsys)["memory"]["detail"] == "switched off (memory.enabled)"
    (home / "config.toml").write_text("[memory]\nmax_matches = 0")
    assert "memory.max_matches is '0'" in checks(capsys, code=2)["memory"]["detail"]
    (home / "config.toml").unlink()
    (home / "state").mkdir()
    (home / "state" / "memory.failed").write_text("")
    assert checks(capsys, code=7)["memory"]["status"] == "fail"


DEFAULTS = (
    ("", "", "ok", "none is configured; `perdure model list` shows the supported models"),
    ("openai:m", "", "warn", "openai:m needs a key: perdure model login openai"),
    ("openai:m", "sk-canary-5f1d", "ok", "openai:m, key from environment OPENAI_API_KEY"),
    ("ollama:m", "", "ok", "ollama:m, no key"),
    ("gguf:/no/such.gguf", "", "warn", "gguf:/no/such.gguf needs the "),
    ("nonsense", "", "fail", "'nonsense' is not the name of a model"),
)


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("default", DEFAULTS)
def test_the_doctor_looks_at_the_default_model(
    default: tuple[str, str, str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name, key, status, said = default
    monkeypatch.setenv("PERDURE_MODEL", name)
    monkeypatch.setenv("OPENAI_API_KEY", key)
    found = checks(capsys, code=2 if status == "fail" else 0)["models"]
    assert (found["status"], found["detail"][: len(said)]) == (status, said)
    assert "canary" not in found["detail"]


def test_a_secret_that_others_can_read_is_made_private(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "secrets").mkdir(mode=0o700)
    secret = home / "secrets" / "OPENAI_API_KEY"
    secret.write_text("sk-canary-5f1d")
    secret.chmod(0o644)
    assert checks(capsys)["home"]["status"] == "warn"
    assert checks(capsys, "--fix")["home"]["status"] == "ok"
    assert secret.stat().st_mode & 0o777 == 0o600
