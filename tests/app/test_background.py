"""Goals that polling finds: one whose run makes no progress is left alone for a while."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.background import BackgroundRuns
from perdure.kernel.events import GoalBegun, Head, MindSpec, seal
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import ClaimedGoal
from tests.app.serving import until
from tests.kernel.world import HandClock

POLLS = 10


def begun() -> GoalState:
    return fold([seal(GoalBegun("g", MindSpec("flow")), Head("g"), event_id="e", iteration=0, timestamp_us=0)])


@dataclass
class StuckGoals:
    """One open goal, which every poll finds and no run moves on."""

    polls: int = 0
    runs: list[str] = field(default_factory=list)

    @property
    def queues(self) -> "StuckGoals":
        return self

    async def unsure(self, _queue: str) -> list[GoalView]:
        self.polls += 1
        return []

    async def claim_next(self, _queue: str, *, skip: Mapping[str, int], after: str | None) -> ClaimedGoal | None:
        goal = GoalView.of_state(begun(), queue="server").summary
        assert after is None
        return None if skip.get("g") == goal.last_seq else ClaimedGoal(goal, 1, None)

    def is_held_here(self, _goal_id: str) -> bool:
        return False

    async def each_due(self, **_options: Any) -> AsyncIterator[GoalView]:
        nothing: list[GoalView] = []
        for goal in nothing:
            yield goal

    async def run(self, claimed: ClaimedGoal, _run_options: RunOptions) -> RunResult:
        self.runs.append(claimed.goal.goal_id)
        return RunResult("waiting", begun(), "server")


async def test_a_goal_whose_run_makes_no_progress_is_run_again_only_after_some_seconds() -> None:
    goals, clock = StuckGoals(), HandClock()
    background = BackgroundRuns(cast("Goals", goals), clock, queue="server")

    def is_polled(times: int) -> bool:
        background.poll_soon()
        return goals.polls >= times

    polling = asyncio.create_task(background.run())
    await until(lambda: is_polled(POLLS))
    assert goals.runs == ["g"]
    await clock.sleep(5)
    await until(lambda: is_polled(2 * POLLS))
    assert goals.runs == ["g", "g"]
    await background.close()
    await polling
