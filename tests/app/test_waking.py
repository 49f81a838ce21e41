"""A server wakes goals of the command line: those that sleep, are due, and have no live worker."""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure import Goal, Perdure, flow
from perdure.app.goals.new_goal import NewGoal, of_flow
from perdure.app.home.system import SystemClock, observer
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.server_worker import WakeCli
from perdure.kernel.events import Wait
from perdure.text.moments import iso
from tests.app.holds import CALL, left_by_dead_worker
from tests.app.parked import parking
from tests.app.serving import at_work, become, seen_by_server
from tests.app.test_verification import edit

HERE = f"{__name__}:napping"
PAST = "2020-01-01T00:00:00+00:00"
SLEEPS = "goal: nap\nsteps:\n  - {id: nap, wait: 1s}\n  - {id: work, exec: 'touch done', needs: [nap]}\n"
WORKS_LONG = (
    "goal: nap\nsteps:\n  - {id: nap, wait: 1s}\n"
    "  - {id: work, exec: 'test -e go || sleep 60', shell: true, effect: idempotent, needs: [nap]}\n"
)
ASLEEP = Wait("nap.1", "nap", until=PAST)


@flow
async def napping(goal: Goal) -> str:
    await goal.sleep(0.01)
    return "rested"


@flow
async def versioned(goal: Goal) -> str:
    await goal.version("sign", 2)
    return str(await goal.ask("Go?"))


@pytest.fixture
async def p(tmp_path: Path, migrated_sqlite: str) -> AsyncIterator[Perdure]:
    database = shutil.copy(migrated_sqlite, tmp_path / "perdure.db")
    async with Perdure.open(tmp_path / "home", database_url=str(database)) as p:
        yield p


async def parked(p: Perdure, new: NewGoal) -> str:
    """Start a goal as the command line does, and return it; it sleeps, is due, and has no worker."""
    async with parking(p) as goals:
        ran = await goals.begin(new)
    assert ran.outcome == "waiting"
    assert ran.state.goal_id in {goal.id for goal in await p.goals.due()}
    return ran.state.goal_id


async def found(p: Perdure, goal_id: str) -> GoalView:
    return await p.goals.find(goal_id)


async def sleeping_plan(p: Perdure, folder: Path, text: str = SLEEPS, until: str = PAST) -> str:
    """Make a plan of the command line that sleeps and is due."""
    nap = replace(ASLEEP, until=until)
    return await left_by_dead_worker(p, nap, deaths=0, queue="cli", plan=text, workdir=folder)


