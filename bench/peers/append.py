"""Perdure: events through the store alone, without a runtime."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bench.ours import Written, step_body
from bench.peers.program import GOALS, WARM, Asked, per_second, run, since_start_ms, us_each
from perdure import DatabaseClient
from perdure.kernel.events import Head
from perdure.kernel.ports import GoalStore

_GOAL = "resumed"


def _opened(asked: Asked, work: Callable[[GoalStore], Awaitable[float | None]]) -> float | None:
    async def main() -> float | None:
        async with await DatabaseClient.create(asked.url or Path(asked.folder) / "perdure.db") as db:
            return await work(db.state_store())

    return asyncio.run(main())


def _steps(asked: Asked) -> float | None:
    async def work(store: GoalStore) -> float:
        await (await Written.begin(store, f"warm-{time.time_ns()}")).steps(WARM)
        start = time.perf_counter()
        await (await Written.begin(store, f"steps-{time.time_ns()}")).steps(asked.n)
        return us_each(start, asked.n)

    return _opened(asked, work)


def _many(asked: Asked) -> float | None:
    async def work(store: GoalStore) -> float:
        await (await Written.begin(store, "warm")).steps(WARM)
        start = time.perf_counter()
        goals = await asyncio.gather(*(Written.begin(store, f"goal-{number}") for number in range(GOALS)))
        await asyncio.gather(*(goal.steps(asked.n) for goal in goals))
        return per_second(start, GOALS * asked.n)

    return _opened(asked, work)


def _prepare(asked: Asked) -> float | None:
    async def work(store: GoalStore) -> None:
        goal = await Written.begin(store, _GOAL)
        await goal.append(goal.sealed(*(step_body(number) for number in range(asked.n))))

    return _opened(asked, work)


def _resume(asked: Asked) -> float | None:
    async def work(store: GoalStore) -> float:
        events = await store.load(_GOAL)
        goal = Written(store, _GOAL, Head(_GOAL, events[-1].seq, events[-1].hash))
        await goal.append(goal.sealed(step_body(len(events))))
        return since_start_ms()

    return _opened(asked, work)


def _cold(asked: Asked) -> float | None:
    async def work(store: GoalStore) -> float:
        await (await Written.begin(store, f"cold-{time.time_ns()}")).steps(1)
        return since_start_ms()

    return _opened(asked, work)


if __name__ == "__main__":
    run({"steps": _steps, "many": _many, "prepare": _prepare, "resume": _resume, "cold": _cold}, "perdure")
