"""`perdure goal cancel | delete | retry` for several goals."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from perdure.app.goals.goals import Goals
from perdure.app.wire.goal_view import GoalView
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.errors import run
from perdure.interfaces.cli.goals.bulk import Verb, change_many
from tests.interfaces.cli.terminal import Screen, Terminal

ASKS = "goal: ask\nsteps: [{id: sure, ask: {question: 'Go?'}}]"


def asking(perdure: Terminal, count: int) -> list[str]:
    Path("plan.yaml").write_text(ASKS)
    for _ in range(count):
        assert perdure("run", "--plan", "plan.yaml") == 5
    return [each["id"] for each in perdure.goals("--status", "waiting")]


def test_goals_are_cancelled_by_filter_and_the_others_stay(perdure: Terminal) -> None:
    perdure("run", "--", "true")
    goals = asking(perdure, 6)
    assert perdure("goal", "cancel", "--status", "waiting", "--yes") == 0
    assert perdure.out == "6 goals cancelled.\n"
    assert perdure.err.startswith("6 goals to cancel:\n")
    assert (perdure.err.count(" waiting: person "), "… and 1 more" in perdure.err) == (5, True)
    assert [each["id"] for each in perdure.goals("--status", "cancelled")] == goals
    assert perdure.json("goal", "cancel", "--all", "--yes") == {"done": [], "refused": []}


def test_without_a_terminal_and_without_yes_nothing_is_done(perdure: Terminal) -> None:
    (goal,) = asking(perdure, 1)
    for words in (["cancel", "--all"], ["cancel", "--status", "waiting", "--json"], ["cancel", "--since", "1h"]):
        assert perdure("goal", *words) == 2
    assert [each["id"] for each in perdure.goals("--status", "waiting")] == [goal]


@pytest.mark.parametrize("words", [[], ["--all", "some-id"], ["some-id", "--status", "done"]])
def test_an_id_or_a_filter_is_needed_and_not_both(perdure: Terminal, words: list[str]) -> None:
    for verb in ("cancel", "delete", "retry"):
        assert perdure("goal", verb, *words, "--yes") == 2
        assert "id of a goal" in perdure.err


@pytest.mark.parametrize(("typed", "code"), [("n", 1), ("y", 0)])
def test_a_terminal_is_asked(perdure: Terminal, monkeypatch: pytest.MonkeyPatch, typed: str, code: int) -> None:
    perdure("run", "--", "true")
    monkeypatch.setattr(sys, "stdin", Screen(f"{typed}\n"))
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    assert run(["goal", "delete", "--status", "done"]) == code
    assert "Delete 1 goal?" in screen.getvalue()
    perdure("goal", "list", "--json")
    assert perdure.out.count('"id"') == code


def test_what_cannot_be_deleted_is_refused_with_its_reason_and_the_rest_is_deleted(perdure: Terminal) -> None:
    perdure("run", "--", "true")
    (origin,) = asking(perdure, 1)
    perdure("goal", "fork", origin, "--at", "2")
    perdure("goal", "cancel", origin)
    assert perdure("goal", "delete", "--all", "--yes") == 1
    assert perdure.out.startswith("1 goal deleted.\nRejected: 1 goal.\n")
    assert f"\n  {origin} has a fork, " in perdure.out
    told = perdure.json("goal", "delete", "--status", "cancelled", "--yes")
    assert (told["done"], [each["code"] for each in told["refused"]]) == ([], ["conflict"])


def test_goals_are_deleted_by_age(perdure: Terminal) -> None:
    perdure("run", "--", "true")
    assert perdure.json("goal", "delete", "--older-than", "1d", "--yes") == {"done": [], "refused": []}
    assert perdure("goal", "delete", "--older-than", "1 day", "--yes") == 2
    assert len(perdure.goals()) == 1


def test_delete_says_why_not_before_it_asks(perdure: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    (goal,) = asking(perdure, 1)
    monkeypatch.setattr(sys, "stdin", Screen("y\n"))
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    assert run(["goal", "delete", goal]) == 4
    assert "has not finished" in screen.getvalue()
    assert "Delete" not in screen.getvalue()


def test_a_goal_that_changed_since_it_was_counted_is_refused(perdure: Terminal) -> None:
    first, second = asking(perdure, 2)

    async def act(goals: Goals, goal: GoalView) -> GoalView:
        await goals.decide(second, "answer", value="yes")  # the goal that comes next is changed meanwhile
        return await goals.cancel(goal.id)

    verb = Verb("cancel", "cancelled", ("waiting",), act)
    options = Options(json=True, home=None, verbose=False, debug=False, no_input=True)
    told = asyncio.run(change_many(options, verb, {}, yes=True))
    assert [each["id"] for each in told.data["done"]] == [first]
    assert [(each["id"], "since the confirmation" in each["reason"]) for each in told.data["refused"]] == [
        (second, True)
    ]
    assert told.exit_code == 1


def test_failed_goals_are_retried_by_filter_and_one_that_fails_again_is_reported_as_failed(perdure: Terminal) -> None:
    assert perdure("run", "--", "cat", "one.txt") == 1
    assert perdure("run", "--", "cat", "two.txt") == 1
    assert perdure("run", "--", "true") == 0
    Path("one.txt").write_text("1")
    assert perdure("goal", "retry", "--status", "failed", "--yes", "--reason", "fixed", "--json") == 1
    told = json.loads(perdure.out)
    by_text = {goal["text"]: goal for goal in perdure.goals()}
    assert [each["id"] for each in told["done"]] == [by_text["cat one.txt"]["id"]]
    two = by_text["cat two.txt"]
    assert told["failed"] == [{"id": two["id"], "status": "failed", "detail": two["detail"]}]
    assert (told["waiting"], told["refused"]) == ([], [])
    assert {text: goal["status"] for text, goal in by_text.items()} == {
        "cat one.txt": "done",
        "cat two.txt": "failed",
        "true": "done",
    }


def test_a_bulk_retry_counts_what_became_of_the_goals_and_names_those_that_failed(perdure: Terminal) -> None:
    assert perdure("run", "--", "cat", "one.txt") == 1
    assert perdure("run", "--", "cat", "two.txt") == 1
    two = perdure.goals()[0]
    Path("one.txt").write_text("1")
    assert perdure("goal", "retry", "--all", "--yes") == 1
    assert perdure.out == f"2 goals retried: 1 done, 1 failed again.\n  {two['id']}  {two['detail']}\n"


def test_a_goal_that_waits_after_a_bulk_retry_is_counted_as_waiting(perdure: Terminal) -> None:
    Path("plan.yaml").write_text("goal: p\nsteps: [{id: a, exec: cat x}, {id: b, ask: {question: 'Go?'}, needs: [a]}]")
    assert perdure("run", "--plan", "plan.yaml") == 1
    goal = perdure.newest()
    Path("x").write_text("1")
    assert perdure("goal", "retry", "--all", "--yes") == 0
    assert perdure.out == f"1 goal retried: 1 waiting.\n  {goal}  waiting: person\n"


def test_the_examples_before_a_confirmation_are_aligned(perdure: Terminal) -> None:
    perdure("run", "--", "true")
    perdure("run", "--", "false")
    perdure("goal", "delete", "--all", "--yes")
    _, failed, done = perdure.err.splitlines()
    assert failed.index("  false") == done.index("  true")


def test_a_key_or_a_limit_is_for_one_retried_goal(perdure: Terminal) -> None:
    for words in (["--key", "k"], ["--max-iterations", "3"], ["--jsonl"]):
        assert perdure("goal", "retry", "--all", "--yes", *words) == 2
        assert "to one goal" in perdure.err
