"""A copy of a home, and a home that was moved: neither ends what it cannot prove to be its own."""

import os
import shutil
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import of_plan_text
from perdure.app.home.system import observer
from perdure.kernel.fold import GoalState
from tests import children
from tests.crash.goals import counted, is_running, open_goals, run_plan
from tests.crash.test_rivals import until

LEASE_S = 30.0
PLAN = """
goal: copied
steps:
  - {id: send, shell: true, exec: "echo . >>send; echo $$ >>told; read x <gate", effect: EFFECT, retry: {attempts: 4}}
"""


async def work(home: Path, folder: Path, effect: str) -> None:
    async with open_goals(home, str(home / "perdure.db"), lease_s=LEASE_S) as goals:
        await run_plan(goals, PLAN.replace("EFFECT", effect), folder)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where the command runs, whichever home has the goal; its process ends with the test."""
    folder = tmp_path / "work"
    folder.mkdir()
    os.mkfifo(folder / "gate")
    yield folder
    for pid in (folder / "told").read_text().split():
        if is_running(int(pid)):
            os.killpg(int(pid), signal.SIGKILL)


def begun(home: Path, folder: Path, effect: str) -> tuple[ForkServerProcess, int]:
    """Start a worker, and return it with the process that its step consists of."""
    home.mkdir()
    worker = children.start(work, home, folder, effect)
    until(lambda: (folder / "told").exists() and bool((folder / "told").read_text().strip()))
    return worker, int((folder / "told").read_text())


async def resumed(goals: Goals, goal_id: str) -> GoalState:
    return (await goals.resume_run(goal_id)).state


async def cancelled(goals: Goals, goal_id: str) -> GoalState:
    await goals.cancel(goal_id)
    return await goals.state(goal_id)


async def when_free(home: Path, act: Callable[[Goals, str], Awaitable[GoalState]]) -> GoalState:
    """Do something with the one goal of a home by a clock at which the lease that was copied with it is over."""
    async with open_goals(home, str(home / "perdure.db"), ahead_s=2 * LEASE_S) as goals:
        (goal,) = await goals.list()
        assert not (await goals.find(goal.id)).is_running
        return await act(goals, goal.id)


@pytest.mark.parametrize("act", [resumed, cancelled])
@pytest.mark.parametrize("effect", ["once", "idempotent"])
async def test_a_copy_of_a_home_leaves_alone_what_the_original_runs(
    tmp_path: Path, folder: Path, act: Callable[[Goals, str], Awaitable[GoalState]], effect: str
) -> None:
    home, copy = tmp_path / "home", tmp_path / "copy"
    worker, pid = begun(home, folder, effect)
    subprocess.run(["cp", "-a", home, copy], check=True)  # noqa: ASYNC221 (nobody else waits)
    assert observer(copy).home_id != observer(home).home_id
    state = await when_free(copy, act)
    assert is_running(pid), "it is the original's"
    unknown = state.calls["send.1"].unknown
    assert unknown is not None
    assert str(pid) in unknown.why
    assert str(home) in unknown.why
    (folder / "gate").write_text("\n")
    assert children.end_of(worker) == 0, "the original goes on undisturbed"
    async with open_goals(home, str(home / "perdure.db")) as goals:
        assert [goal.status for goal in await goals.list()] == ["done"]
    assert counted(folder, "send") == 1


async def test_a_home_that_was_moved_leaves_alone_what_it_ran_at_its_old_place(tmp_path: Path, folder: Path) -> None:
    worker, pid = begun(tmp_path / "home", folder, "once")
    name = observer(tmp_path / "home").home_id
    worker.kill()
    children.end_of(worker)
    moved = (tmp_path / "home").rename(tmp_path / "moved")
    assert observer(moved).home_id == name
    state = await when_free(moved, resumed)
    assert is_running(pid)
    unknown = state.calls["send.1"].unknown
    assert unknown is not None
    assert f"{pid} still runs for the home {tmp_path / 'home'}" in unknown.why
    assert counted(folder, "send") == 1


FILED = """
goal: filed
steps:
  - {id: sure, ask: {question: "File it?", options: ["yes"]}}
  - {id: file, needs: [sure], shell: true, exec: "echo . >> filed"}
"""


@pytest.mark.parametrize("way", ["copied", "moved", "without its folder"])
async def test_a_goal_of_a_server_works_in_the_folder_of_the_home_that_resumes_it(tmp_path: Path, way: str) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    async with Perdure.open(home) as p:
        goal_id = (await p.goals.begin(replace(of_plan_text(FILED, "a plan"), workdir=None))).state.goal_id
    shutil.move(home, other) if way == "moved" else shutil.copytree(home, other)
    if way == "without its folder":
        shutil.rmtree(other / "work")
    async with Perdure.open(other) as p:
        await p.goals.decide(goal_id, "answer", value="yes")
        assert (await p.goals.resume(goal_id)).status == "done"
    assert (other / "work" / goal_id / "filed").exists()
    assert not (home / "work" / goal_id / "filed").exists()
