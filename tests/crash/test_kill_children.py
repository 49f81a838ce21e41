"""Goals with children killed by SIGKILL at every append and beside the creation of the children: nothing is lost."""

import os
import shutil
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure import Goal, Perdure, failpoints, flow
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import new_goal
from perdure.kernel.history.replay import replay
from tests import children
from tests.app.serving import at_work, become
from tests.crash.goals import counted, open_goals

KEY = "the-parent"


def note(folder: str, name: str) -> str:
    with Path(folder, name).open("a") as file:
        file.write(".\n")
    return name


@flow
async def kid(goal: Goal, folder: str, name: str) -> str:
    """Leave a line in a file."""
    return await goal.options(effect="idempotent").step(note, folder, name)


@flow
async def family(goal: Goal, folder: str) -> list[str]:
    """Run two children, and a step after them."""
    names = await goal.gather(*(goal.child(kid, folder, f"kid-{number}") for number in range(2)))
    return [*names, await goal.options(effect="idempotent").step(note, folder, "after")]


async def run_family(home: Path, url: str, folder: Path, point: str | None = None, hits: int = 1) -> None:
    """Run the parent in the foreground, and die by SIGKILL at the nth hit of a point."""
    left = hits

    def blow() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with ExitStack() as stack:
        if point is not None:
            stack.enter_context(failpoints.armed(point, blow))
        async with open_goals(home, url) as goals:
            await goals.options(key=KEY).run(family, str(folder))


async def check(goals: Goals, folder: Path) -> None:
    """Check that each goal ended once, and each end of a child is recorded once in its parent."""
    found = await goals.list()
    assert Counter(goal.summary.flow for goal in found) == {"family": 1, "kid": 2}
    assert {goal.status for goal in found} == {"done"}
    for goal in found:
        events = await goals.history(goal.id)
        assert [event.type for event in events].count("termination") == 1
        replay(events, await goals._store.find(goal.id))
        if goal.summary.flow == "family":
            outputs = [event.content()["call_id"] for event in events if event.type == "tool_output"]
            assert len(set(outputs)) == len(outputs) == 3
            assert events[-1].content()["value"] == ["kid-0", "kid-1", "after"]
    for name in ("kid-0", "kid-1", "after"):
        assert 1 <= counted(folder, name) <= 2  # an idempotent step that was cut off is run again


@pytest.mark.parametrize("point", ["kernel.children.before", "kernel.children.after"])
async def test_a_kill_beside_the_creation_of_children_creates_each_once(
    database_url: str, tmp_path: Path, point: str
) -> None:
    home, folder = tmp_path / "home", tmp_path / "done"
    folder.mkdir()
    children.run_until(point, run_family, home, database_url, folder)
    children.run(run_family, home, database_url, folder)
    async with open_goals(home, database_url) as goals:
        await check(goals, folder)


@pytest.mark.parametrize("hits", range(1, 10))
async def test_a_kill_after_any_append_of_parent_and_children_loses_nothing(
    migrated_sqlite: str, tmp_path: Path, hits: int
) -> None:
    url = str(shutil.copy(migrated_sqlite, tmp_path / "own.db"))
    home, folder = tmp_path / "home", tmp_path / "done"
    folder.mkdir()
    killed = children.start(run_family, home, url, folder, "kernel.append.after", hits)
    assert children.end_of(killed) == -signal.SIGKILL
    children.run(run_family, home, url, folder)
    async with open_goals(home, url) as goals:
        await check(goals, folder)


async def serve_family(home: Path, url: str, folder: Path, point: str, hits: int) -> None:
    """Serve the parent until the nth hit of a point kills this process."""
    left = hits

    def blow() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async with Perdure.open(home, database_url=url) as p, at_work(p) as serving:
        with failpoints.armed(point, blow):
            started = await serving.start(new_goal(family, (str(folder),)))
            await become(p, started.id, "done")


@pytest.mark.parametrize(
    ("point", "hits"),
    [
        ("kernel.children.before", 1),  # the intents are durable
        ("kernel.children.after", 1),  # the children are created, and the parent is not released
        ("kernel.append.after", 5),
        ("kernel.append.after", 7),
        ("kernel.append.after", 8),
        ("kernel.append.after", 9),
    ],
)
async def test_the_next_server_continues_parent_and_children_by_itself(
    database_url: str, tmp_path: Path, point: str, hits: int
) -> None:
    home, folder = tmp_path / "home", tmp_path / "done"
    folder.mkdir()
    killed = children.start(serve_family, home, database_url, folder, point, hits)
    assert children.end_of(killed) == -signal.SIGKILL
    async with Perdure.open(home, database_url=database_url) as p, at_work(p):
        [parent] = await p.goals.list(flow="family")
        await become(p, parent.id, "done")
        await check(p.goals, folder)
