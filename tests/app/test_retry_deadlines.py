"""A deadline that a goal has failed by begins anew when the goal is retried, however late that is."""

import asyncio
from collections import Counter
from typing import Any

import pytest

import perdure.testing
from perdure import Conflict, Goal, failpoints, flow
from perdure.app.goals.arguments.run_options import Reopening
from perdure.kernel.history.replay import replay

RUNS: Counter[str] = Counter()
FIXED: set[str] = set()


@pytest.fixture(autouse=True)
def fresh() -> None:
    RUNS.clear()
    FIXED.clear()


async def measure() -> str:
    RUNS["measure"] += 1
    if not FIXED:
        await asyncio.Event().wait()
    return "measured"


def note(word: str) -> str:
    RUNS[word] += 1
    return word


def flaky() -> str:
    RUNS["flaky"] += 1
    if not FIXED:
        raise ValueError("not yet")
    return "flaky"


@flow
async def block(goal: Goal) -> str:
    await goal.step(note, "before")
    async with goal.timeout(10):
        return await goal.options(effect="idempotent").step(measure)


@flow
async def block_once(goal: Goal) -> str:
    async with goal.timeout(10):
        return await goal.step(measure)


@flow
async def question(goal: Goal) -> str:
    return str(await goal.ask("Now?", timeout_s=10))


@flow
async def signal(goal: Goal) -> str:
    return str(await goal.signal("go", timeout_s=10))


@flow
async def around(goal: Goal) -> str:
    async with goal.timeout(10):
        await goal.step(note, "inside")
        return await goal.options(effect="idempotent").step(flaky)


@flow
async def chained(goal: Goal) -> str:
    try:
        async with goal.timeout(10):
            return await goal.options(effect="idempotent").step(measure)
    except TimeoutError as error:
        raise ValueError("too late") from error


@flow
async def compensated(goal: Goal) -> str:
    try:
        async with goal.timeout(10):
            return await goal.options(effect="idempotent").step(measure)
    except TimeoutError:
        await goal.step(note, "refund")
        raise


async def failed(p: Any, what: Any) -> Any:
    handle = await p.goals.start(what)
    await p.clock.advance(11)
    assert await handle.status() == "failed"
    await p.clock.advance(24 * 3600)  # the recorded moment has passed long ago
    return handle


async def retried(p: Any, handle: Any) -> Any:
    await p.goals.retries.enqueue(handle.id, Reopening(), queue="cli")
    return p.goals.worker.resume(handle.id)


@pytest.mark.parametrize("what", [block, chained], ids=lambda each: each.name)
async def test_a_block_whose_deadline_passed_has_all_of_its_time_again(own_url: str, what: Any) -> None:
    async with perdure.testing.home(database_url=own_url, patience_s=0.2) as p:
        handle = await failed(p, what)
        running = await retried(p, handle)
        await p.clock.advance(9)
        assert await handle.status() == "running", "the deadline is ten seconds after the retry"
        await p.clock.advance(2)
        assert await handle.status() == "failed"
        FIXED.add("measure")
        assert (await p.goals.retry(handle.id)).value == "measured"
        await running
        assert (RUNS["measure"], RUNS["before"]) == (3, 1 if what is block else 0)
        events = await p.goals.history(handle.id)
        deadlines = [each.content()["call_id"] for each in events if each.content().get("kind") == "wait"]
        assert deadlines == ["/timeout#0.1", "/timeout#0.2", "/timeout#0.3"]
        replay(events, await p.goals._store.find(handle.id))


@pytest.mark.parametrize("what", [question, signal], ids=lambda each: each.name)
async def test_a_wait_that_timed_out_waits_again_after_a_retry(own_url: str, what: Any) -> None:
    async with perdure.testing.home(database_url=own_url, patience_s=0.2) as p:
        handle = await failed(p, what)
        await retried(p, handle)
        await p.clock.advance(9)
        assert await handle.status() == "waiting"
        if what is question:
            await p.goals.decide(handle.id, "answer", value="yes")
        else:
            await p.goals.signal(handle.id, "go", "yes")
        assert (await handle.result(timeout_s=30)).value == "yes"


async def test_the_deadline_does_not_run_while_a_person_decides_what_the_retry_does(own_url: str) -> None:
    async with perdure.testing.home(database_url=own_url, patience_s=0.2) as p:
        handle = await failed(p, block_once)
        await retried(p, handle)
        await p.clock.advance(3600)
        assert (await p.goals.get(handle.id)).summary.waiting_for == "person"
        await p.goals.decide(handle.id, "skip", value="decided")
        assert (await handle.result(timeout_s=30)).value == "decided"
        assert RUNS["measure"] == 1


async def test_a_step_that_failed_within_a_block_has_the_time_of_the_block_again(own_url: str) -> None:
    async with perdure.testing.home(database_url=own_url, patience_s=0.2) as p:
        handle = await failed(p, around)
        FIXED.add("flaky")
        assert (await p.goals.retry(handle.id)).value == "flaky"
        assert RUNS == {"inside": 1, "flaky": 2}


async def test_a_flow_that_has_reacted_to_its_deadline_is_not_retried(own_url: str) -> None:
    async with perdure.testing.home(database_url=own_url, patience_s=0.2) as p:
        handle = await failed(p, compensated)
        with pytest.raises(Conflict, match=r"after step /timeout#0 had failed, the flow began /note#0"):
            await p.goals.retry(handle.id)


@pytest.mark.parametrize("hits", range(1, 4))
async def test_a_retry_that_is_killed_after_any_append_ends_alike(own_url: str, hits: int) -> None:
    class Died(BaseException):
        """Ends the run as a kill would."""

    left = [hits]

    def die() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Died

    async with perdure.testing.home(database_url=own_url, patience_s=0.2) as p:
        handle = await failed(p, block)
        FIXED.add("measure")
        with failpoints.armed("kernel.append.after", die), pytest.raises(Died):
            await p.goals.retry(handle.id, key="k")
        assert (await p.goals.retry(handle.id, key="k")).value == "measured"
        assert [each.type for each in await p.goals.history(handle.id)].count("reopened") == 1
