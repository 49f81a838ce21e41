"""The log in the home."""

import logging
from pathlib import Path

import pytest

from perdure.interfaces.cli.errors import run
from perdure.interfaces.cli.logs import KEPT, MAX_BYTES, PrivateLog


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the log of the home belongs."""
    return tmp_path / "home" / "logs" / "perdure.log"


@pytest.fixture
def full_log(log: Path) -> Path:
    """A log that has no room for one more line."""
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * MAX_BYTES)
    return log


def test_a_command_leaves_a_line_with_its_name_and_exit_code(log: Path) -> None:
    run(["db", "migrate"])
    assert "migrate: exit 0" in log.read_text().splitlines()[-1]


def test_an_error_leaves_a_line_with_its_code_and_detail(log: Path) -> None:
    run(["db", "migrate"])
    run(["db", "restore", "/no/such/backup"])
    assert "not_found: There is no backup at /no/such/backup." in log.read_text().splitlines()[-1]


def test_lines_are_added_to_those_that_are_there(log: Path) -> None:
    run(["db", "migrate"])
    before = log.read_text()
    run(["db", "verify"])
    assert log.read_text().startswith(before)
    assert len(log.read_text()) > len(before)


def test_the_log_is_private(log: Path) -> None:
    run(["db", "migrate"])
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("arguments", [["config", "show"], ["doctor"], ["db", "verify"]], ids=" ".join)
def test_no_home_is_made_for_a_log(arguments: list[str], tmp_path: Path) -> None:
    run(arguments)
    assert not (tmp_path / "home").exists()


def test_a_full_log_is_moved_aside_and_begun_again(full_log: Path) -> None:
    run(["db", "migrate"])
    assert full_log.with_name("perdure.log.1").read_bytes() == b"x" * MAX_BYTES
    assert "migrate: exit 0" in full_log.read_text()
    assert full_log.stat().st_size < 10_000
    assert full_log.stat().st_mode & 0o777 == 0o600


def test_only_a_few_full_logs_are_kept(full_log: Path) -> None:
    for number in range(1, KEPT + 1):
        full_log.with_name(f"perdure.log.{number}").write_text(str(number))
    run(["db", "migrate"])
    names = sorted(path.name for path in full_log.parent.iterdir())
    assert names == ["perdure.log", *(f"perdure.log.{number}" for number in range(1, KEPT + 1))]
    assert full_log.with_name("perdure.log.2").read_text() == "1"


def test_a_log_that_cannot_be_written_does_not_fail_the_command(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.parent.parent.mkdir()
    log.parent.write_text("a file in its place")
    assert run(["db", "migrate"]) == 0
    assert capsys.readouterr().err == ""


def test_statements_are_not_logged_unless_asked_for(log: Path) -> None:
    run(["db", "tables"])
    assert "SELECT" not in log.read_text()


@pytest.mark.parametrize("arguments", [[], ["--json"], ["--debug"]], ids=["plain", "json", "debug"])
@pytest.mark.parametrize("command", ["migrate", "status", "tables", "verify", "backup"])
def test_the_password_of_a_server_that_does_not_answer_is_nowhere(
    command: str,
    arguments: list[str],
    log: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    log.parent.mkdir(parents=True)
    monkeypatch.setenv("PERDURE_DATABASE_URL", "postgresql://user:hunter2@127.0.0.1:1/x")
    monkeypatch.chdir(log.parent.parent)
    assert run(["db", command, *arguments]) == 8
    said = capsys.readouterr()
    assert "postgresql://user:***@127.0.0.1:1/x" in said.out + said.err
    assert "hunter2" not in said.out + said.err
    assert "unavailable: " in log.read_text()
    assert "hunter2" not in log.read_text()


def test_no_escape_of_a_user_reaches_the_log_or_standard_error(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["db", "migrate"])
    run(["goal", "show", "\x1b]0;PWNED\x07", "--verbose"])
    assert "PWNED" in log.read_text()
    assert "\x1b" not in log.read_text() + capsys.readouterr().err


def test_a_log_that_another_process_has_moved_aside_is_followed(log: Path) -> None:
    log.parent.mkdir(parents=True)
    kept = PrivateLog(log)
    kept.emit(logging.makeLogRecord({"msg": "before"}))
    log.rename(log.with_name("perdure.log.1"))
    kept.emit(logging.makeLogRecord({"msg": "after"}))
    kept.close()
    assert log.with_name("perdure.log.1").read_text() == "before\n"
    assert log.read_text() == "after\n"
