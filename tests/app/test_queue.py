"""Goals of a server beyond those that run at once: they wait in the database, and are taken the oldest first."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Conflict, Exhausted, Invalid, Perdure, Unavailable, failpoints
from perdure.app.goals.new_goal import NewGoal, of_command, of_plan_text
from perdure.app.home.system import SystemClock
from perdure.app.home.workdirs import WORK
from perdure.app.wire.goal_view import QUEUED, GoalView
from perdure.app.workers.background import POLL_S
from perdure.app.workers.server_worker import ServerWorker
from perdure.kernel.events import Limits
from perdure.kernel.ports import Worker
from perdure.store.goals.leases import owned
from tests.app.serving import at_work, become, until

ASKS = "goal: ask\nsteps: [{id: sure, ask: {question: 'Sure?', options: ['yes', 'no']}}]"


@pytest.fixture
async def p(tmp_path: Path, database_url: str) -> AsyncIterator[Perdure]:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        yield p


@pytest.fixture
async def other(p: Perdure, tmp_path: Path, database_url: str) -> AsyncIterator[Perdure]:
    """The same home, opened once more, as another process would."""
    del p
    async with Perdure.open(tmp_path / "home", database_url=database_url) as other:
        yield other


def noting(folder: Path, name: str) -> NewGoal:
    return of_command(f"echo {name} >> {folder}/done", shell=True)


def lines(folder: Path) -> list[str]:
    done = folder / "done"
    return done.read_text().split() if done.exists() else []


def held(folder: Path) -> NewGoal:
    """A goal that runs until the test lets it end."""
    return of_command(f"until test -e {folder}/over; do sleep 0.02; done", shell=True)


async def test_goals_beyond_those_that_run_wait_and_run_in_their_order(p: Perdure, tmp_path: Path) -> None:
    async with at_work(p, most=1) as serving:
        first = await serving.start(held(tmp_path))
        queued = [await serving.start(noting(tmp_path, f"g{number}")) for number in range(5)]
        assert first.status == "running"
        assert [goal.status for goal in queued] == ["interrupted"] * 5
        assert {goal.wire()["detail"] for goal in queued} == {QUEUED}
        assert lines(tmp_path) == []
        (tmp_path / "over").touch()
        for goal in queued:
            assert (await become(p, goal.id, "done")).detail is None
    assert lines(tmp_path) == [f"g{number}" for number in range(5)]


async def test_a_goal_that_is_started_while_others_wait_does_not_overtake_them(p: Perdure, tmp_path: Path) -> None:
    serving = ServerWorker(p.goals, p.keys, SystemClock(), most=1)
    await serving.start(held(tmp_path))
    waits = await serving.start(noting(tmp_path, "old"))
    (tmp_path / "over").touch()
    await until(lambda: not serving.is_busy)
    late = await serving.start(noting(tmp_path, "new"))
    assert late.detail == QUEUED
    working = asyncio.create_task(serving.run())
    for goal in (waits, late):
        await become(p, goal.id, "done")
    await serving.close()
    await working
    assert lines(tmp_path) == ["old", "new"]


async def test_the_queue_is_there_when_the_server_is_started_again(p: Perdure, tmp_path: Path) -> None:
    async with at_work(p, most=0) as serving:
        queued = [await serving.start(noting(tmp_path, f"g{number}")) for number in range(3)]
    async with at_work(p, most=1):
        for goal in queued:
            await become(p, goal.id, "done")
    assert lines(tmp_path) == ["g0", "g1", "g2"]


async def test_a_queued_goal_is_started_once_for_its_key(p: Perdure) -> None:
    new = NewGoal("true", of_command("true").mind, None, key="once")
    async with at_work(p, most=0) as serving:
        first = await serving.start(new)
        again = await asyncio.gather(*[serving.start(new) for _ in range(3)])
        assert {goal.id for goal in again} == {first.id}
        with pytest.raises(Conflict, match="once"):
            await serving.start(NewGoal("false", of_command("false").mind, None, key="once"))


@pytest.mark.parametrize("most", [0, 64], ids=["queued", "run at once"])
async def test_starts_that_lose_the_race_for_a_key_leave_no_folder_and_no_warning(
    p: Perdure, most: int, caplog: pytest.LogCaptureFixture
) -> None:
    new = NewGoal("true", of_command("true").mind, None, key="once")
    with caplog.at_level(logging.WARNING, "perdure.app.workers.background"):
        async with at_work(p, most=most) as serving:
            started = await asyncio.gather(*(serving.start(new) for _ in range(12)))
            await until(lambda: not serving.is_busy)
    assert {goal.id for goal in started} == {started[0].id}
    assert {each.name for each in work(p)} <= {started[0].id}
    assert caplog.text == ""


async def test_a_goal_whose_start_died_before_its_folder_was_made_gets_it_when_it_is_resumed(p: Perdure) -> None:
    def die() -> None:
        raise Unavailable("It died.")

    serving = ServerWorker(p.goals, p.keys, SystemClock(), most=0)
    with failpoints.armed("kernel.append.after", die), pytest.raises(Unavailable):
        await serving.start(NewGoal("touch here", of_command("touch here").mind, None))
    [goal] = await p.goals.list()
    assert work(p) == []
    async with at_work(p):
        await become(p, goal.id, "done")
    assert [each.name for each in work(p)] == [goal.id]
    assert (work(p)[0] / "here").exists()


def work(p: Perdure) -> list[Path]:
    """Return the folders of goals in a home."""
    return list((p.settings.home / WORK).iterdir())


async def test_a_goal_that_is_invalid_is_not_queued(p: Perdure) -> None:
    async with at_work(p, most=0) as serving:
        with pytest.raises(Invalid):
            await serving.start(of_plan_text("goal: g\nsteps: [{id: a, tool: fly, with: {}}]", "plan"))
    assert await p.goals.list() == []


async def test_more_than_the_queue_holds_is_refused_and_nothing_is_stored(p: Perdure) -> None:
    async with at_work(p, most=0) as serving:
        serving.most_queued = 2
        for _ in range(2):
            await serving.start(of_command("true"))
        with pytest.raises(Exhausted, match="2 goals are queued already"):
            await serving.start(of_command("true"))
    assert len(await p.goals.list()) == 2


async def test_concurrent_starts_do_not_exceed_what_the_queue_holds(p: Perdure) -> None:
    async with at_work(p, most=0) as serving:
        serving.most_queued = 5
        started = await asyncio.gather(*(serving.start(of_command("true")) for _ in range(40)), return_exceptions=True)
        assert sum(isinstance(each, GoalView) for each in started) == 5
        assert sum(isinstance(each, Exhausted) for each in started) == 35
        assert await p.goals.queues.count_queued(queue="server") == 5


async def test_a_place_in_the_queue_is_free_again_after_a_start_that_failed(p: Perdure) -> None:
    async with at_work(p, most=0) as serving:
        serving.most_queued = 1
        with pytest.raises(Invalid):
            await serving.start(of_plan_text("goal: g\nsteps: [{id: a, tool: fly, with: {}}]", "plan"))
        assert (await serving.start(of_command("true"))).detail == QUEUED


@pytest.mark.parametrize("limits", [None, Limits(iterations=9)], ids=["as it is", "with limits raised"])
async def test_a_queued_goal_is_resumed_although_the_queue_is_full(p: Perdure, limits: Limits | None) -> None:
    async with at_work(p, most=0) as serving:
        serving.most_queued = 1
        goal = await serving.start(of_command("true"))
        resumed = await serving.resume(goal.id, limits)
        assert (resumed.id, resumed.detail) == (goal.id, QUEUED)
        assert (await p.goals.state(goal.id)).limits.iterations == (None if limits is None else 9)


async def test_a_goal_that_is_resumed_waits_too_with_its_limits_raised(p: Perdure, tmp_path: Path) -> None:
    plan = f"goal: two\nsteps: [{{id: a, exec: 'true'}}, {{id: b, exec: 'touch {tmp_path}/b', needs: [a]}}]"
    new = of_plan_text(plan, "plan")
    ran = await p.goals.begin(NewGoal(new.text, new.mind, new.workdir, Limits(iterations=1)))
    goal_id = ran.state.goal_id
    async with at_work(p, most=0) as serving:
        with pytest.raises(Invalid, match="must exceed"):
            await serving.resume(goal_id, Limits(iterations=1))
        queued = await serving.resume(goal_id, Limits(iterations=9))
        assert (queued.status, queued.detail) == ("interrupted", QUEUED)
    assert not (tmp_path / "b").exists()
    async with at_work(p):
        await become(p, goal_id, "done")
    assert (tmp_path / "b").exists()


async def test_two_servers_share_the_queue_and_run_each_goal_once(p: Perdure, other: Perdure, tmp_path: Path) -> None:
    async with at_work(p, most=0) as serving:
        queued = [await serving.start(noting(tmp_path, f"g{number:02}")) for number in range(20)]
    async with at_work(p, most=2), at_work(other, most=2):
        for goal in queued:
            await become(p, goal.id, "done")
    assert sorted(lines(tmp_path)) == [f"g{number:02}" for number in range(20)]


async def test_no_more_goals_are_claimed_than_there_is_room_for(p: Perdure, other: Perdure, tmp_path: Path) -> None:
    async with at_work(p, most=0) as serving:
        goals = [await serving.start(held(tmp_path)) for _ in range(8)]
    async with at_work(other, most=3):
        for goal in goals[:3]:
            await running(p, goal.id)
        assert [(await p.goals.get(goal.id)).summary.worker for goal in goals[3:]] == [None] * 5
        (tmp_path / "over").touch()
        for goal in goals:
            await become(p, goal.id, "done")


async def running(p: Perdure, goal_id: str) -> None:
    """Wait until a worker runs a goal."""
    for _ in range(3_000):
        if (await p.goals.get(goal_id)).is_running:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{goal_id} does not run")


async def test_a_claim_skips_a_bounded_number_of_goals_and_reaches_those_behind_them(
    p: Perdure, tmp_path: Path
) -> None:
    serving = ServerWorker(p.goals, p.keys, SystemClock(), most=0)
    bad = [await serving.start(of_command("true")) for _ in range(7)]
    good = await serving.start(noting(tmp_path, "good"))
    for goal in bad:
        await damage(p, goal)
    serving.most, serving.most_skipped = 2, 3
    working = asyncio.create_task(serving.run())
    await become(p, good.id, "done")
    await serving.close()
    await working


async def test_a_goal_whose_claim_was_not_confirmed_is_resumed_by_the_worker_that_owns_it(p: Perdure) -> None:
    failed: list[str] = []

    def fail() -> None:
        failed.append("claim")
        raise Unavailable("The database does not answer.")

    async with at_work(p):
        with failpoints.armed("store.claim.after", fail):
            left = await p.goals.enqueue(of_command("true"))  # from here on the worker may claim it at any moment
            await until(lambda: bool(failed))
        await become(p, left.id, "done")


async def test_a_goal_that_cannot_continue_does_not_hold_up_those_behind_it(p: Perdure, tmp_path: Path) -> None:
    async with at_work(p, most=0) as serving:
        bad = [await serving.start(of_command("true")) for _ in range(3)]
        good = await serving.start(noting(tmp_path, "good"))
    for goal in bad:
        await damage(p, goal)
    async with at_work(p, most=1):
        await become(p, good.id, "done")


async def damage(p: Perdure, goal: GoalView) -> None:
    statement = "UPDATE goals SET last_seq = 9 WHERE id = ?"
    await p.database.write_raw(lambda raw: raw.execute(statement, goal.id))


async def test_a_goal_that_another_worker_has_just_claimed_is_tried_again_at_the_next_look(p: Perdure) -> None:
    async with at_work(p) as serving:
        goal = await serving.start(of_plan_text(ASKS, "plan"))
        await become(p, goal.id, "waiting")
    await p.goals.decide(goal.id, "answer", value="yes")
    tries: list[str] = []

    def claimed_by_another() -> None:
        tries.append(goal.id)
        if len(tries) == 1:
            raise owned(goal.id, Worker("1-0", "host", "home", "boot"))

    with failpoints.armed("store.claim.before", claimed_by_another):
        async with at_work(p):
            async with asyncio.timeout(20 * POLL_S):
                await become(p, goal.id, "done")
    assert len(tries) == 2


async def test_what_was_posted_to_a_goal_and_not_taken_is_found(p: Perdure) -> None:
    async with at_work(p) as serving:
        goal = await serving.start(of_plan_text(ASKS, "plan"))
        await become(p, goal.id, "waiting")
    call_id = next(iter((await p.goals.state(goal.id)).open_calls))
    payload = {"call_id": call_id, "decision": "answer", "value": "yes", "by": "person"}
    await p.database.state_store().post(goal.id, "decision", payload, key="k")  # and whoever posted it has died
    async with at_work(p):
        await become(p, goal.id, "done")


async def test_an_answer_through_either_of_two_servers_is_taken_at_once(p: Perdure, other: Perdure) -> None:
    steps = "".join(
        f"  - {{id: s{n}, ask: {{question: 'Sure?'}}, needs: [{f's{n - 1}' if n else ''}]}}\n" for n in range(10)
    )
    async with at_work(p) as ours, at_work(other) as theirs:
        goals = [await ours.start(of_plan_text(f"goal: ask\nsteps:\n{steps}", "plan")) for _ in range(2)]
        for number in range(10):
            for home, serving in ((p, ours), (other, theirs)):
                goal = goals[home is p]
                await asks(home, goal.id, f"s{number}")
                await home.goals.decide(goal.id, "answer", value="yes")
                serving.poll_soon()
        for goal in goals:
            await become(p, goal.id, "done")


async def asks(p: Perdure, goal_id: str, step: str) -> None:
    """Wait until a goal asks a question; not as long as a goal is left alone that has failed."""
    for _ in range(1_500):
        if any(call.call.step == step for call in (await p.goals.state(goal_id)).open_calls.values()):
            return
        await asyncio.sleep(0.02)
    raise AssertionError(f"{goal_id} stands still before {step}")