async def test_a_plan_of_the_command_line_is_woken_in_its_folder_and_stays_of_the_command_line(
    p: Perdure, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    goal_id = await sleeping_plan(p, tmp_path)
    due_at = (await found(p, goal_id)).wire()["due_at"]
    with caplog.at_level(logging.INFO, "perdure.app.workers.server_worker"):
        async with at_work(p, wakes=WakeCli()):
            goal = await become(p, goal_id, "done")
    assert goal.summary.queue == "cli"
    assert (tmp_path / "done").exists()
    assert [record.message for record in caplog.records] == [f"resuming {goal_id}: due since {due_at}"]


async def test_a_server_that_wakes_nothing_leaves_goals_of_the_command_line_alone(p: Perdure, tmp_path: Path) -> None:
    goal_id = await sleeping_plan(p, tmp_path)
    async with at_work(p, wakes=None):
        await seen_by_server(p)
    assert (await found(p, goal_id)).status == "waiting"


@pytest.mark.parametrize(("named", "status"), [({HERE}, "done"), ({"other:flow"}, "waiting"), (set(), "waiting")])
async def test_a_flow_is_woken_only_if_the_setting_names_it(p: Perdure, named: set[str], status: str) -> None:
    goal_id = await parked(p, of_flow(napping, [], {}))
    async with at_work(p, wakes=WakeCli(frozenset(named))):
        await seen_by_server(p)
        assert (await become(p, goal_id, status)).summary.queue == "cli"


async def test_a_goal_that_sleeps_in_a_terminal_is_left_to_it(p: Perdure) -> None:
    goal_id = await parked(p, of_flow(napping, [], {}))
    leases = p.database.leases(boottime_s=SystemClock().boottime_s, is_dead=lambda _worker: False)
    terminal = replace(observer(p.settings.home, "terminal"), home_id="another home")
    await leases.renew(terminal, 30)
    await leases.claim(goal_id, terminal)
    async with at_work(p, wakes=WakeCli(frozenset({HERE}))):
        await seen_by_server(p)
    assert (await found(p, goal_id)).summary.worker == terminal.id


async def test_an_interrupted_goal_of_the_command_line_is_not_run(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p, CALL, deaths=1, queue="cli")
    async with at_work(p, wakes=WakeCli()):
        await seen_by_server(p)
    assert (await found(p, goal_id)).status == "interrupted"


async def test_a_goal_that_was_woken_by_a_server_that_died_is_woken_by_the_next(p: Perdure, tmp_path: Path) -> None:
    """A server is cut off in the step behind the nap: the row says still since when the goal was due."""
    goal_id = await sleeping_plan(p, tmp_path, WORKS_LONG)
    async with at_work(p, wakes=WakeCli()) as serving:
        while "work.1" not in (await p.goals.state(goal_id)).calls:  # noqa: ASYNC110 (the server runs it)
            await asyncio.sleep(0.005)
        serving.end_wait()
    assert (await found(p, goal_id)).status == "interrupted"
    (tmp_path / "go").touch()
    async with at_work(p, wakes=WakeCli()):
        assert (await become(p, goal_id, "done")).summary.queue == "cli"


async def test_a_damaged_goal_that_is_due_keeps_no_other_from_being_woken(p: Perdure, tmp_path: Path) -> None:
    damaged = await parked(p, of_flow(napping, [], {}))
    await edit(p.database, "UPDATE events SET payload = '{' WHERE seq = 1")
    goal_id = await sleeping_plan(p, tmp_path)
    async with at_work(p, wakes=WakeCli(frozenset({HERE}))):
        await become(p, goal_id, "done")
    assert (await found(p, damaged)).status == "waiting"


async def test_due_goals_that_cannot_be_woken_hide_no_other(
    p: Perdure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("perdure.app.workers.background._MOST_DUE", 2)
    for _ in range(5):
        await parked(p, of_flow(napping, [], {}))
    goal_id = await sleeping_plan(p, tmp_path, until=iso(SystemClock().now_us() + 20_000))
    async with at_work(p, wakes=WakeCli()):
        await become(p, goal_id, "done")


async def test_a_goal_of_the_command_line_that_kills_servers_when_it_is_woken_is_put_on_hold(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p, ASLEEP, deaths=3, queue="cli")
    async with at_work(p, wakes=WakeCli()):
        await seen_by_server(p)
        assert (await become(p, goal_id, "waiting")).summary.waiting_for == "hold"
    assert (await found(p, goal_id)).summary.queue == "cli"


async def test_a_goal_says_when_it_is_due_and_that_it_is_overdue(p: Perdure, tmp_path: Path) -> None:
    goal = await found(p, await sleeping_plan(p, tmp_path))
    due_us = goal.summary.due_us
    assert due_us is not None
    assert goal.wire()["due_at"] == iso(due_us)
    assert [goal.is_overdue(due_us - 1), goal.is_overdue(due_us)] == [False, True]
    done = await p.goals.resume(goal.id)
    ended = await found(p, done.id)
    assert (ended.wire()["due_at"], ended.is_overdue(due_us)) == (None, False)


async def test_a_goal_that_asks_a_person_after_it_recorded_a_version_is_not_due(p: Perdure) -> None:
    async with parking(p) as goals:
        waiting = await goals.begin(of_flow(versioned, [], {}))
    assert waiting.outcome == "waiting"
    assert await p.goals.due() == []
    summary = (await found(p, waiting.state.goal_id)).summary
    assert (summary.waiting_for, summary.due_us) == ("person", None)
