"""Flows of a server on threads of their own: code that blocks stops nothing else, and is never run by two at once."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from perdure import Conflict, Goal, Perdure, Unavailable, flow
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import of_command, of_flow
from perdure.app.home.system import SystemClock, is_dead
from perdure.app.workers.flow_threads import Apart, FlowThread
from perdure.app.workers.server_worker import ServerWorker
from tests.app.serving import at_work, become, until

LONGEST_S = 30
"""A test that fails is not blocked for ever."""


@dataclass
class Block:
    """Where code of a flow blocks, until the test lets it continue."""

    is_in: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)
    is_out: threading.Event = field(default_factory=threading.Event)
    steps: list[str] = field(default_factory=list)

    def wait(self, *, is_busy: bool = False) -> None:
        self.is_in.set()
        if is_busy:
            deadline_s = time.monotonic() + LONGEST_S
            while not self.goes_on.is_set() and time.monotonic() < deadline_s:
                pass
        self.goes_on.wait(LONGEST_S)
        self.is_out.set()


BLOCK = Block()


@pytest.fixture(autouse=True)
def block() -> Iterator[Block]:
    """A place to block at, which everything has left at the end."""
    global BLOCK  # noqa: PLW0603 (flows are found by their names, so what they use is global)
    BLOCK = Block()
    yield BLOCK
    BLOCK.goes_on.set()


@flow
async def blocking(goal: Goal, where: str) -> str:
    await goal.options(effect="idempotent").step(noted, "before")
    if where == "body":
        BLOCK.wait()
    elif where == "busy body":
        BLOCK.wait(is_busy=True)
    elif where == "async step":
        await goal.options(effect="idempotent").step(blocking_step)
    await goal.step(noted, "after")
    return "done"


@flow
async def blocking_at_once(goal: Goal) -> None:
    BLOCK.wait()
    await goal.step(noted, "after")


@flow
async def leaving(goal: Goal) -> str:
    asyncio.get_running_loop().call_soon(end_the_program)
    return str(await goal.step(noted, "stays"))


@flow
async def asking_and_unwinding(goal: Goal) -> str:
    try:
        return str(await goal.ask("Sure?", ["yes", "no"]))
    finally:
        if not BLOCK.is_in.is_set():
            BLOCK.wait()


def noted(name: str) -> str:
    BLOCK.steps.append(name)
    return name


async def blocking_step() -> None:
    BLOCK.wait()


def end_the_program() -> None:
    raise SystemExit(3)


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a blocked event loop sooner than the three seconds of a server."""
    monkeypatch.setattr("perdure.app.workers.flow_threads.DEAF_S", 0.5)


@pytest.fixture
async def p(tmp_path: Path, database_url: str) -> AsyncIterator[Perdure]:
    async with Perdure.open(tmp_path / "home", database_url=database_url) as p:
        yield p


async def is_blocked() -> None:
    await until(BLOCK.is_in.is_set)


@pytest.mark.parametrize("where", ["body", "busy body", "async step"])
async def test_other_goals_and_calls_continue_while_a_flow_blocks(p: Perdure, where: str) -> None:
    async with at_work(p) as serving:
        blocked = await serving.start(of_flow(blocking, [where], {}))
        await is_blocked()
        other = await serving.start(of_command("true"))
        another = await serving.start(of_flow(blocking, ["nowhere"], {}))
        for goal in (other, another):
            await become(p, goal.id, "done")
        assert (await p.goals.find(blocked.id)).status == "running"
        assert not BLOCK.is_out.is_set()
        BLOCK.goes_on.set()
        await become(p, blocked.id, "done")
    assert (await p.goals.replay(blocked.id)).state.termination is not None


async def test_a_flow_that_blocks_at_its_beginning_is_durable_and_told_at_once(p: Perdure) -> None:
    async with at_work(p) as serving:
        goal = await serving.start(of_flow(blocking_at_once, [], {}))
        assert not BLOCK.is_out.is_set()
        assert (goal.status, (await p.goals.find(goal.id)).status) == ("running", "running")
        BLOCK.goes_on.set()
        await become(p, goal.id, "done")


