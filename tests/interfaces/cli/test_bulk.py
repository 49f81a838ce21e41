"""`perdure goal cancel | delete` for several goals, and what bulk retry is built on."""

import asyncio
import sys
from pathlib import Path

import pytest

from perdure import Conflict
from perdure.app import open_ephemeral
from perdure.app.goals import Goals
from perdure.app.new_goal import NewGoal
from perdure.app.views import GoalView
from perdure.interfaces.cli.command import Options
from perdure.interfaces.cli.edge import run
from perdure.interfaces.cli.goals.bulk import CANCEL, Verb, change_many, retry_verb
from perdure.kernel.events import MindSpec
from perdure.kernel.loop import Ran
from tests.interfaces.cli.terminal import Screen, Terminal

ASKS = "goal: ask\nsteps: [{id: sure, ask: {question: 'Go?'}}]"


def asking(perdure: Terminal, count: int) -> list[str]:
    Path("plan.yaml").write_text(ASKS)
    for _ in range(count):
        assert perdure("run", "--plan", "plan.yaml") == 5
    return [each["id"] for each in perdure.goals("--status", "waiting")]


def test_goals_are_cancelled_by_filter_and_the_others_stay(perdure: Terminal) -> None:
    perdure("run", "true")
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
    for verb in ("cancel", "delete"):
        assert perdure("goal", verb, *words, "--yes") == 2
        assert "id of a goal" in perdure.err


@pytest.mark.parametrize(("typed", "code"), [("n", 1), ("y", 0)])
def test_a_terminal_is_asked(perdure: Terminal, monkeypatch: pytest.MonkeyPatch, typed: str, code: int) -> None:
    perdure("run", "true")
    monkeypatch.setattr(sys, "stdin", Screen(f"{typed}\n"))
    monkeypatch.setattr(sys, "stderr", screen := Screen())
    assert run(["goal", "delete", "--status", "done"]) == code
    assert "Delete 1 goal?" in screen.getvalue()
    perdure("goal", "list", "--json")
    assert perdure.out.count('"id"') == code


def test_what_cannot_be_deleted_is_refused_with_its_reason_and_the_rest_is_deleted(perdure: Terminal) -> None:
    perdure("run", "true")
    (origin,) = asking(perdure, 1)
    perdure("goal", "fork", origin, "--at", "2")
    perdure("goal", "cancel", origin)
    assert perdure("goal", "delete", "--all", "--yes") == 1
    assert perdure.out.startswith("1 goal deleted.\nRefused: 1 goal.\n")
    assert f"  {origin}: {origin} has a fork, " in perdure.out
    told = perdure.json("goal", "delete", "--status", "cancelled", "--yes")
    assert (told["done"], [each["code"] for each in told["refused"]]) == ([], ["conflict"])


def test_goals_are_deleted_by_age(perdure: Terminal) -> None:
    perdure("run", "true")
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
    assert [(each["id"], "since it was counted" in each["reason"]) for each in told.data["refused"]] == [(second, True)]
    assert told.exit_code == 1


async def test_a_retried_goal_is_done_or_refused_by_how_its_run_ends(tmp_path: Path) -> None:
    """`Goals.reopen` as it is agreed on: it reopens a failed goal, runs it, and returns how that ended."""
    async with open_ephemeral() as goals:
        runs = [await goals.begin(NewGoal(text, MindSpec("command"), tmp_path)) for text in ("true", "false")]
        asked: list[tuple[str, str | None]] = []

        async def reopen(goal_id: str, _manner: object, *, reason: str | None = None) -> Ran:
            asked.append((goal_id, reason))
            return runs[len(asked) - 1]

        verb = retry_verb(lambda _goals: reopen, "fixed")
        view = await goals.get(runs[1].state.goal_id)
        seen = await verb.act(goals, view)
        assert seen is not None
        assert (seen.status, asked) == ("done", [(view.id, "fixed")])
        with pytest.raises(Conflict, match="failed again"):
            await verb.act(goals, view)
    assert (verb.applies_to, CANCEL.applies_to) == (("failed",), ("open", "waiting"))
