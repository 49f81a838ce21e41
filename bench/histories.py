"""Homes with goals in them, as they are after much work: a goal of many events, a list of many goals."""

import asyncio
import sqlite3
from pathlib import Path

from bench.ours import Written
from bench.peers.step import payload
from perdure import DatabaseClient
from perdure.kernel.events import Ask, Body, GoalBegun, Head, MindSpec, ToolCall, ToolError, ToolOutput

WAITS = 5
"""What `perdure run --resume` exits with when the goal waits for a person."""
_PLAN = """
goal: long
steps:
  - id: work
    exec: ["true"]
    effect: idempotent
    retry: {attempts: 9999}
  - id: sure
    needs: [work]
    ask: {question: "Go on?"}
"""


def long_goal(home: Path, events: int) -> str:
    """Write a goal whose one step was tried again and again, and which now waits for a person; return its id.

    A resume takes it, reads all of it, finds that it waits, and gives it back: it can be done again and again.
    """
    goal_id = f"long-{events}"

    async def main() -> None:
        async with await DatabaseClient.create(home / "perdure.db") as db:
            goal = Written(db.state_store(), goal_id, Head(goal_id))
            await goal.append(goal.sealed(*_tries(home, events)), mind="plan", status="waiting", release=True)

    asyncio.run(main())
    return goal_id


def _tries(home: Path, events: int) -> list[Body]:
    bodies: list[Body] = [GoalBegun("long", MindSpec("plan", plan=_PLAN), workdir=str(home))]
    tries = (events - 2) // 2
    for attempt in range(1, tries + 1):
        is_last = attempt == tries
        call_id = f"work.{attempt}"
        error = None if is_last else ToolError("exit", "exit code 1")
        bodies += [
            ToolCall(call_id, "work", "exec", {"argv": ["true"]}, "idempotent", attempt),
            ToolOutput(call_id, ok=is_last, output={"exit_code": 0, "stdout": payload(attempt)["text"]}, error=error),
        ]
    return [*bodies, Ask("sure.1", "sure", "Go on?")]


def many_goals(path: Path, count: int) -> None:
    """Write one goal by the store, and copy its row."""

    async def main() -> None:
        async with await DatabaseClient.create(path) as db:
            goal = await Written.begin(db.state_store(), "goal")
            await goal.steps(3)

    asyncio.run(main())
    with sqlite3.connect(path) as connection:
        names = [row[1] for row in connection.execute("PRAGMA table_info(goals)") if row[1] != "goal_no"]
        copied = ["id || '-' || number" if name == "id" else name for name in names]
        connection.execute(
            "WITH RECURSIVE numbers (number) AS"
            f" (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {count})"
            f" INSERT INTO goals ({', '.join(names)}) SELECT {', '.join(copied)} FROM goals, numbers"
        )
    connection.close()
