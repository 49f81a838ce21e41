"""What else may happen to goals: a server throws everybody out, many decide at once, an orphan is cancelled."""

import asyncio
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

import psycopg
import pytest

from perdure import Conflict, Unavailable
from perdure.app.goals.goals import Goals
from perdure.kernel.events import Decision, decode
from tests import children
from tests.crash.goals import carry_on, counted, is_running, open_goals, rest_of, run_plan
from tests.crash.size import torture_size
from tests.crash.test_kill_plans import ONCE, PLAN
from tests.crash.test_rivals import LONG, told_by_the_step
from tests.postgres import PostgresServer

MANY = 8
ASKING = """
goal: ask
steps:
  - {id: sure, ask: {question: "Who was first?"}}
"""


async def _throw_out(url: str, interval_s: float, thrown_out: list[int]) -> None:
    """End every connection to a database but our own, again and again, and count them."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            ended = await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            thrown_out.append(ended.rowcount)
            await asyncio.sleep(interval_s)


async def _try_to_finish(goals: Goals, number: int, folder: Path) -> bool:
    """Go on with a goal, or begin it, and settle what is unknown by what is seen outside; return whether it is over."""
    found = await goals.list()
    if len(found) <= number:
        await run_plan(goals, PLAN, folder)
        return False
    goal_id = found[0].summary.goal_id
    ran = await goals.resume_run(goal_id)
    for call in ran.state.open_calls.values():
        verdict = "skip" if counted(folder, call.call.step) else "retry"
        await goals.decide(goal_id, verdict, call_id=call.call.call_id)
    return ran.state.termination is not None


@pytest.mark.torture
async def test_a_server_that_throws_its_clients_out_all_the_time_makes_no_effect_happen_twice(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.new_database("thrown_out")
    thrown_out: list[int] = []
    failures = 0
    async with open_goals(tmp_path, url) as goals:
        for number in range(torture_size(small=3)):
            folder = tmp_path / f"work-{number}"
            folder.mkdir()
            is_over = False
            disturber = asyncio.create_task(_throw_out(url, 0.03 + 0.03 * number % 0.1, thrown_out))
            while not is_over:
                try:
                    is_over = await _try_to_finish(goals, number, folder)
                except (Unavailable, Conflict):
                    failures += 1
                if failures > 10 * (number + 1):
                    disturber.cancel()
            disturber.cancel()
            await asyncio.wait([disturber])
            assert (await goals.replay((await goals.list())[0].summary.goal_id)).state.status == "done"
            assert [counted(folder, step) for step in ONCE] == [1, 1, 1, 1]
    assert sum(thrown_out) > 0


async def answer_at_once(home: Path, url: str, goal_id: str, name: str, barrier: Barrier, pipe: Connection) -> None:
    async with open_goals(home, url) as goals:
        barrier.wait()
        try:
            await goals.decide(goal_id, "answer", value=name)
            pipe.send("posted")
        except Conflict:
            pipe.send("too late")


async def test_of_many_who_answer_at_once_one_counts_and_nothing_is_left_behind(
    database_url: str, tmp_path: Path
) -> None:
    async with open_goals(tmp_path, database_url) as goals:
        goal_id = (await run_plan(goals, ASKING, tmp_path)).state.goal_id
    ours, theirs = children.context().Pipe(duplex=False)
    barrier = children.context().Barrier(MANY)
    names = [f"n{i}" for i in range(MANY)]
    rivals = [children.start(answer_at_once, tmp_path, database_url, goal_id, name, barrier, theirs) for name in names]
    theirs.close()
    assert [children.end_of(rival) for rival in rivals] == [0] * MANY
    assert set(rest_of(ours)) <= {"posted", "too late"}
    async with open_goals(tmp_path, database_url) as goals:
        assert await goals.pending(goal_id) == []
        events = await goals.history(goal_id)
        answers = [body for event in events if isinstance(body := decode(event), Decision)]
        assert len(answers) == 1
        assert answers[0].value in names
        assert (await goals.resume_run(goal_id)).state.status == "done"


async def test_cancelling_a_goal_whose_worker_was_killed_ends_what_it_left_running(
    database_url: str, tmp_path: Path
) -> None:
    ours, theirs = children.context().Pipe(duplex=False)
    worker = children.start(carry_on, tmp_path, database_url, LONG, theirs)
    pids = told_by_the_step(tmp_path)
    worker.kill()
    children.end_of(worker)
    assert all(is_running(pid) for pid in pids)
    async with open_goals(tmp_path, database_url) as goals:
        (goal,) = await goals.list()
        cancelled = await goals.cancel(goal.summary.goal_id)
        assert (cancelled.status, cancelled.summary.reason) == ("cancelled", "cancelled")
        assert not any(is_running(pid) for pid in pids)
        with pytest.raises(Conflict):
            await goals.cancel(goal.summary.goal_id)
    ours.close()
