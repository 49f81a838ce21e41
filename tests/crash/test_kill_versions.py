"""Workers that are killed by SIGKILL while the code of their flow is changed: versions, ids and chance hold."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perdure import Flow, Goal, failpoints, flow
from tests import children
from tests.crash.flows import note
from tests.crash.goals import counted, open_goals


def old_code() -> Flow[[str], Any]:
    @flow(name="versioned")
    async def first(goal: Goal, folder: str) -> Any:
        step = goal.options(effect="idempotent").step
        drawn = await step(draw, str(goal.uuid()), goal.random().random(), goal.now().isoformat())
        await step(note, folder, "print")
        return [drawn, "printed", await step(note, folder, "last")]

    return first


def new_code() -> Flow[[str], Any]:
    """The same flow by its name, in another function, with a step that is replaced by two."""

    @flow(name="versioned")
    async def second(goal: Goal, folder: str) -> Any:
        step = goal.options(effect="idempotent").step
        drawn = await step(draw, str(goal.uuid()), goal.random().random(), goal.now().isoformat())
        if await goal.version("mail", 2) == 1:
            await step(note, folder, "print")
            return [drawn, "printed", await step(note, folder, "last")]
        await step(note, folder, "mail")
        await step(note, folder, "archive")
        return [drawn, "mailed", await step(note, folder, "last")]

    return second


def draw(*values: Any) -> list[Any]:
    return list(values)


async def run(home: Path, url: str, folder: str, *, is_new: bool, die_at: int) -> Any:
    """Run the goal with old or new code, and die right after the nth append; 0: live."""
    left = die_at

    def die() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    made = new_code() if is_new else old_code()
    async with open_goals(home, url) as goals:
        with failpoints.armed("store.append.after", die):
            return (await goals.options(key="k").run(made, folder)).value


def killed(home: Path, url: str, folder: Path, **how: Any) -> None:
    child = children.start(partial(run, home, url, str(folder), **how))
    assert children.end_of(child) == -signal.SIGKILL


@pytest.mark.parametrize(("old_dies", "new_dies", "ended"), [(1, 2, "mailed"), (2, 1, "printed")])
async def test_code_that_is_replaced_after_a_kill_finishes_what_the_old_code_has_begun(
    database_url: str, tmp_path: Path, old_dies: int, new_dies: int, ended: str
) -> None:
    place = tmp_path / "home", database_url, tmp_path
    killed(*place, is_new=False, die_at=old_dies)
    killed(*place, is_new=True, die_at=new_dies)
    async with open_goals(place[0], place[1]) as goals:
        (before,) = await goals.list()
        assert not before.is_final
    (uuid, number, now), how, last = await run(place[0], place[1], str(tmp_path), is_new=True, die_at=0)
    assert (how, last) == (ended, "last")
    assert isinstance(uuid, str)
    assert 0 <= number < 1
    assert now.endswith("+00:00")
    assert bool(counted(tmp_path, "print")) == (ended == "printed")
    assert bool(counted(tmp_path, "archive")) == (ended == "mailed")
