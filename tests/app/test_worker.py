"""One worker per process: it beats, it looks, and it stops itself before anybody else may take its goals."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perdure import Conflict, Unavailable
from perdure.app.goals.arguments.run_options import RunOptions
from perdure.app.goals.goals import Goals
from perdure.app.goals.new_goal import NewGoal
from perdure.kernel.events import MindSpec
from perdure.kernel.loop import Loop
from perdure.kernel.ports import Worker
from perdure.store.goals.memory_state_store import InMemoryStateStore

LEASE_S = 0.3


class CountingLeases(InMemoryStateStore):
    """A store that tells when leases are renewed, and that stops doing so when told."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed: asyncio.Queue[Worker] = asyncio.Queue()
        self.most = 10**9

    async def renew(self, worker: Worker, ttl_s: float) -> None:
        if self.most == 0:
            raise Unavailable("The database does not answer.")
        self.most -= 1
        await super().renew(worker, ttl_s)
        self.renewed.put_nowait(worker)


@pytest.fixture
def store() -> CountingLeases:
    return CountingLeases()


@pytest.fixture
async def goals(store: CountingLeases, tmp_path: Path) -> AsyncIterator[Goals]:
    goals = Goals(tmp_path, store, store, lease_s=LEASE_S)
    yield goals
    await goals.close()


def command(text: str, tmp_path: Path) -> NewGoal:
    return NewGoal(text, MindSpec("command", shell=True), tmp_path)


async def test_a_worker_renews_its_lease_for_as_long_as_it_runs_a_goal(
    goals: Goals, store: CountingLeases, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    running = asyncio.create_task(goals.begin(command("read x < gate", tmp_path)))
    workers = {(await store.renewed.get()).id for _ in range(4)}
    await asyncio.to_thread((tmp_path / "gate").write_text, "go\n")
    assert (await running).state.status == "done"
    assert len(workers) == 1


async def test_a_worker_that_cannot_renew_stops_its_goals_and_what_they_run(
    goals: Goals, store: CountingLeases, tmp_path: Path
) -> None:
    store.most = 1
    with pytest.raises(Unavailable, match="lease"):
        await goals.begin(command("echo $$ > pid; exec sleep 600", tmp_path))
    pid = int((tmp_path / "pid").read_text())
    assert not Path(f"/proc/{pid}").exists()
    assert (await goals.list())[0].status == "interrupted"


async def test_a_goal_runs_once_in_a_process_and_takes_what_is_posted_to_it(goals: Goals, tmp_path: Path) -> None:
    begun: asyncio.Queue[Loop] = asyncio.Queue()

    def watch(loop: Loop) -> None:
        loop.journal.listen(lambda _events, _state: begun.put_nowait(loop))

    running = asyncio.create_task(goals.begin(command("exec sleep 600", tmp_path), RunOptions(watch=watch)))
    goal_id = (await begun.get()).state.goal_id
    with pytest.raises(Conflict, match="by this process already"):
        await goals.resume_run(goal_id)
    assert (await goals.cancel(goal_id)).reason == "cancelled"
    ended = (await running).state.termination
    assert ended is not None
    assert ended.reason == "cancelled"


async def test_a_run_that_is_cancelled_twice_leaves_nothing_behind(goals: Goals, tmp_path: Path) -> None:
    begun: asyncio.Queue[str] = asyncio.Queue()

    def watch(loop: Loop) -> None:
        loop.journal.listen(lambda _events, state: begun.put_nowait(state.goal_id))

    deaf = "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"
    running = asyncio.create_task(goals.begin(command(deaf, tmp_path), RunOptions(watch=watch)))
    goal_id = await begun.get()
    for _ in range(2):
        running.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await goals.cancel(goal_id)).status == "cancelled"
