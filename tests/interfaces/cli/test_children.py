"""Children on the command line: how a parent waits for one, what is printed, and how both are continued."""

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_flows import forget
from tests.interfaces.cli.test_one_goal_object import over_http

FLOWS = """
from perdure import flow


@flow
async def approval(goal, question):
    return await goal.ask(question, ["yes", "no"])


@flow
async def quick(goal, number):
    return number


@flow
async def grandchild(goal, number):
    return await goal.step(abs, number)


@flow
async def middle(goal, number):
    return await goal.child(grandchild, number) + await goal.step(abs, 1)


@flow
async def top(goal):
    return await goal.gather(goal.child(middle, 1), goal.child(middle, 2))


@flow
async def parent(goal):
    return [await goal.child(quick, 3), await goal.child(approval, "Publish?")]
"""


@pytest.fixture(autouse=True)
def own_module(ready: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module of this test alone."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (ready / "family.py").write_text(FLOWS)
    importlib.invalidate_caches()
    forget("family")
    yield
    forget("family")


def started(perdure: Terminal) -> tuple[str, str]:
    """Run the parent until its child asks; return the ids of both."""
    assert perdure("run", "--flow", "family:parent") == 5
    [parent] = perdure.goals("--flow", "parent")
    [child] = perdure.goals("--flow", "approval")
    return parent["id"], child["id"]


def test_a_parent_that_waits_names_the_commands_of_its_child(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "family:parent") == 5
    said = perdure.err
    [child] = perdure.goals("--flow", "approval")
    assert f"goal answer {child['id']} ANSWER" in said
    assert child["parent"]["call_id"] == "/approval#0.1"


def test_show_and_list_name_children_and_parents(perdure: Terminal) -> None:
    parent, child = started(perdure)

    shown = perdure.json("goal", "show", parent)
    assert [(each["id"], each["status"]) for each in shown["children"]][-1] == (child, "waiting")
    assert [each["call_id"] for each in shown["children"]] == ["/quick#0.1", "/approval#0.1"]
    assert f"goal answer {child}" in shown["next"][0]["command"]
    perdure("goal", "show", child)
    assert f"child of  {parent}" in perdure.out
    perdure("goal", "list")
    assert f"child of {parent}" in perdure.out or f"(child of {parent[:20]}" in perdure.out
    assert {goal["text"] for goal in perdure.goals("--parent", parent)} == {"quick(3)", "approval('Publish?')"}


def test_a_child_took_as_long_as_its_parent_waited_for_it(perdure: Terminal) -> None:
    parent, child = started(perdure)
    assert perdure("goal", "answer", child, "yes") == 0
    assert perdure("goal", "resume", parent) == 0

    [call] = [each for each in perdure.json("goal", "show", parent)["timeline"] if each["step"] == "/approval#0"]
    waited = datetime.fromisoformat(call["ended_at"]) - datetime.fromisoformat(call["began_at"])
    assert call["duration_ms"] == waited // timedelta(milliseconds=1) > 0


def test_a_child_that_is_answered_alone_offers_to_resume_its_parent(perdure: Terminal) -> None:
    parent, child = started(perdure)

    assert perdure("goal", "answer", child, "yes", "--resume") == 0
    assert f"goal resume {parent}" in perdure.err
    assert perdure("goal", "resume", parent) == 0
    assert perdure.json("goal", "show", parent)["output"] == [3, "yes"]


def test_a_resume_of_the_parent_continues_an_answered_child(perdure: Terminal) -> None:
    parent, child = started(perdure)

    assert perdure("goal", "answer", child, "no") == 0
    assert perdure("goal", "resume", parent) == 0
    assert perdure.json("goal", "show", parent)["output"] == [3, "no"]


def test_a_cancelled_parent_takes_its_child_along_and_both_are_deleted(perdure: Terminal) -> None:
    parent, child = started(perdure)

    assert perdure("goal", "delete", parent, "--yes") == 4
    perdure("goal", "cancel", parent)
    assert {goal["status"] for goal in perdure.goals("--parent", parent)} == {"cancelled", "done"}
    assert perdure("goal", "delete", parent, "--yes") == 0
    assert perdure("goal", "show", child) == 3


def test_watch_shows_the_steps_of_children_of_children_before_the_end_of_each(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "family:top") == 0
    [top] = perdure.goals("--flow", "top")

    assert perdure("goal", "watch", top["id"]) == 0

    said = [line for line in perdure.err.splitlines() if "step" in line]
    for branch in ("g1.0/middle#0", "g1.1/middle#0"):
        started = said.index(f"step {branch}: started")
        own = [place for place, line in enumerate(said) if line.startswith(f"[{branch}] step /abs#0: done")]
        below = [place for place, line in enumerate(said) if line.startswith(f"[{branch} /grandchild#0] step /abs#0")]
        [done] = [place for place, line in enumerate(said) if line.startswith(f"step {branch}: done")]
        assert len(own) == 1
        assert len(below) == 2
        assert started < min(below) < max(below) < own[0] < done


def test_watch_shows_only_the_events_of_the_goal_to_programs_and_after_a_seq(perdure: Terminal) -> None:
    assert perdure("run", "--flow", "family:top") == 0
    [top] = perdure.goals("--flow", "top")

    assert perdure("goal", "watch", top["id"], "--jsonl") == 0
    assert {event["goal_id"] for event in perdure.events} == {top["id"]}
    assert perdure("goal", "watch", top["id"], "--after", str(top["last_seq"])) == 0
    assert "[g1.0/middle#0]" not in perdure.err


def test_watch_shows_a_child_that_was_resumed(perdure: Terminal) -> None:
    parent, child = started(perdure)
    assert perdure("goal", "answer", child, "yes", "--resume") == 0
    assert perdure("goal", "resume", parent) == 0

    assert perdure("goal", "watch", parent) == 0
    assert "[/approval#0] step /ask#0: asks: Publish?" in perdure.err
    assert "[/approval#0] step /ask#0: answered: yes" in perdure.err
    assert perdure.err.index("answered: yes") < perdure.err.index("step /approval#0: done")


def test_a_parent_and_its_ended_child_are_the_same_objects_from_every_command_and_http(perdure: Terminal) -> None:
    perdure("run", "--flow", "family:parent", "--json")
    parent = json.loads(perdure.out)
    assert [(each["call_id"], each["status"]) for each in parent["children"]] == [
        ("/quick#0.1", "done"),
        ("/approval#0.1", "waiting"),
    ]
    assert perdure.json("goal", "show", parent["id"]) == asyncio.run(over_http(parent["id"])) == parent
    child = parent["children"][1]["id"]
    perdure("goal", "answer", child, "yes", "--resume", "--json")
    ended = json.loads(perdure.out)
    assert (ended["status"], [each["command"] for each in ended["next"]]) == (
        "done",
        [f"perdure goal resume {parent['id']}"],
    )
    assert perdure.json("goal", "show", child) == perdure.json("goal", "watch", child) == ended
    assert asyncio.run(over_http(child)) == ended
