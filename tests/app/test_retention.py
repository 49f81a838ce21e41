"""Old finished goals are deleted where a setting asks for it, and no others."""

import asyncio
import logging
from pathlib import Path

import pytest

from perdure import Invalid
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.app.goals.retention import Retention
from perdure.app.home.system import SystemClock
from perdure.kernel.events import MindSpec
from perdure.settings import load_settings

DAY_US = 86_400_000_000


class LaterClock(SystemClock):
    """The clock of somebody who comes back after some days; sleeping ends the run."""

    def __init__(self, days: int) -> None:
        super().__init__()
        self._days = days
        self.slept_s: list[float] = []

    def now_us(self) -> int:
        return super().now_us() + self._days * DAY_US

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        raise asyncio.CancelledError


def command(text: str, folder: Path) -> NewGoal:
    return NewGoal(text, MindSpec("command"), folder)


async def test_old_finished_goals_are_deleted_and_forks_before_their_origins(goals: Goals, tmp_path: Path) -> None:
    origin = (await goals.begin(command("true", tmp_path))).state.goal_id
    fork = (await goals.fork(origin, 3)).id
    await goals.resume_run(fork)
    queued = (await goals.enqueue(command("true", tmp_path), queue="cli")).id
    assert await Retention(goals, LaterClock(29), 30).delete_old() == 0
    assert await Retention(goals, LaterClock(31), 30).delete_old() == 2
    assert [goal.id for goal in await goals.list()] == [queued]


async def test_an_old_goal_with_an_unfinished_fork_is_kept(goals: Goals, tmp_path: Path) -> None:
    origin = (await goals.begin(command("true", tmp_path))).state.goal_id
    await goals.fork(origin, 3)
    assert await Retention(goals, LaterClock(31), 30).delete_old() == 0
    assert len(await goals.list()) == 2


async def test_the_server_deletes_once_an_hour_and_logs_how_many(
    goals: Goals, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await goals.begin(command("true", tmp_path))
    clock = LaterClock(31)
    with caplog.at_level(logging.INFO, "perdure.app.goals.retention"), pytest.raises(asyncio.CancelledError):
        await Retention(goals, clock, 30).run()
    assert clock.slept_s == [3600.0]
    assert [record.getMessage() for record in caplog.records] == ["deleted 1 goals older than 30 days"]


async def test_goals_are_kept_for_ever_by_default(goals: Goals, tmp_path: Path) -> None:
    await goals.begin(command("true", tmp_path))
    settings = load_settings({}, {"PERDURE_HOME": str(tmp_path)})
    await Retention(goals, LaterClock(10_000), settings.keep_days).run()
    assert len(await goals.list()) == 1


@pytest.mark.parametrize("written", ["-1", '"soon"', "1.5", "99999", "true"])
def test_a_number_of_days_is_checked(tmp_path: Path, written: str) -> None:
    config = tmp_path / "config.toml"
    config.write_text("[goals]\nkeep_days = 30\n")
    assert load_settings({}, {"PERDURE_HOME": str(tmp_path)}).keep_days == 30
    config.write_text(f"[goals]\nkeep_days = {written}\n")
    with pytest.raises(Invalid, match=r"goals\.keep_days"):
        assert load_settings({}, {"PERDURE_HOME": str(tmp_path)}).keep_days


@pytest.mark.parametrize(("text", "told"), [("[goals]\nkeep_day = 3\n", "goals.keep_days"), ("goals = 3\n", "a table")])
def test_an_unknown_setting_of_goals_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(Invalid, match=told):
        load_settings({}, {"PERDURE_HOME": str(tmp_path)})
