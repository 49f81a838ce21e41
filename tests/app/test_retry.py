"""Failed goals retried, as a Python program and a server do it, on each kind of store."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perdure import Conflict, Goal, GoalCancelled, GoalFailed, GoalWaiting, Invalid, NotFound, Perdure, flow
from perdure.app.goals.arguments.run_options import Reopening, RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal, of_flow
from perdure.errors import KeyTaken
from perdure.kernel.events import Limits, MindSpec
from perdure.kernel.history.reopening import NotRetried
from perdure.kernel.loop import Loop, RunResult
from perdure.kernel.ports import Summary
from perdure.minds.flow import registry
from tests.app.serving import at_work, become, until

TRIED: list[str] = []
BROKEN: set[str] = set()
ASKING = "goal: g\nsteps: [{id: sure, ask: {question: Sure}}]"


def act(name: str) -> str:
    TRIED.append(name)
    if name in BROKEN:
        raise ValueError(f"{name} is broken")
    return name


@flow
async def order(goal: Goal) -> list[str]:
    return [await goal.options(name=name).step(act, name) for name in ("reserve", "pay")]


async def hang() -> None:
    await asyncio.Event().wait()


@flow
async def hanging(goal: Goal) -> None:
    await goal.options(timeout_s=0.01).step(hang)


@pytest.fixture(autouse=True)
def broken_pay() -> None:
    TRIED.clear()
    BROKEN.clear()
    BROKEN.add("pay")


async def failed(goals: Goals) -> str:
    goal_id = (await goals.begin(of_flow(order, [], {}))).state.goal_id
    assert (await goals.get(goal_id)).status == "failed"
    return goal_id


async def types(goals: Goals, goal_id: str) -> list[str]:
    return [event.type for event in await goals.history(goal_id)]


async def test_a_failed_goal_is_retried_and_says_how_that_ended(goals: Goals) -> None:
    goal_id = await failed(goals)
    BROKEN.clear()
    result = await goals.retry(goal_id, reason="paper is back", limits=Limits(iterations=99))
    assert (result.status, result.value) == ("done", ["reserve", "pay"])
    assert TRIED == ["reserve", "pay", "pay"]
    reopened = (await goals.state(goal_id)).reopenings[0]
    assert (reopened.by, reopened.reason, reopened.again) == ("person", "paper is back", ("/pay#0.1",))
    assert (await goals.state(goal_id)).limits.iterations == 99
    assert (await goals.replay(goal_id)).state.status == "done"


async def test_a_retry_that_fails_again_is_raised_and_leaves_a_failed_goal(goals: Goals) -> None:
    goal_id = await failed(goals)
    with pytest.raises(GoalFailed, match="pay is broken"):
        await goals.retry(goal_id)
    view = await goals.get(goal_id)
    assert (view.status, view.reason, view.summary.worker) == ("failed", "failed", None)


async def test_a_retry_of_a_step_that_may_have_happened_waits_for_a_decision_about_it(goals: Goals) -> None:
    goal_id = (await goals.begin(of_flow(hanging, [], {}))).state.goal_id
    with pytest.raises(GoalWaiting, match="a decision about /hang#0, whose outcome is unknown") as waiting:
        await goals.retry(goal_id)
    assert waiting.value.unknown == ("/hang#0",)


async def test_a_cancelled_goal_is_raised_when_it_is_resumed(goals: Goals) -> None:
    goal_id = (await goals.begin(NewGoal("ask", MindSpec("plan", plan=ASKING), None))).state.goal_id
    await goals.cancel(goal_id)
    with pytest.raises(GoalCancelled):
        await goals.resume(goal_id)


async def test_the_same_key_retries_once_and_then_only_resumes(goals: Goals) -> None:
    goal_id = await failed(goals)
    for _ in range(2):
        with pytest.raises(GoalFailed):
            await goals.retry(goal_id, key="k")
    assert TRIED == ["reserve", "pay", "pay"]
    BROKEN.clear()
    assert (await goals.retry(goal_id, key="other")).status == "done"
    assert (await goals.retry(goal_id, key="k")).status == "done"


async def test_the_same_key_retries_once_with_limits_too(goals: Goals) -> None:
    goal_id = await failed(goals)
    for _ in range(2):
        with pytest.raises(GoalFailed):
            await goals.retry(goal_id, key="k", limits=Limits(iterations=50))
    assert TRIED == ["reserve", "pay", "pay"]


async def test_a_key_that_was_used_for_something_else_is_refused(goals: Goals) -> None:
    goal_id = await failed(goals)
    await goals.reopen(goal_id, key="k", reason="one")
    with pytest.raises(KeyTaken):
        await goals.retry(goal_id, key="k", reason="two")


@pytest.mark.parametrize(
    "other", [Reopening("one", Limits(iterations=60)), Reopening("two", Limits(iterations=50)), Reopening("one")]
)
async def test_a_key_does_not_stand_for_a_retry_with_another_reason_or_limit(goals: Goals, other: Reopening) -> None:
    goal_id = await failed(goals)
    await goals.reopen(goal_id, key="k", reason="one", limits=Limits(iterations=50))
    with pytest.raises(KeyTaken, match="another retry"):
        await goals.reopen(goal_id, key="k", reason=other.reason, limits=other.limits)


async def test_a_limit_that_was_used_up_already_reopens_nothing(goals: Goals) -> None:
    goal_id = await failed(goals)
    before = await types(goals, goal_id)
    with pytest.raises(Invalid, match="must exceed"):
        await goals.retry(goal_id, limits=Limits(iterations=1))
    assert await types(goals, goal_id) == before
    assert (await goals.get(goal_id)).status == "failed"


async def test_a_goal_that_is_done_is_not_retried_and_a_fork_is_offered(goals: Goals) -> None:
    BROKEN.clear()
    goal_id = (await goals.begin(of_flow(order, [], {}))).state.goal_id
    with pytest.raises(NotRetried, match=f"perdure goal fork {goal_id} --before '/reserve#0'"):
        await goals.retry(goal_id)
    with pytest.raises(NotFound):
        await goals.retry(goal_id[:-1])


async def test_code_that_is_not_here_reopens_nothing(goals: Goals, monkeypatch: pytest.MonkeyPatch) -> None:
    goal_id = await failed(goals)
    before = await types(goals, goal_id)
    monkeypatch.delitem(registry._FLOWS, order.path)
    monkeypatch.setattr(f"{__name__}.order", None)
    with pytest.raises((NotFound, Invalid)):
        await goals.retry(goal_id)
    assert await types(goals, goal_id) == before
    assert (await goals.get(goal_id)).status == "failed"


async def test_a_flow_of_a_script_elsewhere_is_reopened_and_not_run(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "__main__:order"
    monkeypatch.setitem(registry._FLOWS, path, order)
    new = of_flow(order, [], {})
    goal_id = (await goals.begin(replace(new, mind=replace(new.mind, at=path)))).state.goal_id
    monkeypatch.delitem(registry._FLOWS, path)
    assert (await goals.reopen(goal_id, RunOptions(queue="server"))).outcome == "interrupted"
    view = await goals.get(goal_id)
    assert (view.status, view.summary.worker, view.summary.queue) == ("interrupted", None, "cli")
    assert TRIED == ["reserve", "pay"]
    BROKEN.clear()
    monkeypatch.setitem(registry._FLOWS, path, order)
    assert (await goals.resume(goal_id)).status == "done"


async def test_the_same_key_returns_a_flow_of_a_script_elsewhere_as_the_first_retry_did(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "__main__:order"
    monkeypatch.setitem(registry._FLOWS, path, order)
    new = of_flow(order, [], {})
    goal_id = (await goals.begin(replace(new, mind=replace(new.mind, at=path)))).state.goal_id
    monkeypatch.delitem(registry._FLOWS, path)
    first, second = [await goals.reopen(goal_id, key="k") for _ in range(2)]
    assert (second.outcome, second.state.head) == (first.outcome, first.state.head) == ("interrupted", first.state.head)


async def test_a_retry_whose_run_ends_with_a_conflict_raises_that_conflict(goals: Goals) -> None:
    goal_id = await failed(goals)

    def lose(loop: Loop) -> None:
        def take_over(_events: object, _state: object) -> None:
            raise Conflict("another worker has taken it")

        loop.journal.listen(take_over)

    with pytest.raises(Conflict, match="another worker has taken it"):
        await goals.reopen(goal_id, RunOptions(watch=lose))


async def test_of_two_retries_at_once_one_is_made(goals: Goals) -> None:
    goal_id = await failed(goals)
    BROKEN.clear()
    said = await asyncio.gather(goals.reopen(goal_id), goals.reopen(goal_id), return_exceptions=True)
    assert sum(isinstance(each, Conflict) for each in said) == 1
    assert (await types(goals, goal_id)).count("reopened") == 1


async def test_a_reopened_goal_takes_decisions_and_is_not_deleted(goals: Goals, tmp_path: Path) -> None:
    plan = (
        "goal: g\nsteps:\n  - {id: build, exec: [cat, gone]}\n"
        "  - {id: sure, needs: [build], ask: {question: Sure, options: ['yes']}}\n"
    )
    goal_id = (await goals.begin(NewGoal("a plan", MindSpec("plan", plan=plan), tmp_path))).state.goal_id
    with pytest.raises(Conflict, match="has ended"):
        await goals.signal(goal_id, "go")
    (tmp_path / "gone").write_text("here")
    with pytest.raises(GoalWaiting, match="Sure"):
        await goals.retry(goal_id)
    with pytest.raises(GoalWaiting, match="Sure"):
        await goals.resume(goal_id)
    with pytest.raises(Conflict):
        await goals.delete(goal_id)
    await goals.decide(goal_id, "answer", value="yes")
    assert (await goals.resume(goal_id)).status == "done"
    assert await goals.delete(goal_id) == goal_id


async def test_a_cancel_that_came_too_late_does_not_end_the_retry(goals: Goals) -> None:
    posted: list[str] = []
    append = goals._store.append_event

    async def append_late(*args: Any, **options: Any) -> Any:
        """Post a cancel just before the last append, which does not take it."""
        if options["summary"].is_final and not posted:
            posted.append(args[0])
            await goals._store.post(args[0], "cancel", {}, key="late")
        return await append(*args, **options)

    goals._store.append_event = append_late  # type: ignore[method-assign]
    goal_id = await failed(goals)
    goals._store.append_event = append  # type: ignore[method-assign]
    assert [row.kind for row in await goals.pending(goal_id)] == ["cancel"]
    BROKEN.clear()
    assert (await goals.retry(goal_id)).status == "done"


async def test_a_follower_of_the_whole_history_sees_past_the_first_end(goals: Goals) -> None:
    goal_id = await failed(goals)
    last = [event.seq async for event in goals.follow(goal_id)][-1]
    assert [event.seq async for event in goals.follow(goal_id, after=last)] == []
    BROKEN.clear()
    await goals.retry(goal_id)
    seen = [event.type async for event in goals.follow(goal_id)]
    assert seen.count("termination") == 2
    assert (await anext(goals.follow(goal_id, after=last))).type == "reopened"


async def test_a_follower_continues_when_the_goal_is_reopened_while_it_reads(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal_id = await failed(goals)
    find = goals._store.find
    steps: list[Callable[[], Awaitable[object]]] = [
        lambda: asyncio.sleep(0),  # the goal is looked up by its id
        lambda: goals.reopen(goal_id, RunOptions(watch=Loop.stop)),
    ]
    BROKEN.clear()

    async def find_then_act(prefix: str) -> Summary:
        """Let the goal be reopened between the two reads of a follower: of its row, and of its events."""
        found = await find(prefix)
        if steps:
            monkeypatch.setattr(goals._store, "find", find)
            await steps.pop(0)()
            monkeypatch.setattr(goals._store, "find", find_then_act)
        return found

    monkeypatch.setattr(goals._store, "find", find_then_act)
    seen, resumed = list[str](), list[asyncio.Task[RunResult]]()
    async for event in goals.follow(goal_id):
        seen.append(event.type)
        if event.type == "reopened":
            resumed.append(asyncio.create_task(goals.resume_run(goal_id)))  # while the follower waits
    assert [(await task).state.status for task in resumed] == ["done"]
    assert not steps
    assert seen == await types(goals, goal_id)
    assert seen.count("termination") == 2


@pytest.fixture
async def p(tmp_path: Path) -> AsyncIterator[Perdure]:
    async with Perdure.open(tmp_path / "home") as p:
        yield p


@pytest.mark.parametrize("most", [4, 0])
async def test_a_server_retries_a_goal_at_once_or_in_its_turn(p: Perdure, most: int) -> None:
    goal_id = await failed(p.goals)
    BROKEN.clear()
    async with at_work(p, most) as serving:
        seen = await serving.retry(goal_id, Reopening(reason="again", key="k"))
        assert seen.status != "failed"
        assert "reopened" in await types(p.goals, goal_id)
        assert (await p.goals.get(goal_id)).summary.queue == "server"
        serving.most = 4
        serving.poll_soon()
        await become(p, goal_id, "done")
        assert (await serving.retry(goal_id, Reopening(reason="again", key="k"))).status == "done"
    assert TRIED == ["reserve", "pay", "pay"]


async def test_a_server_says_why_a_goal_is_not_retried(p: Perdure) -> None:
    BROKEN.clear()
    goal_id = (await p.goals.begin(of_flow(order, [], {}))).state.goal_id
    async with at_work(p) as serving:
        with pytest.raises(NotRetried):
            await serving.retry(goal_id, Reopening())


GATE = threading.Event()


async def blocking_pay() -> str:
    if BROKEN:
        raise ValueError("pay is broken")
    TRIED.append("pay")
    await asyncio.to_thread(GATE.wait, 15)
    return "paid"


@flow
async def slow_order(goal: Goal) -> str:
    return str(await goal.options(name="pay").step(blocking_pay))


async def test_the_same_key_returns_a_goal_that_the_server_retries_now(p: Perdure) -> None:
    GATE.clear()
    goal_id = (await p.goals.begin(of_flow(slow_order, [], {}))).state.goal_id
    BROKEN.clear()
    async with at_work(p) as serving, asyncio.timeout(15):
        for _ in range(2):
            seen = await serving.retry(goal_id, Reopening(key="k"))
            await until(lambda: bool(TRIED))
            assert (seen.id, seen.is_final) == (goal_id, False)
        GATE.set()
        await become(p, goal_id, "done")
    assert TRIED == ["pay"]


async def test_the_same_key_returns_a_goal_that_another_process_retries_now(p: Perdure) -> None:
    GATE.clear()
    goal_id = (await p.goals.begin(of_flow(slow_order, [], {}))).state.goal_id
    BROKEN.clear()
    async with Perdure.open(p.settings.home) as other, at_work(p) as serving, asyncio.timeout(15):
        running = asyncio.create_task(other.goals.retry(goal_id, key="k"))
        await until(lambda: bool(TRIED))
        assert (await serving.retry(goal_id, Reopening(key="k"))).status == "running"
        GATE.set()
        assert (await running).status == "done"
    assert TRIED == ["pay"]


@flow
async def parsing(goal: Goal) -> str:
    return str(await goal.options(effect="idempotent").step(parse, "archive"))


def parse(name: str) -> str:
    TRIED.append(name)
    if BROKEN:
        raise ValueError("not an archive: PK\x03\x04\0\0")
    return name


async def test_a_step_whose_error_contains_a_nul_fails_once_and_is_retried(goals: Goals) -> None:
    goal_id = (await goals.begin(of_flow(parsing, [], {}))).state.goal_id
    assert (await goals.get(goal_id)).status == "failed"
    assert TRIED == ["archive"]
    BROKEN.clear()
    assert (await goals.retry(goal_id)).value == "archive"
