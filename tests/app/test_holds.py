"""Goals that kill their workers: held instead of run automatically, and released by a person."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Goal, GoalWaiting, Perdure, Unavailable, failpoints, flow
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.new_goal import of_command
from perdure.kernel.events import Ask, Hold, Released, Wait, decode
from tests.app.holds import CALL, WHY, claim_by_dead_workers, left_by_dead_worker
from tests.app.serving import at_work, become, seen_by_server, until

AUTOMATIC = RunOptions(queue="server", is_automatic=True, tell=None)
TWO = "goal: two\nsteps: [{id: work, exec: 'true'}, {id: sure, ask: {question: 'Sure?'}}]\n"
NAP = "goal: nap\nsteps: [{id: work, exec: 'true', effect: idempotent}, {id: nap, wait: 1s}]\n"
PAST = "2020-01-01T00:00:00+00:00"


@pytest.fixture
async def p(tmp_path: Path, migrated_sqlite: str) -> AsyncIterator[Perdure]:
    """A home on SQLite; what the stores do with deaths and holds is the contract's."""
    database = shutil.copy(migrated_sqlite, tmp_path / "perdure.db")
    async with Perdure.open(tmp_path / "home", database_url=str(database)) as p:
        yield p


async def types(p: Perdure, goal_id: str) -> list[str]:
    return [event.type for event in await p.goals.history(goal_id)]


async def test_an_automatic_run_holds_a_goal_that_killed_three_workers(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p)
    ran = await p.goals.resume_run(goal_id, AUTOMATIC)
    found = await p.goals.find(goal_id)
    assert (ran.outcome, ran.state.hold) == ("waiting", Hold("crash_loop", 3, ("work",)))
    assert (found.status, found.summary.waiting_for, found.summary.worker) == ("waiting", "hold", None)
    assert found.wire()["detail"] == WHY
    assert await types(p, goal_id) == ["goal", "action", "hold"]


async def test_an_automatic_run_runs_a_goal_that_killed_two_workers(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p, deaths=2)
    ran = await p.goals.resume_run(goal_id, AUTOMATIC)
    assert (ran.state.status, (await p.goals.find(goal_id)).summary.deaths) == ("done", 0)


async def test_a_person_runs_a_goal_that_killed_three_workers(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p)
    assert (await p.goals.resume(goal_id)).status == "done"
    assert "hold" not in await types(p, goal_id)


async def test_a_person_releases_a_goal_that_is_on_hold_and_runs_it(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p)
    await p.goals.resume_run(goal_id, AUTOMATIC)
    assert (await p.goals.resume(goal_id)).status == "done"
    events = await p.goals.history(goal_id)
    assert decode(events[3]) == Released("person")
    assert (await p.goals.find(goal_id)).summary.deaths == 0


async def test_a_server_leaves_a_goal_on_hold_until_it_is_resumed_over_the_api(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p)
    async with at_work(p) as serving:
        await become(p, goal_id, "waiting")
        other = await serving.start(of_command("true"))
        await become(p, other.id, "done")
        assert (await p.goals.find(goal_id)).summary.waiting_for == "hold"
        await serving.resume(goal_id)
        await become(p, goal_id, "done")
    assert (await types(p, goal_id))[2:4] == ["hold", "released"]


async def test_a_goal_on_hold_that_is_resumed_while_the_server_is_full_is_queued_and_runs(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p, queue="cli")
    await p.goals.resume_run(goal_id, AUTOMATIC)
    async with at_work(p, most=0) as serving:
        assert (await serving.resume(goal_id)).is_queued
    assert await types(p, goal_id) == ["goal", "action", "hold", "released"]
    async with at_work(p):
        await become(p, goal_id, "done")


async def test_many_goals_that_kill_their_workers_do_not_keep_a_server_from_the_others(p: Perdure) -> None:
    """More than it runs at once: those behind them have to get their turn."""
    held = [await left_by_dead_worker(p) for _ in range(70)]
    async with at_work(p, most=64) as serving:
        other = await serving.start(of_command("true"))
        await become(p, other.id, "done")
        for goal_id in held:
            assert (await become(p, goal_id, "waiting")).summary.waiting_for == "hold"


async def test_what_is_posted_to_a_goal_on_hold_is_recorded_and_does_not_run_it(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p, CALL, Ask("sure.1", "sure", "Sure?"), plan=TWO)
    await p.goals.resume_run(goal_id, AUTOMATIC)
    await p.goals.signal(goal_id, "hello")
    await p.goals.decide(goal_id, "answer", value="yes")
    async with at_work(p):
        await seen_by_server(p)
    found = await p.goals.find(goal_id)
    assert (found.status, found.summary.waiting_for) == ("waiting", "hold")
    assert (await types(p, goal_id))[3:] == ["hold", "signal", "decision"]


async def test_what_was_posted_to_a_goal_on_hold_is_taken_by_the_server_which_does_not_run_it(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p)
    await p.goals.resume_run(goal_id, AUTOMATIC)
    await p.database.state_store().post(goal_id, "signal", {"name": "hello", "payload": None}, key="k")
    async with at_work(p):
        for _ in range(3_000):
            if not await p.goals.pending(goal_id):
                break
            await asyncio.sleep(0.01)
        await become(p, goal_id, "waiting")
    assert (await types(p, goal_id))[2:] == ["hold", "signal"]


