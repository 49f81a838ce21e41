"""Callers that meet at one goal: each gets how it ended, whichever call was quicker, on each kind of store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from perdure import Goal, GoalFailed, flow
from perdure.app.goals.goals import Goals
from perdure.kernel.ports import Owned

FAILURES: list[str] = []
"""How often the step still fails."""
GATES: list[asyncio.Event] = []
"""That a retry has reached its step, and that the step may end."""

Act = Callable[[], Awaitable[object]]


class Before:
    """A port, with something that another caller does once before a method of it."""

    def __init__(self, port: Any, method: str) -> None:
        self._port = port
        self._method = method
        self.act: Act | None = None

    def __getattr__(self, name: str) -> Any:
        if name != self._method:
            return getattr(self._port, name)

        async def called(*args: Any, **kwargs: Any) -> Any:
            act, self.act = self.act, None
            if act is not None:
                await act()
            return await getattr(self._port, name)(*args, **kwargs)

        return called


async def flaky() -> str:
    if FAILURES:
        raise ValueError(FAILURES.pop())
    for reached, gate in [GATES] if GATES else []:
        reached.set()
        await gate.wait()
    return "done"


@flow
async def order(goal: Goal) -> str:
    return str(await goal.step(flaky))


@flow
async def asking(goal: Goal) -> str:
    return str(await goal.ask("Who?"))


@pytest.fixture
def claims(goals: Goals) -> Before:
    """The leases of a second caller."""
    return Before(goals._leases, "claim")


@pytest.fixture
def loads(goals: Goals) -> Before:
    """The store of a second caller."""
    return Before(goals._store, "load")


@pytest.fixture
async def second(goals: Goals, claims: Before, loads: Before) -> AsyncIterator[Goals]:
    """A second caller of the same goals."""
    FAILURES.clear()
    GATES.clear()
    second = Goals(goals._home, loads, claims)
    yield second
    await second.close()


async def fail(goals: Goals) -> str:
    """Run the goal with the key k until it has failed, and return its id."""
    FAILURES.append("first")
    with pytest.raises(GoalFailed) as failed:
        await goals.options(key="k").run(order)
    return failed.value.id


async def test_a_goal_that_ends_before_it_is_claimed_is_returned(goals: Goals, second: Goals, claims: Before) -> None:
    goal = await goals.start(asking)
    claims.act = goal.cancel
    assert (await second.resume_run(goal.id)).state.status == "cancelled"


async def test_a_goal_that_another_caller_retried_first_is_returned(
    goals: Goals, second: Goals, claims: Before
) -> None:
    goal_id = await fail(goals)
    claims.act = lambda: goals.retry(goal_id)
    assert (await second.options(key="k", on_failed="retry").run(order)).value == "done"


async def test_a_failed_goal_that_its_worker_still_holds_is_retried_after_that(
    goals: Goals, second: Goals, claims: Before
) -> None:
    async def hold() -> None:
        raise Owned("It is being worked on by another worker.")

    await fail(goals)
    claims.act = hold
    assert (await second.options(key="k", on_failed="retry").run(order)).value == "done"


@pytest.fixture
async def retry_first(goals: Goals, loads: Before) -> AsyncIterator[asyncio.Event]:
    """Let the first caller retry the goal before the second one loads it; the event ends that retry."""
    retries: list[asyncio.Task[object]] = []

    async def retry() -> None:
        retries.append(asyncio.create_task(goals.retry((await goals.list())[0].id)))
        await GATES[0].wait()

    loads.act = retry
    gate = asyncio.Event()
    yield gate
    gate.set()
    await asyncio.gather(*retries)


async def test_a_goal_that_is_reopened_while_it_is_read_is_not_returned_as_ended(
    goals: Goals, second: Goals, retry_first: asyncio.Event
) -> None:
    goal_id = await fail(goals)
    GATES[:] = [asyncio.Event(), retry_first]
    with pytest.raises(Owned):
        await second.resume(goal_id)


async def test_a_handle_waits_for_a_goal_that_is_reopened_while_it_is_read(
    goals: Goals, second: Goals, retry_first: asyncio.Event
) -> None:
    handle = await second.handle(await fail(goals))
    GATES[:] = [asyncio.Event(), retry_first]
    with pytest.raises(TimeoutError):
        await handle.result(timeout_s=0)
    retry_first.set()
    assert (await handle.result(timeout_s=30)).value == "done"
