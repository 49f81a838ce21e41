"""A disk that takes no more between an effect and its record: the step is unknown, and is settled without a restart."""

import resource
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure import Unavailable
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.new_goal import NewGoal
from perdure.kernel.events import Event, MindSpec
from perdure.kernel.fold import GoalState
from perdure.kernel.loop import Loop
from tests import children
from tests.crash.goals import counted, open_goals

PLAN = """
goal: fill
steps:
  - {id: first, shell: true, exec: "echo . >> first"}
  - {id: second, shell: true, exec: "echo . >> second", needs: [first]}
"""


def when_begun(step: str, path: Path) -> RunOptions:
    """Let the log of the database not grow any more as soon as the intent of a step is recorded."""

    def fill(_events: Sequence[Event], state: GoalState) -> None:
        if step in {call.call.step for call in state.open_calls.values()}:
            size = path.with_name(f"{path.name}-wal").stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def watch(loop: Loop) -> None:
        loop.journal.listen(fill)

    return RunOptions(watch=watch)


async def fill_up_and_go_on(home: Path, verdict: str) -> None:
    path = home / "perdure.db"
    async with open_goals(home, str(path)) as goals:
        with pytest.raises(Unavailable):
            await goals.begin(NewGoal("fill", MindSpec("plan", plan=PLAN), home), when_begun("second", path))
        assert counted(home, "second") == 1
        (goal,) = await goals.list()
        goal_id = goal.summary.goal_id
        with pytest.raises(Unavailable):
            await goals.resume_run(goal_id)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        ran = await goals.resume_run(goal_id)
        assert [call_id for call_id, call in ran.state.open_calls.items() if call.unknown] == ["second.1"]
        await goals.decide(goal_id, verdict)
        assert (await goals.resume_run(goal_id)).state.status == "done"
        assert (await goals.replay(goal_id)).state.status == "done"


@pytest.mark.parametrize(("verdict", "times"), [("skip", 1), ("retry", 2)])
def test_a_step_whose_record_did_not_fit_the_disk_is_unknown_until_a_person_decides(
    tmp_path: Path, verdict: str, times: int
) -> None:
    children.run(fill_up_and_go_on, tmp_path, verdict)
    assert (counted(tmp_path, "first"), counted(tmp_path, "second")) == (1, times)
