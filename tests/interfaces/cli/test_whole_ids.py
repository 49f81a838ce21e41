"""Commands that change something need a whole id; commands that only read accept a prefix of it."""

from pathlib import Path

import pytest

from tests.interfaces.cli.terminal import Terminal

PLAN = """
goal: publish
steps:
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}}
"""
CHANGING = {
    "run --resume": ["run", "--resume", "ID"],
    "resume": ["goal", "resume", "ID"],
    "retry": ["goal", "retry", "ID"],
    "cancel": ["goal", "cancel", "ID"],
    "approve": ["goal", "approve", "ID"],
    "deny": ["goal", "deny", "ID"],
    "answer": ["goal", "answer", "ID", "yes"],
    "answer --resume": ["goal", "answer", "ID", "yes", "--resume"],
    "decide": ["goal", "decide", "ID", "retry"],
    "signal": ["goal", "signal", "ID", "paid"],
    "fork": ["goal", "fork", "ID", "--at", "1"],
    "fork --resume": ["goal", "fork", "ID", "--at", "1", "--resume"],
    "delete": ["goal", "delete", "ID", "--yes"],
}
READING = ("show", "replay", "export", "diff")


@pytest.fixture
def goal(perdure: Terminal) -> str:
    Path("plan.yaml").write_text(PLAN)
    assert perdure("run", "--plan", "plan.yaml") == 5
    return perdure.newest()


@pytest.mark.parametrize("command", CHANGING)
def test_a_prefix_changes_nothing_and_the_error_names_the_whole_id(perdure: Terminal, goal: str, command: str) -> None:
    before = perdure.json("goal", "export", goal)
    words = [goal[:-1] if word == "ID" else word for word in CHANGING[command]]
    assert perdure(*words) == 3
    assert f"No goal has the id '{goal[:-1]}'. Did you mean {goal}? Commands that change a goal need" in perdure.err
    assert perdure.json("goal", "export", goal) == before
    assert len(perdure.goals()) == 1


@pytest.mark.parametrize("verb", READING)
def test_a_prefix_is_enough_to_read(perdure: Terminal, goal: str, verb: str) -> None:
    other = [goal[:-2]] if verb == "diff" else []
    assert perdure("goal", verb, goal[:-1], *other) == 0
    assert goal in perdure.out


def test_a_prefix_of_a_record_is_shown_and_not_forgotten(perdure: Terminal) -> None:
    record = perdure.json("memory", "add", "--type", "lesson", "--title", "The cart caches prices")["id"]
    assert perdure("memory", "show", record[:-1]) == 0
    assert perdure("memory", "forget", record[:-1], "--yes") == 3
    assert f"Did you mean '{record}'?" in perdure.err
    assert perdure("memory", "show", record) == 0
    assert perdure("memory", "forget", record, "--yes") == 0


def test_a_goal_that_is_taken_into_the_memory_is_named_by_its_whole_id(perdure: Terminal, goal: str) -> None:
    assert perdure("goal", "cancel", goal) == 0
    report = perdure.json("memory", "ingest", "goals", goal[:-1])
    assert (report["added"], report["skipped"]) == (0, 1)
    assert perdure.json("memory", "ingest", "goals", goal)["added"] == 1


def test_watching_after_the_end_of_a_goal_is_a_conflict(perdure: Terminal, goal: str) -> None:
    assert perdure("goal", "cancel", goal) == 0
    last = perdure.goals()[0]["last_seq"]
    assert perdure("goal", "watch", goal, "--after", str(last), "--jsonl") == 130
    assert perdure("goal", "watch", goal, "--after", str(last + 1)) == 4
    assert f"{goal} has events up to {last}" in perdure.err
    assert perdure("goal", "watch", goal, "--after", str(last + 1), "--json") == 4
    assert f'"last_seq":{last}' in perdure.out.replace(" ", "") + perdure.err.replace(" ", "")
