"""Processes that decide on the same call at the same moment, again and again, on both databases."""

from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Perdure
from tests import children
from tests.crash.goals import open_goals, rest_of
from tests.crash.size import torture_size
from tests.waiting import RIVALS, WaitsFor, waiting_goal

Told = tuple[str, str, str]
"""A goal, what a process has decided, and the answer: "ok", or why not."""


async def decide_all(
    home: Path, url: str, goal_ids: list[str], verdict: str, barrier: Barrier, pipe: Connection
) -> None:
    """Decide on the same call of each goal, at the same moment as the other process."""
    async with open_goals(home, url) as goals:
        for goal_id in goal_ids:
            barrier.wait(60)
            try:
                await goals.decide(goal_id, verdict, call_id="pay.1")
                pipe.send((goal_id, verdict, "ok"))
            except Conflict as error:
                pipe.send((goal_id, verdict, error.detail))


def raced(home: Path, url: str, goal_ids: list[str], verdicts: tuple[str, str]) -> list[Told]:
    found: list[Told] = []
    barrier = children.context().Barrier(2)
    pipes = [children.context().Pipe(duplex=False) for _ in verdicts]
    rivals = [
        children.start(decide_all, home, url, goal_ids, verdict, barrier, theirs)
        for verdict, (_, theirs) in zip(verdicts, pipes, strict=True)
    ]
    for ours, theirs in pipes:
        theirs.close()
        found += rest_of(ours)
    assert [children.end_of(rival) for rival in rivals] == [0, 0]
    return found


@pytest.mark.torture
@pytest.mark.parametrize("waits_for", ["unknown", "approval"])
async def test_of_two_processes_that_decide_at_once_one_is_acknowledged_and_its_decision_recorded(
    database_url: str, tmp_path: Path, waits_for: WaitsFor
) -> None:
    home, verdicts = tmp_path / "home", RIVALS[waits_for]
    async with Perdure.open(home, database_url=database_url) as p:
        store = p.database.state_store()
        goal_ids = [await waiting_goal(store, waits_for, home) for _ in range(torture_size(small=15))]
        told = raced(home, database_url, goal_ids, verdicts)
        for goal_id in goal_ids:
            answers: dict[str, str] = {verdict: answer for name, verdict, answer in told if name == goal_id}
            assert len(answers) == 2
            (accepted,) = [verdict for verdict, answer in answers.items() if answer == "ok"]
            (why,) = [answer for answer in answers.values() if answer != "ok"]
            assert why == f"pay.1 was already decided: {accepted}."
            assert await decided(p, goal_id) == [accepted]


async def decided(p: Perdure, goal_id: str) -> list[Any]:
    recorded = [event.content()["decision"] for event in await p.goals.history(goal_id) if event.type == "decision"]
    return recorded + [row.payload["decision"] for row in await p.goals.pending(goal_id)]
