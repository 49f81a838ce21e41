"""Homes that are not as they should be: a database that is gone while its log is left, a disk without hard links."""

import errno
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Never

import pytest

from perdure.settings import load_settings
from tests.interfaces.cli.interviews import WISH
from tests.interfaces.cli.terminal import Terminal

EVERY_COMMAND_THAT_OPENS_THE_DATABASE = [
    ("run", "--", "true"),
    ("run", "--list"),
    ("goal", "list"),
    ("goal", "show", "some-goal"),
    ("goal", "resume", "--due"),
    ("new", WISH, "--yes"),
    ("bot", "list"),
    ("draft", "list"),
    ("serve", "--port", "0"),
    ("memory", "ingest", "goals"),
    ("doctor",),
    ("db", "migrate"),
    ("db", "status"),
    ("db", "tables"),
    ("db", "verify"),
    ("db", "backup", "backup.tar.gz"),
]


@pytest.mark.parametrize("log", [b"", b"what was written last"], ids=["empty", "not empty"])
@pytest.mark.parametrize("arguments", EVERY_COMMAND_THAT_OPENS_THE_DATABASE, ids=" ".join)
def test_a_database_that_is_gone_while_its_log_is_left_is_damaged_for_every_command(
    perdure: Terminal, arguments: tuple[str, ...], log: bytes
) -> None:
    home = load_settings().home
    (home / "perdure.db").unlink()
    (home / "perdure.db-wal").write_bytes(log)
    assert perdure(*arguments) == 7
    assert "perdure.db-wal is still there" in perdure.err + perdure.out
    assert not (home / "perdure.db").exists()
    assert (home / "perdure.db-wal").read_bytes() == log


def test_a_restore_moves_the_log_of_a_database_that_is_gone_aside(perdure: Terminal) -> None:
    assert perdure("run", "--", "true") == 0
    assert perdure("db", "backup", "backup.tar.gz") == 0
    home = load_settings().home
    with closing(sqlite3.connect(home / "perdure.db")) as plain:
        plain.execute("PRAGMA wal_autocheckpoint = 0")
        plain.execute("UPDATE goals SET status = 'failed'")
        plain.commit()
        log = (home / "perdure.db-wal").read_bytes()
    for path in home.glob("perdure.db*"):
        path.unlink()
    (home / "perdure.db-wal").write_bytes(log)
    assert perdure("db", "restore", "backup.tar.gz", "--replace") == 0
    assert perdure("db", "verify") == 0
    assert [goal["status"] for goal in perdure.goals()] == ["done"]
    (aside,) = home.glob("perdure.db.replaced-*-wal")
    assert aside.read_bytes() == log


def no_links(*_: object, **__: object) -> Never:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


WITHOUT_LINKS = """
from tests.interfaces.cli.test_homes import no_links
import os
os.link = no_links
from perdure.interfaces.cli import main
main()
"""


def test_a_home_without_hard_links_can_be_used_in_every_way(perdure: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", no_links)
    assert perdure("run", "--", "true") == 0
    assert len(perdure.goals()) == 1
    assert perdure("new", WISH, "--yes") == 0
    assert perdure("bot", "list") == 0
    assert perdure("memory", "add", "--type", "lesson", "--title", "T") == 0
    assert perdure("memory", "search", "T") == 0
    assert perdure("memory", "compact") == 0
    assert perdure("token", "show") == 0
    assert perdure("db", "backup", "backup.tar.gz") == 0
    assert perdure("db", "backup", "backup.tar.gz") == 4
    assert perdure("db", "restore", "backup.tar.gz", "--replace") == 0
    assert len(perdure.goals()) == 1
    assert not list(load_settings().home.glob(".*"))


def test_a_plan_writes_a_new_file_where_there_are_no_hard_links(
    perdure: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", no_links)
    Path("plan.yaml").write_text(
        "goal: write\nsteps:\n  - {id: a, tool: write_file, with: {path: a.txt, content: a}}\n"
    )
    assert perdure("run", "--plan", "plan.yaml") == 0
    assert Path("a.txt").read_text() == "a"


@pytest.mark.usefixtures("ready")
def test_a_server_starts_in_a_home_without_hard_links() -> None:
    serving = subprocess.Popen(
        [sys.executable, "-c", WITHOUT_LINKS, "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert serving.stderr is not None
    with serving.stderr:
        assert any("Ctrl-C stops the server" in line for line in serving.stderr)
        serving.send_signal(signal.SIGINT)
        serving.stderr.read()
    assert serving.wait(60) == 0
    assert len((load_settings().home / "token").read_text().strip()) == 64