async def test_the_lease_of_a_flow_that_blocks_is_renewed(p: Perdure, tmp_path: Path) -> None:
    lease_s, clock = 3.0, SystemClock()  # a busy machine may renew it late, by a second
    home = tmp_path / "home"
    leases = p.database.leases(boottime_s=clock.boottime_s, is_dead=lambda worker: is_dead(home, worker))
    goals = Goals(home, p.database.state_store(), leases, lease_s=lease_s)
    serving = ServerWorker(goals, p.keys, clock)
    goal = await serving.start(of_flow(blocking, ["body"], {}))
    await is_blocked()
    later_s = clock.boottime_s() + 1.1 * lease_s
    await until(lambda: clock.boottime_s() > later_s)
    assert (await p.goals.find(goal.id)).is_running
    with pytest.raises(Conflict, match="being worked on"):
        await p.goals.resume_run(goal.id)
    BLOCK.goes_on.set()
    await become(p, goal.id, "done")
    await serving.close()
    await goals.close()


async def test_a_server_closes_although_a_flow_blocks_and_no_other_worker_gets_its_goal_meanwhile(
    p: Perdure, tmp_path: Path, database_url: str
) -> None:
    async with at_work(p) as serving:
        goal = await serving.start(of_flow(blocking, ["body"], {}))
        await is_blocked()
        serving.end_wait()
    assert serving.cut_short == 1
    assert not BLOCK.is_out.is_set()
    with pytest.raises(Conflict, match="by this process already"):
        await p.goals.resume_run(goal.id)
    async with Perdure.open(tmp_path / "home", database_url=database_url) as other:
        with pytest.raises(Conflict, match="being worked on by"):
            await other.goals.resume_run(goal.id)
        BLOCK.goes_on.set()
        async with at_work(other):  # when the code has ended after all, its goal is released
            await become(other, goal.id, "done")
    assert BLOCK.steps == ["before", "before", "after"]  # what the flow did not get to record is done again


async def test_a_goal_whose_flow_blocks_is_cancelled_as_soon_as_it_does_not(p: Perdure) -> None:
    async with at_work(p) as serving:
        goal = await serving.start(of_flow(blocking, ["body"], {}))
        await is_blocked()
        told = await p.goals.cancel(goal.id, key="once", wait_s=0.5)
        assert (told.status, told.wire()["status"]) == ("running", "running")
        assert "cancel is pending" in str(told.wire()["detail"])
        BLOCK.goes_on.set()
        assert (await become(p, goal.id, "cancelled")).reason == "cancelled"
        assert (await p.goals.cancel(goal.id, key="once")).reason == "cancelled"
    assert BLOCK.steps == ["before"]


async def test_a_callback_of_a_flow_that_ends_the_program_ends_neither_its_goal_nor_the_server(p: Perdure) -> None:
    async with at_work(p) as serving:
        goal = await serving.start(of_flow(leaving, [], {}))
        await become(p, goal.id, "done")


async def test_an_answer_that_comes_while_a_flow_unwinds_is_taken(p: Perdure) -> None:
    async with at_work(p) as serving:
        goal = await serving.start(of_flow(asking_and_unwinding, [], {}))
        await is_blocked()  # it has asked and released the goal, and its `finally` blocks
        await become(p, goal.id, "waiting")
        answering = asyncio.create_task(p.goals.decide(goal.id, "answer", value="yes"))
        await until(lambda: answering.done() or BLOCK.is_out.is_set())
        BLOCK.goes_on.set()
        await answering
        assert (await become(p, goal.id, "done")).summary.last_seq > 3


async def test_code_that_does_not_return_is_given_up_and_not_called_again_until_it_does() -> None:
    apart = Apart()
    with pytest.raises(Unavailable, match="Importing m:f, or reading its arguments, took longer than"):
        await apart.call("m:f", BLOCK.wait, within_s=0.1)
    with pytest.raises(Unavailable, match="Importing m:f, or reading its arguments, took longer than"):
        await apart.call("m:f", BLOCK.is_out.set, within_s=0.1)
    assert await apart.call("m:other", lambda: 7) == 7
    assert not BLOCK.is_out.is_set()
    BLOCK.goes_on.set()
    await until(BLOCK.is_out.is_set)
    answers: list[int] = []
    for _ in range(1_000):
        with suppress(Unavailable):
            await apart.call("m:f", lambda: answers.append(8))
        if answers:
            break
        await asyncio.sleep(0.01)
    assert answers == [8]


async def test_what_a_thread_runs_is_cancelled_and_its_end_waited_for() -> None:
    thread, ended = FlowThread("m:f"), threading.Event()

    async def napping() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.set()

    running = asyncio.create_task(thread.run(napping()))
    await asyncio.sleep(0.05)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()
    assert not thread.is_abandoned
    thread.close()


async def test_a_system_without_threads_is_reported_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(Unavailable, match="can't start new thread"):
        FlowThread("m:f")
