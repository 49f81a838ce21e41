"""`perdure run --key`: the same key is the same goal, of a command, a plan or a flow; anything else is refused."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from perdure import Perdure, failpoints
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.minds.flow import registry
from tests.app.holds import claim_by_dead_workers
from tests.crash import program
from tests.interfaces.cli.terminal import Terminal

PLAN = """
goal: publish
steps:
  - {id: fetch, exec: "sh -c 'echo fetched | tee -a fetched'"}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [fetch]}
"""
FLOW = """
from perdure import flow

def note(word):
    with open("noted", "a") as book:
        book.write(word)
    return word

@flow
async def noting(goal, word, *, times=1):
    return [await goal.step(note, word) for _ in range(times)]

@flow
async def other(goal, word):
    return await goal.step(note, word)
"""


@pytest.fixture(autouse=True)
def work(ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan and two flows; another test's module of that name is forgotten."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "keyed_flows", raising=False)
    for name in ("noting", "other"):
        monkeypatch.delitem(registry._FLOWS, f"keyed_flows:{name}", raising=False)
    (ready / "plan.yaml").write_text(PLAN)
    (ready / "keyed_flows.py").write_text(FLOW)


def test_a_command_is_run_once_and_its_outcome_printed_ever_after(perdure: Terminal) -> None:
    command = ["run", "--shell", "echo hello | tee -a said; exit 3", "--key", "k"]
    assert perdure(*command) == 1
    before = perdure.goals()
    for _ in range(2):
        assert perdure(*command) == 1
        assert perdure.out == "hello\n"
        assert "has ended already; nothing was run" in perdure.err
    assert perdure.json(*command)["id"] == before[0]["id"]
    assert perdure.goals() == before
    assert Path("said").read_text() == "hello\n"


def test_a_plan_continues_by_its_key_when_its_question_was_answered(perdure: Terminal) -> None:
    command = ["run", "--plan", "plan.yaml", "--key", "k"]
    assert perdure(*command, "--max-iterations", "9") == 5
    assert perdure(*command, "--max-iterations", "1") == 5
    assert perdure("goal", "answer", perdure.newest(), "yes") == 0
    assert perdure(*command) == 0
    assert perdure(*command) == 0
    assert perdure.out == "fetched\n"
    assert len(perdure.goals()) == 1
    assert Path("fetched").read_text() == "fetched\n"


def test_a_flow_is_run_once_and_what_it_returned_is_printed_again(perdure: Terminal) -> None:
    for args in ('["a"]', ' [ "a" ]', '{"word": "a"}'):
        assert perdure("run", "--flow", "keyed_flows:noting", "--args", args, "--key", "k") == 0
        assert perdure.out == '["a"]\n'
    assert Path("noted").read_text() == "a"
    assert len(perdure.goals()) == 1


LONG = "x" * 600
STARTS = {
    "command": ["--", "true"],
    "plan": ["--plan", "plan.yaml"],
    "flow": ["--flow", "keyed_flows:noting", "--args", f'["{LONG}a"]'],
}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("command", ["--", "false"], "which is 'true', and not 'false'"),
        ("command", ["--shell", "true"], "which is run without a shell"),
        ("command", STARTS["plan"], "which is a command, 'true', and not a plan"),
        ("plan", ["--", "publish"], "which is a plan, 'publish', and not a command"),
        ("plan", ["--plan", "other.yaml"], "another plan: line 5 was '  - {id: sure, ask"),
        ("plan", ["--plan", "longer.yaml"], "line 6 was '', and is '  - {id: more, exec: [true]}' now"),
        ("plan", ["--plan", "shorter.yaml"], "and is missing now"),
        ("flow", ["--flow", "keyed_flows:other", "--args", '["a"]'], "the flow keyed_flows:noting, and not keyed_flo"),
        ("flow", ["--flow", "keyed_flows:noting", "--args", '["b"]'], "and not ['b']"),
        ("flow", ["--flow", "keyed_flows:noting", "--args", f'["{LONG}b"]'], "xb']. Use another key"),
    ],
)
def test_a_key_that_started_something_else_is_refused_and_the_difference_said(
    perdure: Terminal, first: str, second: list[str], said: str
) -> None:
    Path("other.yaml").write_text(PLAN.replace("Publish?", "Really?"))
    Path("longer.yaml").write_text(f"{PLAN}  - {{id: more, exec: [true]}}\n")
    Path("shorter.yaml").write_text("\n".join(PLAN.split("\n")[:4]))
    perdure("run", "--key", "k", *STARTS[first])
    before = perdure.goals()
    assert perdure("run", "--key", "k", *second) == 4
    assert perdure.err.splitlines()[-1].startswith(f"perdure: The key 'k' started {before[0]['id']}, which ")
    assert said in perdure.err
    assert perdure.err.endswith("Nothing was run.\n")
    assert perdure.goals() == before
    assert perdure("run", "--key", "k", *STARTS[first]) in (0, 5)


def test_without_a_key_or_with_another_one_each_run_is_a_goal_of_its_own(perdure: Terminal) -> None:
    for key in ([], [], ["--key", "a"], ["--key", "b"]):
        assert perdure("run", *key, "--", "true") == 0
    assert len(perdure.goals()) == 4


def test_the_key_of_a_deleted_goal_is_free_again(perdure: Terminal) -> None:
    perdure("run", "--key", "k", "--", "true")
    perdure("goal", "delete", perdure.newest(), "--yes")
    assert perdure("run", "--key", "k", "--", "false") == 1
    assert [goal["text"] for goal in perdure.goals()] == ["false"]


@pytest.mark.parametrize("key", ["", " ", "a\nb", "a\x1bb", "\udcff", "x" * 201])
def test_a_key_that_is_none_is_refused(perdure: Terminal, key: str) -> None:
    assert perdure("run", "--key", key, "--", "true") == 2
    assert "A key must have 1 to 200 characters and no control characters" in perdure.err
    assert perdure.goals() == []


@pytest.mark.parametrize("others", [["--resume", "20"], ["--continue"], ["--list"], ["--ephemeral", "--", "true"]])
def test_a_key_is_for_a_new_goal_that_is_kept(perdure: Terminal, others: list[str]) -> None:
    assert perdure("run", "--key", "k", *others) == 2
    assert "--key applies to a new durable goal" in perdure.err


def test_changed_code_is_refused_by_key_with_the_fork_that_continues(perdure: Terminal) -> None:
    Path("keyed_flows.py").write_text(
        FLOW.replace("for _ in range(times)]", "for _ in range(times)] + [await goal.ask('?')]")
    )
    command = ["run", "--flow", "keyed_flows:noting", "--args", '["a"]', "--key", "k", "--home", "elsewhere"]
    assert perdure(*command) == 5
    sys.modules.pop("keyed_flows")
    registry._FLOWS.pop("keyed_flows:noting")
    Path("keyed_flows.py").write_text(FLOW)
    assert perdure(*command) == 4
    assert perdure.err.endswith("--before ask --home elsewhere\n")


def test_who_was_a_moment_too_late_with_a_key_prints_what_the_other_has_done(perdure: Terminal, ready: Path) -> None:
    command = ["run", "--shell", "echo hello | tee -a said", "--key", "k"]
    rivals = [command]

    def let_the_other_be_quicker() -> None:
        if rivals:
            assert program.run(Path(os.environ["PERDURE_HOME"]), ready, *rivals.pop())[0] == 0

    with failpoints.armed("kernel.append.before", let_the_other_be_quicker):
        assert perdure(*command) == 0
    assert perdure.out == "hello\n"
    assert "has ended already; nothing was run." in perdure.err
    assert Path("said").read_text() == "hello\n"
    assert len(perdure.goals()) == 1


async def put_on_hold(home: Path, goal_id: str) -> None:
    async with Perdure.open(home) as p:
        await claim_by_dead_workers(p, goal_id, range(3))
        await p.goals.resume_run(goal_id, RunOptions(is_automatic=True))


def test_the_key_of_a_goal_on_hold_does_not_release_it(perdure: Terminal, ready: Path) -> None:
    command = ["run", "--plan", "plan.yaml", "--key", "k"]
    assert perdure(*command) == 5
    goal_id = perdure.newest()
    asyncio.run(put_on_hold(ready.parent / "home", goal_id))
    assert perdure(*command) == 5
    assert "is on hold; nothing was run" in perdure.err
    assert f"perdure goal resume {goal_id}" in perdure.err
    assert perdure.goals()[0]["waiting_for"] == "hold"
    assert perdure("run", "--resume", goal_id) == 5
    assert perdure.goals()[0]["waiting_for"] == "person"