async def test_a_post_that_a_goal_on_hold_cannot_take_is_not_looked_at_again_and_again(p: Perdure) -> None:
    """An approval is left to the worker that runs the goal: it stays in the inbox."""
    goal_id = await left_by_dead_worker(p)
    await p.goals.resume_run(goal_id, AUTOMATIC)
    approval = {"call_id": "work.1", "decision": "approve", "value": None}
    await p.database.state_store().post(goal_id, "decision", approval, key="k")
    claims: list[None] = []
    with failpoints.armed("store.claim.after", lambda: claims.append(None)):
        async with at_work(p):
            await until(lambda: bool(claims))
            await seen_by_server(p)
    assert len(claims) == 3  # one of this goal, and one of each that the server was seen by


async def test_a_goal_on_hold_can_be_cancelled(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p)
    await p.goals.resume_run(goal_id, AUTOMATIC)
    assert (await p.goals.cancel(goal_id)).status == "cancelled"


async def test_a_cancel_that_waited_for_the_worker_ends_a_goal_that_would_be_held(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p)
    await p.database.state_store().post(goal_id, "cancel", {}, key="k")
    ran = await p.goals.resume_run(goal_id, AUTOMATIC)
    assert (ran.outcome, (await p.goals.find(goal_id)).status) == ("ended", "cancelled")


async def test_a_goal_whose_worker_died_while_it_slept_says_that_no_step_was_running(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p, Wait("nap.1", "nap", until="2999-01-01T00:00:00+00:00"), plan=NAP)
    await p.goals.resume_run(goal_id, AUTOMATIC)
    why = "On hold: its worker died 3 times in a row while it ran; no step was running at the last death."
    assert (await p.goals.find(goal_id)).wire()["detail"] == why


async def test_a_timer_of_a_goal_on_hold_does_not_wake_it(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p, CALL, Wait("nap.1", "nap", until=PAST), plan=NAP)
    await p.goals.resume_run(goal_id, AUTOMATIC)
    assert await p.goals.due() == []
    assert (await p.goals.resume(goal_id)).status == "done"


async def test_a_fork_of_a_goal_on_hold_is_not_on_hold(p: Perdure) -> None:
    goal_id = await left_by_dead_worker(p)
    await p.goals.resume_run(goal_id, AUTOMATIC)
    fork = await p.goals.fork(goal_id, 3)
    assert (fork.status, fork.summary.waiting_for) == ("interrupted", None)
    assert (await p.goals.resume_run(fork.id, AUTOMATIC)).state.status == "done"


@pytest.mark.parametrize("point", ["kernel.append.before", "kernel.append.after"])
async def test_a_worker_that_dies_while_it_holds_a_goal_leaves_one_hold(p: Perdure, point: str) -> None:
    goal_id = await left_by_dead_worker(p)

    def die() -> None:
        raise Unavailable("It died.")

    with failpoints.armed(point, die), pytest.raises(Unavailable):
        await p.goals.resume_run(goal_id, AUTOMATIC)
    assert (await p.goals.resume_run(goal_id, AUTOMATIC)).outcome == "waiting"
    assert (await types(p, goal_id)).count("hold") == 1
    assert (await p.goals.find(goal_id)).summary.waiting_for == "hold"


@pytest.mark.parametrize("point", ["kernel.append.before", "kernel.append.after"])
async def test_a_person_who_dies_while_releasing_a_goal_can_release_it_again(p: Perdure, point: str) -> None:
    goal_id = await left_by_dead_worker(p)
    await p.goals.resume_run(goal_id, AUTOMATIC)

    def die() -> None:
        raise Unavailable("It died.")

    with failpoints.armed(point, die), pytest.raises(Unavailable):
        await p.goals.resume(goal_id)
    assert (await p.goals.resume(goal_id)).status == "done"
    assert (await types(p, goal_id)).count("released") == 1


@flow
async def asking(goal: Goal) -> str:
    return str(await goal.ask("Sure?"))


async def held_by_key(p: Perdure) -> str:
    """Put the goal that the key `k` started on hold; return its id."""
    with pytest.raises(GoalWaiting) as waiting:
        await p.goals.options(key="k").run(asking)
    await claim_by_dead_workers(p, waiting.value.id, range(3))
    await p.goals.resume_run(waiting.value.id, AUTOMATIC)
    return waiting.value.id


async def test_a_run_with_the_key_of_a_goal_on_hold_raises_and_leaves_it_on_hold(p: Perdure) -> None:
    goal_id = await held_by_key(p)
    with pytest.raises(GoalWaiting) as waiting:
        await p.goals.options(key="k").run(asking)
    assert (waiting.value.id, waiting.value.waiting_for) == (goal_id, "hold")
    assert [each.command.split()[:3] for each in waiting.value.next] == [["perdure", "goal", "resume"]]
    assert (await types(p, goal_id))[-1] == "hold"


async def test_a_start_with_the_key_of_a_goal_on_hold_returns_its_handle_and_does_not_run_it(p: Perdure) -> None:
    goal_id = await held_by_key(p)
    handle = await p.goals.options(key="k").start(asking)
    assert (handle.id, p.goals.worker.is_busy) == (goal_id, False)
    assert (await types(p, goal_id))[-1] == "hold"
