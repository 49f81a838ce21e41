"""What others found when they tried hard, each kept as a test."""

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from perdure import get_memory_state_dir
from perdure.filelock.lock import FileLock
from perdure.interfaces.cli.errors import run
from perdure.store.migrations import CHAIN
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


def test_a_broken_config_file_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_home_whose_name_is_not_a_text_works(tmp_path: Path) -> None:
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


def test_doctor_continues_when_the_database_url_is_wrong(
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
    assert f'"version": "{CHAIN.head:04d}"' in capsys.readouterr().out
    assert run(["doctor"]) == 0


def test_the_version_is_also_known_behind_the_shortcut(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("perdure ")


def test_debug_shows_where_an_error_of_ours_was_raised(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "verify", "--debug"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_a_folder_in_place_of_the_plan_of_a_restore_is_reported(tmp_path: Path) -> None:
    (tmp_path / "home" / "restore.json").mkdir(parents=True)
    assert run(["db", "migrate"]) == 7


def test_a_home_that_is_a_link_to_nowhere_is_reported(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to(tmp_path / "nowhere")
    assert run(["doctor"]) == 8


def test_common_options_may_stand_in_front_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--json", "--home", str(tmp_path / "other"), "db", "status"]) == 0
    assert json.loads(capsys.readouterr().out)["location"] == str(tmp_path / "other" / "perdure.db")


def test_without_a_home_of_the_user_the_account_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.delenv("PERDURE_HOME")
    monkeypatch.chdir(tmp_path)
    assert run(["config", "show", "--json"]) == 0
    shown = {each["name"]: each["value"] for each in json.loads(capsys.readouterr().out)["settings"]}
    assert not [name for name in ("home", "database_url") if str(tmp_path) in shown[name]]
    assert shown["memory_state_dir"] == str(get_memory_state_dir()) == str(tmp_path / ".perdure" / "state")


def test_doctor_tells_of_a_restore_that_was_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "restore.json").write_text("{}")
    (home / "restore.json").chmod(0o600)
    assert run(["doctor"]) == 0
    assert "a restore was interrupted" in capsys.readouterr().out
    assert (home / "restore.json").exists()


@pytest.mark.parametrize("home", ["/dev/null/home", "/dev/null"])
def test_doctor_sees_when_no_home_can_be_made(home: str) -> None:
    assert run(["doctor", "--home", home]) == 2


def test_looking_does_not_wait_for_a_long_transaction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perdure.store.backup.exclusion._PATIENCE_S", 0.1)
    monkeypatch.setattr("perdure.store.sqlite.file_database._LOCK_WAIT_S", 0.05)
    run(["db", "migrate"])
    lock = FileLock(tmp_path / "home" / "perdure.db.lock")
    with lock:
        for arguments in (["db", "status"], ["db", "tables"], ["db", "verify"], ["doctor"]):
            assert run(arguments) == 0
        assert run(["db", "backup", str(tmp_path / "b.tar.gz")]) == 0
        assert run(["db", "restore", "--replace", str(tmp_path / "b.tar.gz")]) == 4
    lock.close()
    assert "in use" in capsys.readouterr().err


def test_a_backup_says_what_it_leaves_out_and_keeps_programs_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["db", "migrate"])
    bot = tmp_path / "home" / "bots" / "a"
    bot.mkdir(parents=True)
    (bot / "run.sh").write_text("#!/bin/sh\n")
    (bot / "run.sh").chmod(0o755)
    (bot / "link").symlink_to("/etc/passwd")
    os.mkfifo(bot / "pipe")
    capsys.readouterr()
    assert run(["db", "backup", str(tmp_path / "b.tar.gz"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == ["bots/a/link", "bots/a/pipe"]
    assert run(["db", "restore", str(tmp_path / "b.tar.gz"), "--home", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / "bots" / "a" / "run.sh").stat().st_mode & 0o777 == 0o700


def test_a_backup_is_not_put_where_it_would_contain_itself(tmp_path: Path) -> None:
    run(["db", "migrate"])
    (tmp_path / "home" / "bots").mkdir()
    assert run(["db", "backup", str(tmp_path / "home" / "bots" / "b.tar.gz")]) == 2


def test_the_copy_that_a_restore_reads_is_unchanged(tmp_path: Path) -> None:
    run(["db", "migrate"])
    copy = tmp_path / "copies" / "perdure.db"
    copy.parent.mkdir()
    (tmp_path / "home" / "perdure.db").rename(copy)
    assert run(["db", "restore", str(copy)]) == 0
    assert [path.name for path in copy.parent.iterdir()] == ["perdure.db"]


def test_bookkeeping_that_contradicts_the_file_is_damage(tmp_path: Path) -> None:
    run(["db", "migrate"])
    with closing(sqlite3.connect(tmp_path / "home" / "perdure.db")) as plain, plain:
        plain.execute("UPDATE alembic_version SET version_num = ?", [f"{CHAIN.head - 1:04d}"])
    assert run(["db", "verify"]) == 7


def test_one_interrupt_is_enough_while_a_lock_is_waited_for(tmp_path: Path) -> None:
    assert run(["db", "migrate", "--home", str(tmp_path / "home")]) == 0
    os.truncate(tmp_path / "home" / "perdure.db", 4096)
    lock = FileLock(tmp_path / "home" / "perdure.db.lock")
    with lock:
        waiting = subprocess.Popen(
            [sys.executable, "-m", "perdure", "db", "migrate", "--verbose"], stderr=subprocess.PIPE, text=True
        )
        wait_until_it_waits(waiting.pid)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(10) == 130
        assert waiting.communicate()[1].endswith("Interrupted.\n")
    lock.close()


def wait_until_it_waits(pid: int) -> None:
    """Until the process has opened the lock file, and so tries to take it."""
    for _ in range(2000):
        try:
            if any(link.readlink().name == "perdure.db.lock" for link in Path(f"/proc/{pid}/fd").iterdir()):
                return
        except OSError:
            pass
        select.select([], [], [], 0.005)
    raise AssertionError("it never came to the lock")
