"""`perdure goal cancel` of a goal that ends by itself before its worker has seen the cancel."""

import asyncio
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.app.home.system import SystemClock, SystemIds, WorkerIdentity
from perdure.kernel.events import GoalBegun, MindSpec, Reason, Termination
from perdure.kernel.journal import Journal, JournalDeps
from perdure.kernel.ports import Worker


async def cancelled_late(worker: Worker, workdir: Path, reason: Reason) -> tuple[str, int | None, str]:
    """Cancel a goal that a worker runs, and end it once the cancel is posted; return its id, the exit and the error."""
    async with Perdure.open() as p, asyncio.timeout(60):
        store, ids = p.database.state_store(), SystemIds()
        leases = p.database.leases(boottime_s=SystemClock().boottime_s, is_dead=lambda _name: False)
        await leases.renew(worker, 60)
        deps = JournalDeps(store, SystemClock(), ids, worker, "cli")
        journal = Journal.begin(deps, GoalBegun("pay", MindSpec("model"), workdir=str(workdir)), ids.goal_id("pay"))
        await journal.commit()
        command = (sys.executable, "-m", "perdure", "goal", "cancel", journal.goal_id)
        cancel = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        while not await store.inbox(journal.goal_id):
            assert cancel.returncode is None
            await p.goals.pause()
        journal.record(Termination(reason))
        await journal.commit(release=True)
        said, error = await cancel.communicate()
        assert said == b""
        return journal.goal_id, cancel.returncode, error.decode()


@pytest.mark.parametrize(("reason", "status"), [("done", "done"), ("fatal_error", "failed")])
def test_a_cancel_that_comes_too_late_is_a_conflict_that_says_how_the_goal_ended(
    ready: Path, tmp_path: Path, reason: Reason, status: str
) -> None:
    identity = WorkerIdentity(tmp_path / "home")
    try:
        goal, code, error = asyncio.run(cancelled_late(identity.worker, ready, reason))
    finally:
        identity.close()
    assert (code, error) == (4, f"perdure: {goal} ended before it could be cancelled: {status}.\n")
