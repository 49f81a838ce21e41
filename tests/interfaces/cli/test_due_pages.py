"""`perdure goal resume --due`: nobody's goals keep those of others from going on."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from perdure import Goal, Perdure, flow
from perdure.app.goals.new_goal import of_flow
from tests.interfaces.cli.terminal import Terminal

MORE_THAN_A_PAGE = 210


@flow
async def nap(goal: Goal) -> str:
    await goal.sleep(1)  # long enough to be parked on a busy machine, too
    return "awake"


async def parked(ready: Path, elsewhere: Path) -> list[str]:
    """Start flows that slept a moment, many of another folder first, then one of this; and wait until all are due."""
    here = of_flow(nap, [], {})
    async with Perdure.open() as p:
        for folder in [*[elsewhere] * MORE_THAN_A_PAGE, ready]:
            assert (await p.goals.begin(replace(here, workdir=folder))).outcome == "waiting"
        while len(due := [view async for view in p.goals.each_due()]) <= MORE_THAN_A_PAGE:
            pass
    return [view.summary.goal_id for view in due]


@pytest.fixture(autouse=True)
def parks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_PARK_AFTER_S", "0")


def test_flows_of_another_folder_do_not_delay_other_goals(ready: Path, tmp_path: Path, perdure: Terminal) -> None:
    *_, ours = asyncio.run(parked(ready, tmp_path / "elsewhere"))
    found = {goal["id"]: goal["status"] for goal in perdure.json("goal", "resume", "--due")["goals"]}
    assert len(found) == MORE_THAN_A_PAGE + 1
    assert found[ours] == "done"
