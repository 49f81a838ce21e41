"""The next commands of a goal: the same from an exception, a look at the goal and a decision, in each queue."""

import shlex
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from perdure import GoalFailed, Perdure
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.errors import wait_of
from perdure.app.goals.new_goal import of_plan_text
from perdure.app.wire.next_commands import NextCommand

TWO = "goal: two\nsteps: [{id: one, ask: {question: '1?'}}, {id: two, ask: {question: '2?'}}]\n"


@pytest.fixture
async def p(tmp_path: Path) -> AsyncIterator[Perdure]:
    async with Perdure.open(tmp_path / "home") as p:
        yield p


async def seen(p: Perdure, goal_id: str) -> Sequence[NextCommand]:
    """What `goal show` and the REST API answer with."""
    return (await p.goals.look_into(await p.goals.get(goal_id))).next


@pytest.mark.parametrize("queue", ["cli", "server", "app.shop"])
async def test_the_next_commands_are_the_same_on_every_surface(p: Perdure, queue: str) -> None:
    ran = await p.goals.begin(of_plan_text(TWO, "plan"), RunOptions(queue=queue))
    goal_id, waiting = ran.state.goal_id, wait_of(ran)
    assert waiting is not None
    assert [*waiting.next] == [*await seen(p, goal_id)]
    assert ["--resume" in each.command for each in waiting.next] == [queue == "cli"] * 2
    decided = await p.goals.decide(goal_id, "answer", call_id="one.1", value="yes")
    assert [*decided.next] == [*await seen(p, goal_id)]
    assert ["--resume" in each.command for each in decided.next] == [queue == "cli"]
    again = await p.goals.resume_run(goal_id, RunOptions(queue=queue, is_woken=True))
    assert again.queue == queue


@pytest.mark.parametrize("is_implied", [True, False])
async def test_the_commands_of_an_exception_name_a_home_that_is_not_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_implied: bool
) -> None:
    home = tmp_path / "a home"
    monkeypatch.setenv("PERDURE_HOME", str(home if is_implied else tmp_path / "other"))
    named = [] if is_implied else ["--home", str(home)]
    async with Perdure.open(home) as p:
        with pytest.raises(GoalFailed) as failed:
            await p.goals.run(["false"])
        started = await p.goals.start(["false"])
        with pytest.raises(GoalFailed) as later:
            await started.result(timeout_s=30)
    for error in (failed.value, later.value):
        assert [shlex.split(each.command) for each in error.next] == [["perdure", "goal", "retry", error.id, *named]]
