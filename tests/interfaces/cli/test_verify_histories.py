"""`perdure db verify` and `perdure doctor` on histories, one of which was changed by one byte."""

import json
from pathlib import Path

import pytest

from tests.interfaces.cli.terminal import Terminal
from tests.interfaces.cli.test_damaged import edit

CHANGE = "UPDATE events SET payload = replace(payload, 'true', 'trUe') WHERE seq = 1"

RESTORE = "Restore a backup from before the damage (`perdure db restore`)"


@pytest.fixture
def goal(ready: Path, perdure: Terminal) -> str:  # noqa: ARG001 (the home that it is in)
    assert perdure("run", "--", "true") == 0
    return perdure.newest()


def test_verify_names_a_history_that_was_changed(perdure: Terminal, goal: str) -> None:
    assert perdure("db", "verify") == 0
    edit(CHANGE)
    assert perdure("db", "verify", "--json") == 7
    found = json.loads(perdure.out)
    or_delete = f"or delete it (`perdure goal delete {goal} --force`)"
    said = f"Event 1 of {goal} was changed: its hash does not match. {RESTORE}, {or_delete}."
    assert (found["ok"], found["problems"]) == (False, [said])


def test_doctor_checks_a_sample_and_says_what_checks_all(perdure: Terminal, goal: str) -> None:
    found = {check["name"]: check for check in perdure.json("doctor")["checks"]}
    assert "checked 1 of 1 histories, all valid; `perdure db verify` checks all" in found["database"]["detail"]
    edit(CHANGE)
    assert perdure("doctor") == 7
    assert f"Event 1 of {goal} was changed" in " ".join(perdure.out.split())


@pytest.mark.parametrize("command", [["db", "verify"], ["doctor"], ["goal", "replay"]], ids=" ".join)
def test_a_changed_event_is_named_with_the_fork_that_continues_before_it(
    perdure: Terminal, goal: str, command: list[str]
) -> None:
    edit("UPDATE events SET timestamp = timestamp + 1 WHERE seq = 3")
    assert perdure(*command, *([goal] if command[0] == "goal" else [])) == 7
    said = " ".join((perdure.out + perdure.err).split())
    fork = ["goal", "fork", goal, "--before", "command", "--repeat", "command"]
    assert f"{RESTORE}, or fork the goal before the damage (`perdure {' '.join(fork)}`)" in said
    fork_id = perdure.json(*fork)["id"]
    assert perdure("goal", "resume", fork_id) == 0


def test_a_goal_whose_last_event_is_missing_can_be_forked_before_it(perdure: Terminal, goal: str) -> None:
    edit("DELETE FROM events WHERE seq = (SELECT max(seq) FROM events)")
    assert perdure("goal", "replay", goal) == 7
    assert "is missing" in perdure.err
    before = perdure.err.partition("--at ")[2].partition("`")[0]
    assert perdure("goal", "fork", goal, "--at", before) == 0
    assert perdure("goal", "fork", goal, "--at", str(int(before) + 1)) == 7


def test_a_goal_with_a_changed_event_is_shown_with_the_damage(perdure: Terminal, goal: str) -> None:
    edit(CHANGE)
    assert perdure("goal", "show", goal) == 7
    assert "trUe" in perdure.out
    assert f"perdure: Event 1 of {goal} was changed" in perdure.err
    assert perdure("goal", "show", goal, "--json") == 7
    assert json.loads(perdure.out)["id"] == goal
    assert f"Event 1 of {goal}" in perdure.err
