"""A plan with effects in the world outside, killed by SIGKILL at a random moment: no effect is repeated in silence."""

import random
import secrets
import time
from pathlib import Path

import pytest

from tests import children
from tests.crash.goals import carry_on, counted, open_goals, rest_of, settle
from tests.crash.size import torture_size

ONCE = ("first", "left", "right", "last")
PLAN = """
goal: effects
steps:
  - {id: first, shell: true, exec: "sleep 0.01; echo . >> first; sleep 0.01"}
  - {id: again, shell: true, exec: "echo . >> again", effect: idempotent, needs: [first]}
  - {id: left, shell: true, exec: "sleep 0.01; echo . >> left; sleep 0.02", needs: [first]}
  - {id: right, shell: true, exec: "sleep 0.02; echo . >> right; sleep 0.01", needs: [first]}
  - {id: last, shell: true, exec: "echo . >> last", needs: [again, left, right]}
"""
FAR_LESS_THAN_A_LEASE_S = 10.0


@pytest.fixture
def chance() -> random.Random:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # pytest shows it when the test fails
    return random.Random(seed)


@pytest.mark.torture
async def test_a_plan_that_was_killed_anywhere_does_every_once_step_once_or_names_it_unknown(
    database_url: str, tmp_path: Path, chance: random.Random
) -> None:
    for number in range(torture_size(small=10)):
        home = tmp_path / f"home-{number}"
        home.mkdir()
        _kill_at_a_random_moment(home, database_url, chance)
        async with open_goals(home, database_url) as goals:
            is_begun = number < len(await goals.list())
        if not is_begun:
            children.run(_run_to_the_end, home, database_url)
        await _finish(home, database_url)
        assert [counted(home, step) for step in ONCE] == [1, 1, 1, 1]
        assert counted(home, "again") in (1, 2)


def _kill_at_a_random_moment(home: Path, url: str, chance: random.Random) -> None:
    """Kill the process alone: what it has started lives on, as after a real crash."""
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(carry_on, home, url, PLAN, theirs)
    theirs.close()
    try:
        for _ in range(chance.randrange(10)):
            ours.recv()
        time.sleep(chance.uniform(0, 0.03))  # chance, not synchronisation
    except EOFError:
        pass
    child.kill()
    children.end_of(child)
    list(rest_of(ours))


async def _run_to_the_end(home: Path, url: str) -> None:
    ours, theirs = children.context().Pipe(duplex=False)
    await carry_on(home, url, PLAN, theirs)
    ours.close()


async def _finish(home: Path, url: str) -> None:
    """Resume until the goal is done; whoever looks at the world outside settles what is unknown."""
    for _ in range(6):
        begun_s = time.monotonic()
        outcome, status, unknown = _resumed(home, url)
        assert time.monotonic() - begun_s < FAR_LESS_THAN_A_LEASE_S, "a resume waited for a lease to expire"
        if outcome == "ended":
            assert status == "done"
            return
        assert (outcome, status) == ("waiting", "waiting")
        assert unknown
        assert all(counted(home, step) <= 1 for step in ONCE)
        async with open_goals(home, url) as goals:
            (goal,) = await goals.list(limit=1)
            for call_id in unknown:
                step = call_id.partition(".")[0]
                assert step in ONCE
                verdict = "skip" if counted(home, step) else "retry"
                await goals.decide(goal.summary.goal_id, verdict, call_id=call_id)
    raise AssertionError("it never came to an end")


def _resumed(home: Path, url: str) -> tuple[str, str, list[str]]:
    ours, theirs = children.context().Pipe(duplex=False)
    child = children.start(settle, home, url, theirs)
    theirs.close()
    with ours:
        told: tuple[str, str, list[str]] = ours.recv()
    assert children.end_of(child) == 0
    return told
