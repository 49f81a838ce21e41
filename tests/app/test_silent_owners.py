"""A goal whose owner may be dead: a command waits for proof, a server tries again, and a worker that ends says so."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from perdure import Conflict
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.app.home.system import SystemClock
from perdure.app.workers.server_worker import ServerWorker
from perdure.kernel.events import MindSpec
from perdure.kernel.ports import OwnerSilent, Worker
from perdure.store.client import DatabaseClient
from perdure.store.goals.memory_state_store import InMemoryStateStore
from perdure.store.idempotency import SqlIdempotencyKeys

OWNER = Worker("w1", "far", "home", "boot")
PLAN = """
goal: asked
steps:
  - {id: sure, ask: {question: "Sure?", options: ["yes", "no"]}}
  - {id: last, exec: "true", needs: [sure]}
"""


class SilentOwner(InMemoryStateStore):
    """A store with one goal whose owner is not known to be dead for the first claims."""

    def __init__(self) -> None:
        super().__init__()
        self.silent = 0
        self.lives = False
        self.renewals = 0
        self.retired: list[str] = []

    async def claim(self, goal_id: str, worker: Worker, queue: str | None = None, *, reopen: bool = False) -> int:
        if self.silent > 0:
            self.silent -= 1
            raise OwnerSilent(goal_id, OWNER, 0.01)
        if self.lives:
            raise Conflict(f"{goal_id} is being worked on by {OWNER.id}.")
        return await super().claim(goal_id, worker, queue, reopen=reopen)

    async def renew(self, worker: Worker, ttl_s: float) -> None:
        self.renewals += 1
        await super().renew(worker, ttl_s)

    async def retire(self, worker: Worker) -> None:
        self.retired.append(worker.id)
        await super().retire(worker)


@pytest.fixture
def store() -> SilentOwner:
    return SilentOwner()


@pytest.fixture
async def goals(store: SilentOwner, tmp_path: Path) -> AsyncIterator[Goals]:
    goals = Goals(tmp_path, store, store)
    yield goals
    await goals.close()


async def waiting_goal(goals: Goals, tmp_path: Path) -> str:
    ran = await goals.begin(NewGoal("asked", MindSpec("plan", plan=PLAN), tmp_path))
    return ran.state.goal_id


async def test_a_resume_waits_until_the_owner_is_proven_dead_and_says_so_once(
    goals: Goals, store: SilentOwner, tmp_path: Path
) -> None:
    goal_id = await waiting_goal(goals, tmp_path)
    told: list[str] = []
    store.silent = 3
    assert (await goals.resume_run(goal_id, RunOptions(tell=told.append))).outcome == "waiting"
    assert told == ["waiting up to 1 s for a sign of life of worker w1 on far"]


async def test_a_resume_gives_up_when_the_owner_gives_a_sign_of_life(
    goals: Goals, store: SilentOwner, tmp_path: Path
) -> None:
    goal_id = await waiting_goal(goals, tmp_path)
    store.silent, store.lives = 2, True
    with pytest.raises(Conflict, match="is being worked on by w1"):
        await goals.resume_run(goal_id)
    assert store.silent == 0


async def test_an_answer_is_recorded_as_soon_as_the_owner_is_proven_dead(
    goals: Goals, store: SilentOwner, tmp_path: Path
) -> None:
    goal_id = await waiting_goal(goals, tmp_path)
    store.silent = 2
    assert (await goals.decide(goal_id, "answer", value="yes")).status == "interrupted"
    assert await goals.pending(goal_id) == []


async def test_a_worker_that_waits_for_long_keeps_its_own_lease(store: SilentOwner, tmp_path: Path) -> None:
    goals = Goals(tmp_path, store, store, lease_s=0.03)
    goal_id = await waiting_goal(goals, tmp_path)
    store.renewals, store.silent = 0, 10
    await goals.resume_run(goal_id)
    assert store.renewals > 5
    await goals.close()


async def test_a_server_waits_for_no_owner_and_claims_the_goal_at_one_of_its_next_polls(
    goals: Goals, store: SilentOwner, tmp_path: Path
) -> None:
    goal_id = await waiting_goal(goals, tmp_path)
    await goals.decide(goal_id, "answer", value="yes")
    await store.claim(goal_id, replace(OWNER, id="dead"), "server")
    store.silent = 3
    async with await DatabaseClient.create(":memory:") as keys:
        serving = ServerWorker(goals, SqlIdempotencyKeys(keys), SystemClock())
        with pytest.raises(OwnerSilent):
            await serving.resume(goal_id)
        assert store.silent == 2
        polling = asyncio.create_task(serving.run())
        for _ in range(3_000):
            serving.poll_soon()
            if (await goals.find(goal_id)).status == "done":
                break
            await asyncio.sleep(0.01)
        await serving.close()
        await polling
    assert (await goals.find(goal_id)).status == "done"


async def test_a_worker_that_ends_retires(goals: Goals, store: SilentOwner, tmp_path: Path) -> None:
    await waiting_goal(goals, tmp_path)
    await goals.close()
    assert len(store.retired) == 1
    assert await store.living(store.retired, OWNER) == frozenset()
    await goals.close()
    assert len(store.retired) == 1
