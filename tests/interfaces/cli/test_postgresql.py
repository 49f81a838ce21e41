"""The verbs of goals on a home whose database is a PostgreSQL server: one journey each."""

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.minds.flow import registry
from tests.interfaces.cli.terminal import Terminal
from tests.postgres import PostgresServer
from tests.test_docs import ROOT, blocks

FLOWS = """
from perdure import flow

def note(word):
    with open("noted", "a") as book:
        book.write(f"{word}\\n")
    return word

@flow
async def paying(goal, name):
    await goal.step(note, f"bill {name}")
    paid = await goal.signal("paid")
    return await goal.step(note, f"thank {name} for {paid}")

@flow
async def sleeping(goal):
    await goal.sleep(0.5)  # longer than it takes to park it
    return await goal.step(note, "awake")
"""
NOTED = Path("noted")
BILL = ["run", "--flow", "pg_flows:paying", "--args", '["ann"]']


@pytest.fixture(autouse=True)
def on_postgresql(ready: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the settings of the home name a server, and let two flows be found."""
    home = Path(os.environ["PERDURE_HOME"])
    (home / "perdure.db").unlink()
    url = postgres.new_database(f"test_{secrets.token_hex(6)}")
    (home / "config.toml").write_text(f'database_url = "{url}"\npark_after_s = 0\n')
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "pg_flows", raising=False)
    for name in ("paying", "sleeping"):
        monkeypatch.delitem(registry._FLOWS, f"pg_flows:{name}", raising=False)
    (ready / "pg_flows.py").write_text(FLOWS)


@pytest.fixture
def billed(perdure: Terminal) -> str:
    """A flow that waits to be told that somebody has paid: goal, bill, its outcome, the wait."""
    assert perdure(*BILL) == 5
    assert not (Path(os.environ["PERDURE_HOME"]) / "perdure.db").exists()
    return perdure.newest()


@pytest.fixture
def paid(perdure: Terminal, billed: str) -> str:
    """The same, paid and done."""
    assert perdure("goal", "signal", billed, "paid", "3", "--resume") == 0
    return billed


def test_a_flow_is_begun_once_by_its_key_and_continues_when_it_is_reported(perdure: Terminal) -> None:
    for _ in range(2):
        assert perdure(*BILL, "--key", "ann") == 5
    goal = perdure.newest()
    for _ in range(2):
        assert perdure("goal", "signal", goal, "paid", "3", "--key", "a") == 0
    assert perdure(*BILL, "--key", "ann") == 0
    assert perdure.out == "thank ann for 3\n"
    assert perdure("run", "--flow", "pg_flows:paying", "--args", '["bob"]', "--key", "ann") == 4
    assert "and not ['bob']" in perdure.err
    assert NOTED.read_text() == "bill ann\nthank ann for 3\n"
    assert len(perdure.goals()) == 1


def test_a_fork_and_a_fork_of_it_go_other_ways_and_a_diff_shows_where(perdure: Terminal, paid: str) -> None:
    assert perdure("goal", "fork", paid, "--at", "4") == 0
    first = perdure.newest()
    assert perdure("goal", "signal", first, "paid", "4", "--resume") == 0
    assert perdure.out == "thank ann for 4\n"
    assert perdure("goal", "fork", first, "--at", "3", "--resume") == 5
    second = perdure.newest()
    assert perdure("goal", "signal", second, "paid", "4", "--resume") == 0
    assert perdure("goal", "diff", paid, first) == 1
    assert f"{paid} and {first} are the same up to event 4." in perdure.out
    assert perdure.json("goal", "diff", first, second)["common"] == 5
    for goal in (paid, first, second):
        assert perdure("goal", "replay", goal) == 0
    assert NOTED.read_text().splitlines().count("bill ann") == 1


def test_an_export_of_a_fork_has_hashes_that_verify(perdure: Terminal, paid: str, tmp_path: Path) -> None:
    perdure("goal", "fork", paid, "--at", "5", "--resume")
    (program,) = blocks((ROOT / "docs/how-to/export-a-history.md").read_text(), "python")
    for goal in perdure.goals():
        file = tmp_path / f"{goal['id']}.jsonl"
        assert perdure("goal", "export", goal["id"], "-o", str(file)) == 0
        done = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=False)
        assert done.stdout.startswith(f"{goal['last_seq']} events, last hash ")


def test_a_goal_is_deleted_after_its_fork(perdure: Terminal, paid: str) -> None:
    perdure("goal", "fork", paid, "--at", "3")
    fork = perdure.newest()
    assert perdure("goal", "delete", paid, "--yes") == 4
    assert fork in perdure.err
    assert perdure("goal", "cancel", fork) == 0
    for goal in (fork, paid):
        assert perdure("goal", "delete", goal, "--yes") == 0
        assert perdure("goal", "show", goal) == 3
    assert perdure.goals() == []


def test_a_flow_that_sleeps_is_released_and_woken_when_it_is_due(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "pg_flows:sleeping") == 5
    assert perdure.goals()[0]["waiting_for"] == "timer"
    while perdure.goals()[0]["status"] == "waiting":
        assert perdure("goal", "resume", "--due") == 0
    assert perdure.goals()[0]["status"] == "done"
    assert perdure("goal", "resume", "--due") == 0
    assert perdure.out == "No goal is due.\n"
    assert NOTED.read_text() == "awake\n"
