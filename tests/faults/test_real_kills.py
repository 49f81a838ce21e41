"""Random flows in an application that is killed by SIGKILL, at fail-points and at any moment, against the same oracle.

The processes are forked from a warm parent. Each runs ten flows at once; the next one resumes them.
"""

import os
import random
import secrets
import signal
import time
from pathlib import Path

import pytest

from tests import children
from tests.crash.goals import open_goals
from tests.crash.size import torture_size
from tests.faults.application import require_promised, run_flows, run_flows_and_say_so
from tests.faults.lives import POINTS

AT_ONCE = 10
SUITE_SEED = 1_000
_KILLS = 2
"""A goal whose workers have died three times is held for a person."""


@pytest.fixture
def database_url(own_url: str) -> str:
    """A migrated database for one test."""
    return own_url


@pytest.mark.torture
async def test_random_flows_of_an_application_that_is_killed_end_as_if_it_were_not(
    database_url: str, tmp_path: Path
) -> None:
    is_long = "PERDURE_TORTURE" in os.environ
    first = int(os.environ.get("FAULTS_SEED", secrets.randbits(40) if is_long else SUITE_SEED))
    for start in range(first, first + max(torture_size(small=0) // 20, AT_ONCE), AT_ONCE):
        await _try_flows(database_url, tmp_path, range(start, start + AT_ONCE))


async def _try_flows(url: str, place: Path, seeds: range) -> None:
    home, folder = place / "home", place / "effects"
    folder.mkdir(exist_ok=True)
    chance = random.Random(seeds.start)
    for _ in range(_KILLS):
        if chance.random() < 0.5:
            _kill_at_a_point(chance, home, url, str(folder), seeds)
        else:
            _kill_at_any_moment(chance, home, url, str(folder), seeds)
    children.run(run_flows, home, url, str(folder), seeds, None)
    async with open_goals(home, url) as goals:
        await require_promised(goals, seeds, str(folder))


def _kill_at_a_point(chance: random.Random, home: Path, url: str, folder: str, seeds: range) -> None:
    killed_at = chance.choice(POINTS), chance.randint(1, 60)
    child = children.start(run_flows, home, url, folder, seeds, killed_at)
    assert children.end_of(child) in (0, -signal.SIGKILL)


def _kill_at_any_moment(chance: random.Random, home: Path, url: str, folder: str, seeds: range) -> None:
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(run_flows_and_say_so, home, url, folder, seeds, theirs)
    theirs.close()
    ours.recv()
    time.sleep(chance.uniform(0.05, 1.0))
    child.kill()
    assert children.end_of(child) in (0, -signal.SIGKILL)
