"""Goals with children killed by SIGKILL at every append and beside the creation of the children: nothing is lost."""

import asyncio
import os
import shutil
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from perdure import Goal, GoalFailed, Perdure, failpoints, flow
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


@flow
async def rival(goal: Goal, folder: str) -> str:
    """Run a child beside a step that fails as long as a file is missing: then the child is cancelled."""
    async with asyncio.TaskGroup() as group:
        named = group.create_task(goal.child(slow_kid, folder))
        group.create_task(goal.options(effect="idempotent").step(fail, folder))
    return named.result()


@flow
async def slow_kid(goal: Goal, folder: str) -> str:
    first = await goal.options(effect="idempotent").step(note, folder, "first")
    return first + await goal.options(effect="idempotent").step(hold, folder)


async def hold(folder: str) -> str:
    note(folder, "begun")
    while not Path(folder, "fixed").exists():  # noqa: ASYNC110 (another process makes it)
        await asyncio.sleep(0.01)
    return note(folder, "held")


async def fail(folder: str) -> None:
    while not Path(folder, "begun").exists():  # noqa: ASYNC110 (the child is another goal)
        await asyncio.sleep(0.01)
    if not Path(folder, "fixed").exists():
        raise ValueError("not fixed")


async def run_rival(home: Path, url: str, folder: Path) -> None:
    async with open_goals(home, url) as goals:
        with pytest.raises(GoalFailed):
            await goals.options(key=KEY).run(rival, str(folder))
    Path(folder, "fixed").touch()


async def retry_rival(home: Path, url: str, hits: int | None = None) -> None:
    """Retry the parent, once for all processes that do it, and die at the nth append."""
    left = hits or 0

    def blow() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with failpoints.armed("kernel.append.after", blow):
        async with open_goals(home, url) as goals:
            assert (await goals.retry(f"key:{KEY}", key="retry")).value == "firstheld"


@pytest.mark.parametrize("hits", range(1, 7))
async def test_a_kill_after_any_append_of_a_retry_that_continues_a_cancelled_child_loses_nothing(
    database_url: str, tmp_path: Path, hits: int
) -> None:
    home, folder = tmp_path / "home", tmp_path / "done"
    folder.mkdir()
    children.run(run_rival, home, database_url, folder)
    killed = children.start(retry_rival, home, database_url, hits)
    assert children.end_of(killed) == -signal.SIGKILL
    children.run(retry_rival, home, database_url)
    async with open_goals(home, database_url) as goals:
        found = await goals.list()
        assert {goal.summary.flow: goal.status for goal in found} == {"rival": "done", "slow_kid": "done"}
        for goal in found:
            events = await goals.history(goal.id)
            assert [event.type for event in events].count("reopened") == 1
            replay(events, await goals._store.find(goal.id))
    assert counted(folder, "first") == 1
    assert 1 <= counted(folder, "held") <= 2


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
