"""What others found when they tried hard, each kept as a test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.interfaces.cli.edge import run
from tests.interfaces.cli.test_db import spoil_the_middle


@pytest.mark.parametrize("arguments", [["doctor"], ["db", "verify"], ["db", "status"], ["db", "migrate"]], ids=" ".join)
def test_a_link_to_a_disk_that_is_absent_is_kept(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    link = tmp_path / "home" / "perdure.db"
    link.symlink_to(tmp_path / "unmounted" / "perdure.db")
    assert run(arguments) == 8
    assert link.is_symlink()
    assert not (tmp_path / "unmounted").exists()


def test_a_database_behind_a_link_is_used_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "disk").mkdir()
    assert run(["db", "migrate", "--home", str(tmp_path / "first")]) == 0
    (tmp_path / "first" / "perdure.db").rename(tmp_path / "disk" / "real.db")
    (tmp_path / "home" / "perdure.db").symlink_to(tmp_path / "disk" / "real.db")
    assert run(["db", "verify"]) == 0
    assert run(["db", "backup", str(tmp_path / "b.tar.gz")]) == 0
    assert run(["db", "restore", "--replace", str(tmp_path / "b.tar.gz")]) == 0
    assert (tmp_path / "home" / "perdure.db").is_symlink()
    assert (tmp_path / "disk" / "real.db.lock").exists()
    assert len(list((tmp_path / "disk").glob("real.db.replaced-*"))) == 1


@pytest.mark.parametrize("arguments", [["doctor"], ["db", "verify"]], ids=" ".join)
def test_looking_at_an_empty_file_leaves_it_empty(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "perdure.db").touch()
    run(arguments)
    assert (tmp_path / "home" / "perdure.db").stat().st_size == 0


@pytest.mark.parametrize("command", [["db", "status"], ["config", "show"], ["db", "status", "--debug"]], ids=" ".join)
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://user:SECRET%@127.0.0.1:1/x",
        "postgresql://user:SEC%zzRET@127.0.0.1:1/x",
        "postgresql://user:SEC/RET@127.0.0.1:1/x",
        "postgresql://user:SEC@RET@127.0.0.1:1/x",
        "postgresql://user:SECRET 2@127.0.0.1:1/x",
        "postgresql://user@127.0.0.1:1/x?pass%77ord=SECRET",
        "sqlite://user:SECRET@x/y",
        "sqlite:///x.db?password=SECRET",
        "host=127.0.0.1 user=u password=SECRET",
        "host=127.0.0.1 password = SECRET",
        "host=127.0.0.1 password='SEC RET'",
        "postgresql:user:SECRET@h/x",
        "postgresql:/user:SECRET@h/x",
    ],
)
def test_no_spelling_shows_a_password(
    command: list[str], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERDURE_DATABASE_URL", url)
    run(command)
    said = capsys.readouterr()
    everything = said.out + said.err + (tmp_path / "home" / "logs" / "perdure.log").read_text()
    assert "SEC" not in everything
    assert "RET" not in everything
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


@pytest.mark.parametrize("arguments", [["doctor"], ["db", "backup", "b.tar.gz"]], ids=" ".join)
def test_damage_in_the_middle_is_noticed(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(["db", "migrate"])
    monkeypatch.chdir(tmp_path)
    spoil_the_middle(tmp_path / "home" / "perdure.db")
    assert run(arguments) == 7
    assert not (tmp_path / "b.tar.gz").exists()


def test_a_broken_config_file_is_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("nonsense")
    assert run(["db", "status"]) == 2
    assert capsys.readouterr().err.count("is not valid TOML") == 1


@pytest.mark.parametrize("arguments", [[], ["db"]], ids=["perdure", "perdure db"])
def test_help_is_not_followed_by_an_empty_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert capsys.readouterr().err == ""


def test_a_backup_into_a_folder_that_cannot_be_written_is_denied(capsys: pytest.CaptureFixture[str]) -> None:
    run(["db", "migrate"])
    assert run(["db", "backup", "/proc/b.tar.gz"]) == 1
    assert "inside Perdure" not in capsys.readouterr().err


def test_a_home_whose_name_is_no_text_works(tmp_path: Path) -> None:
    home = os.fsdecode(os.fsencode(tmp_path) + b"/h\xff")
    for arguments in (["db", "migrate"], ["db", "status", "--json"], ["config", "show"]):
        assert run([*arguments, "--home", home]) == 0


@pytest.mark.parametrize("arguments", [["config", "show", "--json"], ["config", "show"], ["--help"]], ids=" ".join)
def test_a_full_disk_under_the_output_gives_no_traceback(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "perdure", *arguments], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert b"Traceback" not in done.stderr
    assert done.returncode != 0


@pytest.mark.parametrize("closed", [">&-", "2>&-"])
def test_a_closed_stream_gives_no_traceback(closed: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m perdure config show {closed}"], capture_output=True, check=False
    )
    assert b"Traceback" not in done.stderr
    assert b"inside Perdure" not in done.stderr


def test_doctor_goes_on_when_the_database_url_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    monkeypatch.setenv("PERDURE_DATABASE_URL", "mysql://h/x")
    assert run(["doctor", "--json"]) == 2
    assert '"checks"' in capsys.readouterr().out


def test_doctor_fix_leaves_files_elsewhere_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    notes.chmod(0o644)
    monkeypatch.setenv("DATABASE_PATH", str(notes))
    run(["doctor", "--fix"])
    assert notes.stat().st_mode & 0o777 == 0o644


def test_a_database_in_memory_is_current_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", ":memory:")
    assert run(["db", "status", "--json"]) == 0
    assert '"version": "0001"' in capsys.readouterr().out
    assert run(["doctor"]) == 0


def test_the_version_is_also_known_behind_the_shortcut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("perdure ")


def test_debug_shows_where_an_error_of_ours_was_raised(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "verify", "--debug"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_a_folder_in_place_of_the_plan_of_a_restore_is_told(tmp_path: Path) -> None:
    (tmp_path / "home" / "restore.json").mkdir(parents=True)
    assert run(["db", "migrate"]) == 7


def test_a_home_that_is_a_link_to_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to(tmp_path / "nowhere")
    assert run(["doctor"]) == 8
