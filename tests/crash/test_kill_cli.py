"""The real program, killed by SIGKILL at a random moment, resumed and settled by its own verbs."""

import os
import random
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crash import program
from tests.crash.goals import counted, open_goals
from tests.crash.size import torture_size
from tests.crash.test_kill_plans import FAR_LESS_THAN_A_LEASE_S, ONCE, PLAN

pytest.importorskip("perdure.interfaces.cli.goals.run_ui.interrupts")


@pytest.mark.torture
async def test_a_plan_that_was_killed_is_finished_by_resume_and_decide(tmp_path: Path) -> None:
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # pytest shows it when the test fails
    chance = random.Random(seed)
    for number in range(torture_size(small=3)):
        folder, home = tmp_path / f"work-{number}", tmp_path / f"home-{number}"
        folder.mkdir()
        (folder / "plan.yaml").write_text(PLAN)
        _kill_at_a_random_moment(home, folder, chance)
        async with open_goals(home, str(home / "perdure.db")) as goals:
            found = [goal.summary.goal_id for goal in await goals.list()]
        if found:
            await _finish(home, folder, found[0])
        else:
            assert program.run(home, folder, "run", "--plan", "plan.yaml")[0] == 0
        assert [counted(folder, step) for step in ONCE] == [1, 1, 1, 1]
        assert counted(folder, "again") in (1, 2)


def _kill_at_a_random_moment(home: Path, folder: Path, chance: random.Random) -> None:
    """Kill the process alone, a moment after it has said some lines; its steps live on."""
    with subprocess.Popen(
        [sys.executable, "-m", "perdure", "run", "--plan", "plan.yaml"],
        cwd=folder,
        env=os.environ | {"PERDURE_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as perdure:
        assert perdure.stderr is not None
        for _ in range(chance.randrange(1, 12)):
            perdure.stderr.readline()
        time.sleep(chance.uniform(0, 0.03))
        perdure.kill()
        perdure.stderr.close()


async def _finish(home: Path, folder: Path, goal_id: str) -> None:
    for _ in range(6):
        begun_s = time.monotonic()
        code, said = program.run(home, folder, "run", "--resume", goal_id)
        assert time.monotonic() - begun_s < FAR_LESS_THAN_A_LEASE_S
        if code == 0:
            return
        assert code == 5, said
        async with open_goals(home, str(home / "perdure.db")) as goals:
            state = await goals.state(goal_id)
        unknown = [call for call in state.open_calls.values() if call.unknown is not None]
        assert unknown
        for call in unknown:
            assert call.call.call_id in said
            verdict = "skip" if counted(folder, call.call.step) else "retry"
            assert program.run(home, folder, "goal", "decide", goal_id, call.call.call_id, verdict)[0] in (0, 5)
    raise AssertionError("it never came to an end")
