"""Run and start flows: arguments and results keep their types."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

from perdure import (
    Flow,
    Goal,
    GoalFailed,
    GoalHandle,
    GoalOptions,
    GoalResult,
    GoalStatus,
    GoalWaiting,
    Limits,
    Perdure,
    flow,
)


@dataclass(frozen=True)
class Report:
    day: str
    lines: int


@flow
async def report(goal: Goal, day: str, *, lines: int = 10) -> Report:
    return await goal.step(Report, day, lines)


async def main() -> None:
    async with Perdure.open(app="shop", recover=True) as p:
        result = await p.goals.run(report, "2026-11-15", lines=3)
        assert_type(result, GoalResult[Report])
        assert_type(result.value, Report)
        assert_type(result.status, GoalStatus)
        print(result.value.day.upper(), result.id, result.reason, result.detail)

        options = p.goals.options(key="nightly", limits=Limits(usd=1.0), tags=["report"], on_failed="retry")
        assert_type(options, GoalOptions)
        assert_type((await options.run(report, day="2026-11-15")).value, Report)

        handle = await options.start(report, "2026-11-15")
        assert_type(handle, GoalHandle[Report])
        assert_type((await handle.result(timeout_s=60)).value.lines, int)
        assert_type(await handle.status(), GoalStatus)
        print(handle.id, (await handle.cancel()).status)

        started: GoalHandle[Report] = await p.goals.start(report, "2026-11-15", lines=5)
        command: GoalResult[Any] = await p.goals.run(["echo", "hello"])
        plan: GoalResult[Any] = await p.goals.run(Path("plan.yaml"))
        print(started, command.status, plan.status)


async def errors(p: Perdure, what: Flow[[str], Report]) -> Report | None:
    try:
        return (await p.goals.run(what, "2026-11-15")).value
    except GoalWaiting as waiting:
        print(waiting.waiting_for, waiting.due_at)
    except GoalFailed as failed:
        print(failed.id, failed.reason)
    return None
