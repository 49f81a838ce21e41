"""Rows that were edited by hand, past all triggers and checks: each command names what is wrong, and none hangs."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure import Damaged
from perdure.kernel.events import Event
from tests.interfaces.cli.terminal import Terminal

PLAN = """
goal: damaged
steps:
  - {id: first, exec: "true"}
  - {id: second, exec: "true", needs: [first]}
  - {id: sure, ask: {question: "Sure?"}, needs: [second]}
"""
LAST = 2**63 - 1
LOOKING = (["show"], ["replay"], ["export"], ["watch"], ["fork", "--at", "1"], ["diff"])
GOING_ON = (["resume"], ["answer", "yes"], ["cancel"], ["signal", "hello"])


@pytest.fixture
def goal(ready: Path, perdure: Terminal) -> str:
    (ready / "plan.yaml").write_text(PLAN)
    assert perdure("run", "--plan", "plan.yaml") == 5
    return perdure.newest()


def edit(*statements: str) -> None:
    """Change the database as nobody should."""
    with closing(sqlite3.connect(Path.cwd().parent / "home" / "perdure.db")) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")
        triggers = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for (name,) in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            assert connection.execute(statement).rowcount
        connection.commit()


def ask(perdure: Terminal, verb: list[str], goal_id: str) -> int:
    name, *rest = verb
    code = perdure("goal", name, goal_id, *([goal_id] if name == "diff" else rest))
    assert "Something went wrong inside" not in perdure.err
    return code


@pytest.mark.parametrize("verb", [*LOOKING, *GOING_ON], ids=lambda verb: verb[0])
@pytest.mark.parametrize("is_pair", [False, True], ids=["itself", "each other"])
def test_a_goal_that_is_its_own_ancestor_is_damaged(
    perdure: Terminal, goal: str, verb: list[str], is_pair: bool
) -> None:
    forks = [perdure.json("goal", "fork", goal, "--at", "1")["id"] for _ in range(2)]
    parents = reversed(forks) if is_pair else forks
    edit(*(f"UPDATE goals SET forked_from_id = '{p}' WHERE id = '{f}'" for f, p in zip(forks, parents, strict=True)))
    assert ask(perdure, verb, forks[0]) == 7
    assert f"fork of {forks[0]}" in perdure.err


@pytest.mark.parametrize("verb", [*LOOKING, *GOING_ON], ids=lambda verb: verb[0])
def test_a_fork_whose_parent_is_marked_deleted_is_damaged(perdure: Terminal, goal: str, verb: list[str]) -> None:
    fork = perdure.json("goal", "fork", goal, "--at", "1")["id"]
    edit(f"UPDATE goals SET deleted_at = 1 WHERE id = '{goal}'")
    assert ask(perdure, verb, fork) == 7
    assert f"{fork} is a fork of {goal}, which no longer exists" in perdure.err


EDITS = {
    "missing": "DELETE FROM events WHERE seq = 3",
    "changed": "UPDATE events SET payload = replace(payload, ':0,', ':1,') WHERE seq = 3",
    "no JSON": "UPDATE events SET payload = '{' WHERE seq = 3",
    "another time": f"UPDATE events SET timestamp = {LAST} WHERE seq = 3",
}


@pytest.mark.parametrize("verb", [["export"], ["replay"], *GOING_ON], ids=lambda verb: verb[0])
@pytest.mark.parametrize("kind", EDITS)
def test_nothing_is_exported_of_a_changed_history_and_nothing_is_added_to_it(
    perdure: Terminal, goal: str, verb: list[str], kind: str
) -> None:
    edit(EDITS[kind])
    assert ask(perdure, verb, goal) == 7
    assert "vent 3" in perdure.err
    assert perdure.out == ""
    assert {found["status"] for found in perdure.goals()} == {"waiting"}


@pytest.mark.parametrize("verb", [["show"], ["watch"], ["diff"], ["fork", "--at", "4"]], ids=lambda verb: verb[0])
@pytest.mark.parametrize("payload", ["{", "[1]"])
def test_a_history_that_cannot_be_read_is_damaged_wherever_it_is_looked_at(
    perdure: Terminal, goal: str, verb: list[str], payload: str
) -> None:
    edit(f"UPDATE events SET payload = '{payload}' WHERE seq = 3")
    assert ask(perdure, verb, goal) == 7
    assert "Event 3" in perdure.err


@pytest.mark.parametrize("kind", EDITS)
def test_a_goal_can_be_forked_before_what_was_changed_but_not_behind_it(
    perdure: Terminal, goal: str, kind: str
) -> None:
    edit(EDITS[kind])
    for place in (["--before", "first"], ["--at", "1"], ["--at", "2"]):
        assert ask(perdure, ["fork", *place, "--repeat", "first"], goal) == 0
    for place in (["--before", "first"], ["--at", "2"]):
        assert ask(perdure, ["fork", *place], goal) == 4, "its outcome is not known"
    for place in (["--at", "3"], ["--before", "second"], ["--after", "sure"]):
        assert ask(perdure, ["fork", *place], goal) == 7
        assert f"perdure goal fork {goal} --before first --repeat first`" in perdure.err


@pytest.mark.parametrize("payload", ["{", "[1]"])
def test_no_line_is_made_of_an_event_that_cannot_be_read(payload: str) -> None:
    with pytest.raises(Damaged, match="Event 6"):
        Event("g", 6, "0", "message", 0, 0, payload, b"").line()


@pytest.mark.parametrize("verb", [["list"], *LOOKING[:1], *GOING_ON], ids=lambda verb: verb[0])
@pytest.mark.parametrize("column", ["created_at", "updated_at", "due_at"])
def test_a_moment_that_no_calendar_has_is_shown_as_the_last(
    perdure: Terminal, goal: str, verb: list[str], column: str
) -> None:
    edit(f"UPDATE goals SET {column} = {LAST}")
    code = perdure("goal", "list") if verb == ["list"] else ask(perdure, verb, goal)
    assert code in (0, 5)


@pytest.mark.parametrize("us", [LAST, -LAST - 1])
def test_a_step_and_a_post_of_no_calendar_are_shown(perdure: Terminal, goal: str, us: int) -> None:
    edit(
        "INSERT INTO inbox (goal_no, id, kind, payload, key, created_at)"
        f""" SELECT goal_no, 'row', 'signal', '{{"name": "hello"}}', 'k', {us} FROM goals""",
        f"UPDATE events SET timestamp = {us}",
    )
    assert ask(perdure, ["show"], goal) == 7  # the hashes do not fit these timestamps
    assert "Pending since 9999-12-31 23:59:59 UTC" in perdure.out


@pytest.mark.parametrize("verb", [*LOOKING[:1], *GOING_ON], ids=lambda verb: verb[0])
@pytest.mark.parametrize("payload", ["[1]", "{"])
def test_something_posted_that_cannot_be_read_is_damaged(
    perdure: Terminal, goal: str, verb: list[str], payload: str
) -> None:
    edit(
        "INSERT INTO inbox (goal_no, id, kind, payload, key, created_at)"
        f" SELECT goal_no, 'row', 'signal', '{payload}', 'k', 1 FROM goals",
        "UPDATE goals SET inbox_count = 1",
    )
    assert ask(perdure, verb, goal) == 7
    assert "row" in perdure.err


def test_a_damaged_goal_is_listed_and_deleted_by_force(perdure: Terminal, goal: str) -> None:
    edit("UPDATE events SET payload = replace(payload, 'Sure', 'Pure') WHERE type = 'action'")
    assert perdure("run", "--", "true") == 0
    assert perdure("goal", "cancel", goal) == 7
    assert f"perdure goal delete {goal} --force" in perdure.err
    assert perdure("goal", "delete", goal, "--yes") == 4
    assert "--force" in perdure.err
    assert perdure("goal", "resume", "--due") == 0
    assert len(perdure.goals()) == 2
    assert perdure("goal", "delete", "--status", "waiting", "--force", "--yes") == 2
    assert perdure("goal", "delete", goal, "--force", "--yes") == 0
    assert len(perdure.goals()) == 1
    assert perdure("db", "verify") == 0
