"""An application that is killed: another process of it resumes what was accepted, and nothing happens twice."""

import asyncio
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from perdure import Goal, Happened, Perdure, flow
from tests import children
from tests.app.serving import until
from tests.crash.flows import STEPS, counting, note

APP = "shop"


@flow
async def ordered(goal: Goal, folder: str) -> str:
    """Note one step, and be killed in the next one until a file says otherwise."""
    await goal.step(note, folder, "first")
    return str(await goal.options(effect="idempotent").step(deadly, folder))


def deadly(folder: str) -> str:
    if not Path(folder, "go").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return note(folder, "second")


async def start_orders(home: Path, url: str, folder: str, pipe: Connection) -> None:
    """Accept two orders, tell of each as soon as it is accepted, and die in one of them."""
    async with Perdure.open(home, database_url=url, app=APP, recover=True) as p:
        for run in (p.goals.start(counting, folder, "a"), p.goals.options(key="k").start(ordered, folder)):
            pipe.send((await run).id)
        await asyncio.Event().wait()


async def start_one(home: Path, url: str, folder: str) -> None:
    async with Perdure.open(home, database_url=url, app=APP) as p:
        await p.goals.options(key="k").start(counting, folder, "a")
        await asyncio.Event().wait()


def noted(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.name != "go"}


async def test_a_second_process_recovers_what_a_killed_one_has_accepted(database_url: str, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(start_orders, home, database_url, str(folder), theirs)
    theirs.close()
    accepted = [ours.recv(), ours.recv()]
    assert children.end_of(child) == -signal.SIGKILL
    (folder / "go").touch()
    async with Perdure.open(home, database_url=database_url, app=APP, recover=True) as p:
        results = [await (await p.goals.handle(goal_id)).result(timeout_s=60) for goal_id in accepted]
        again = await p.goals.options(key="k").run(ordered, str(folder))
    assert [result.value for result in results] == ["a", "second"]
    assert again == results[1]
    found = noted(folder)
    assert (found.pop("first"), found.pop("second")) == (".\n", ".\n")
    assert sorted(found) == [f"a-{number}" for number in range(STEPS)], "its steps may be repeated"


async def test_a_run_with_the_key_takes_over_from_a_process_that_is_killed(database_url: str, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    child = children.start(start_waiting, home, database_url, str(folder))
    assert child.pid is not None
    async with Perdure.open(home, database_url=database_url) as p:
        await until((folder / "held").exists)
        taken = asyncio.create_task(p.goals.options(key="k").run(held_once, str(folder)))
        done, _ = await asyncio.wait({taken}, timeout=0.3)
        assert not done, "it waits while the other process lives"
        (folder / "go").touch()
        os.kill(child.pid, signal.SIGKILL)
        assert (await asyncio.wait_for(taken, 60)).value == "after"
    children.end_of(child)
    assert noted(folder)["after"] == ".\n"


@flow
async def held_once(goal: Goal, folder: str) -> str:
    await goal.options(effect="idempotent").step(hold, folder)
    return str(await goal.step(note, folder, "after"))


async def hold(folder: str) -> None:
    note(folder, "held")
    if not Path(folder, "go").exists():
        await asyncio.Event().wait()


async def start_waiting(home: Path, url: str, folder: str) -> None:
    async with Perdure.open(home, database_url=url, app=APP) as p:
        await p.goals.options(key="k").run(held_once, folder)


@pytest.mark.parametrize("point", ["kernel.append.before", "kernel.append.after"])
async def test_a_start_is_durable_or_not_there_wherever_the_process_dies(point: str, tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "work"
    folder.mkdir()
    children.run_until(point, start_one, home, str(tmp_path / "perdure.db"), str(folder))
    async with Perdure.open(home, database_url=str(tmp_path / "perdure.db"), app=APP, recover=True) as p:
        handle = await p.goals.options(key="k").start(counting, str(folder), "a")
        assert (await handle.result(timeout_s=60)).value == "a"
        assert len(await p.goals.list()) == 1
    assert noted(folder) == {f"a-{number}": ".\n" for number in range(STEPS)}


CHARGES = 5


@flow
async def charging(goal: Goal, folder: str) -> list[str]:
    """Charge several times; the process dies after each charge, before its record."""
    return [await goal.options(check=was_charged).step(charge, folder, number) for number in range(CHARGES)]


def charge(folder: str, number: int) -> str:
    note(folder, f"charge-{number}")
    os.kill(os.getpid(), signal.SIGKILL)
    return f"receipt {number}"


def was_charged(folder: str, number: int) -> Happened[str] | bool:
    return Happened(f"receipt {number}") if Path(folder, f"charge-{number}").exists() else False


async def recover_charges(home: Path, url: str, folder: str) -> None:
    async with Perdure.open(home, database_url=url, app=APP, recover=True) as p:
        await p.goals.options(key="k").start(charging, folder)
        await asyncio.Event().wait()


async def test_a_goal_whose_checks_find_an_outcome_after_each_kill_is_not_put_on_hold(tmp_path: Path) -> None:
    home, folder, url = tmp_path / "home", tmp_path / "work", str(tmp_path / "perdure.db")
    folder.mkdir()
    for _ in range(CHARGES):
        child = children.start(recover_charges, home, url, str(folder))
        assert children.end_of(child) == -signal.SIGKILL
    async with Perdure.open(home, database_url=url, app=APP, recover=True) as p:
        result = await (await p.goals.handle(key="k")).result(timeout_s=60)
    assert result.value == [f"receipt {number}" for number in range(CHARGES)]
    assert noted(folder) == {f"charge-{number}": ".\n" for number in range(CHARGES)}
