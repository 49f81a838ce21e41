"""`perdure goal retry`: run, refused with the fork, reopened only; and what other commands show of it."""

import asyncio
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from perdure import Goal, Perdure, flow
from perdure.app.goals.new_goal import of_flow
from perdure.minds.flow import registry
from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_flows import forget

PLAN = """
goal: print
steps:
  - {id: fetch, shell: true, exec: "echo . >> fetched"}
  - {id: print, exec: [cat, paper], needs: [fetch]}
"""
FLOWS = """
from perdure import flow

def work():
    with open("paper") as paper:
        return paper.read()

def clean():
    return "clean"

@flow
async def job(goal):
    return await goal.step(work)

@flow
async def careful(goal):
    try:
        return await goal.step(work)
    except Exception:
        await goal.step(clean)
        raise
"""


@pytest.fixture
def failed(perdure: Terminal) -> str:
    Path("plan.yaml").write_text(PLAN)
    assert perdure("run", "--plan", "plan.yaml") == 1
    return perdure.newest()


def test_a_retry_runs_the_failed_step_and_exits_as_the_goal_does(perdure: Terminal, failed: str) -> None:
    assert perdure("goal", "retry", failed) == 1
    Path("paper").write_text("hello\n")
    assert perdure("goal", "retry", failed, "--reason", "paper is back", "--max-iterations", "50") == 0
    assert perdure.out == "hello\n"
    assert "goal: retried by person: paper is back" in perdure.err
    assert Path("fetched").read_text() == ".\n"
    assert perdure("db", "verify") == 0


def test_show_replay_export_and_diff_have_the_retry(perdure: Terminal, failed: str) -> None:
    Path("paper").write_text("hello\n")
    assert perdure("goal", "retry", failed, "--reason", "paper is back") == 0
    assert perdure("goal", "show", failed) == 0
    rows = [re.sub(r" +", " ", line) for line in perdure.out.splitlines() if re.match(r"\d+(-\d+)? ", line)]
    assert [re.sub(r" [0-9.]+ m?s$", "", row) for row in rows] == [
        "2-3 fetch exec, once done 1",
        "4-5 print exec, once failed: exit 1 1",
        "7 retried by person: paper is back",
        "8-9 print exec, once done 1",
    ]
    assert [call["attempt"] for call in perdure.json("goal", "show", failed)["timeline"]] == [1, 1, 2]
    assert perdure("goal", "replay", failed) == 0
    assert perdure("goal", "export", failed) == 0
    assert '"type":"reopened"' in perdure.out
    fork = perdure.json("goal", "fork", failed, "--at", "5")["id"]
    assert perdure("goal", "diff", failed, fork) == 1
    assert "reopened" in perdure.out


def test_the_same_key_retries_once(perdure: Terminal, failed: str) -> None:
    assert perdure("goal", "retry", failed, "--key", "k") == 1
    count = len(perdure.json("goal", "show", failed)["timeline"])
    assert perdure("goal", "retry", failed, "--key", "k") == 1
    assert "has ended already; nothing was run" in perdure.err
    assert len(perdure.json("goal", "show", failed)["timeline"]) == count


def test_a_goal_that_is_done_is_refused_with_the_fork_in_the_same_home(perdure: Terminal) -> None:
    assert perdure("run", "--", "true") == 0
    goal = perdure.newest()
    home = str(Path.cwd().parent / "home")
    assert perdure("goal", "retry", goal, "--home", home) == 4
    assert f"{goal} is done" in perdure.err
    assert f"goal fork {goal} --before command --home {home}" in " ".join(perdure.err.split())


@pytest.fixture
def flow_module(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ready / "retried.py").write_text(FLOWS)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget("retried")


@pytest.mark.usefixtures("flow_module")
def test_a_flow_that_cleaned_up_is_refused_with_the_fork(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "retried:careful") == 1
    goal = perdure.newest()
    assert perdure("goal", "retry", goal) == 4
    said = " ".join(perdure.err.split())
    assert "/clean#0" in said
    assert f"goal fork {goal} --before '/work#0'" in said
    forget("retried")


@pytest.mark.usefixtures("flow_module")
def test_a_flow_is_retried_in_the_folder_where_it_was_started(
    perdure: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert perdure("run", "--flow", "retried:job") == 1
    goal = perdure.newest()
    Path("paper").write_text("hello")
    forget("retried")
    monkeypatch.chdir(tmp_path)
    assert perdure("goal", "retry", goal) == 0
    assert perdure.out == "hello\n"
    forget("retried")


@pytest.mark.usefixtures("flow_module")
def test_a_flow_whose_module_is_gone_is_not_reopened(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "retried:job") == 1
    goal = perdure.newest()
    forget("retried")
    Path("retried.py").unlink()
    assert perdure("goal", "retry", goal) == 3
    assert perdure.json("goal", "show", goal)["status"] == "failed"


@flow
async def printed(goal: Goal) -> None:
    await goal.step(Path("paper").read_text)


def failed_of_script(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the flow of a script fail, and return its goal; the script is not loaded afterwards."""
    path = "__main__:printed"

    async def fail() -> str:
        new = of_flow(printed, [], {})
        mind = replace(new.mind, at=path, args={**new.mind.args, "script": "/srv/print.py"})
        async with Perdure.open(home) as p:
            return (await p.goals.begin(replace(new, mind=mind))).state.goal_id

    monkeypatch.setitem(registry._FLOWS, path, printed)
    goal = asyncio.run(fail())
    monkeypatch.delitem(registry._FLOWS, path)
    return goal


def test_a_bulk_retry_of_a_flow_of_a_script_says_that_it_was_not_run(
    perdure: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = failed_of_script(tmp_path / "home", monkeypatch)
    assert perdure("goal", "retry", "--status", "failed", "--yes") == 0
    how = f"interrupted; `perdure goal show {goal}` prints what resumes it"
    assert perdure.out == f"1 goal retried: 1 interrupted.\n  {goal}  {how}\n"


def test_a_flow_of_a_script_is_reopened_and_the_script_named(
    perdure: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = failed_of_script(tmp_path / "home", monkeypatch)
    assert perdure("goal", "retry", goal) == 0
    resumed = f"To resume this goal, call `await p.goals.resume('{goal}')` in the script."
    assert perdure.out.endswith(f"running the script again starts a new goal. {resumed}\n  python /srv/print.py\n")
    assert perdure.json("goal", "show", goal)["status"] == "interrupted"
    assert perdure("goal", "fork", goal, "--at", "1") == 0
    said, command = perdure.out.splitlines()[1:]
    resumed = f"To resume this fork, call `await p.goals.resume('{perdure.newest()}')` in the script."
    assert said.endswith(f"which finds a goal by its start key. {resumed}")
    assert command == "  python /srv/print.py"


def test_every_end_is_remembered_once(perdure: Terminal, failed: str) -> None:
    ingest = ["memory", "ingest", "goals", failed]
    assert perdure.json(*ingest)["added"] == 1
    Path("paper").write_text("hello\n")
    assert perdure("goal", "retry", failed) == 0
    assert perdure.json(*ingest)["added"] == 1
    assert perdure("memory", "export") == 0
    records = [json.loads(line) for line in perdure.out.splitlines()]
    assert sorted(record["metadata"]["attempt"] for record in records) == [1, 2]
    assert [record["metadata"]["reason"] for record in records] == ["failed", "done"]
