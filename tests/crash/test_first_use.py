"""Several processes that use a new home at the same moment: one makes it, and all the others wait for that."""

import time
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from perdure import Perdure, failpoints
from tests import children
from tests.crash import program

MANY = 4
SLOW_S = 0.8
"""As long as a cold process on a busy machine needs to make a database."""


async def open_new(home: Path, barrier: Barrier) -> None:
    """Open a home that is not there yet, at the same moment as others; whoever makes its database is slow."""
    barrier.wait()
    with failpoints.armed("store.create.before", lambda: time.sleep(SLOW_S)):
        async with Perdure.open(home) as p:
            assert await p.goals.list() == []


@pytest.mark.parametrize("round_", range(3))
def test_all_who_open_a_new_home_at_once_have_it(tmp_path: Path, round_: int) -> None:
    barrier = children.context().Barrier(MANY)
    rivals = [children.start(open_new, tmp_path / f"home-{round_}", barrier) for _ in range(MANY)]
    assert [children.end_of(rival) for rival in rivals] == [0] * MANY


def test_all_who_run_a_goal_in_a_new_home_at_once_have_run_it(tmp_path: Path) -> None:
    started = [program.start(tmp_path / "home", tmp_path, ["run", "--", "true"]) for _ in range(MANY)]
    ended = [each.end() for each in started]
    assert [code for code, _ in ended] == [0] * MANY, ended
