"""What the leases in PostgreSQL promise beyond the port: no jump of the server's clock kills or revives a worker."""

from dataclasses import replace

import pytest

from perdure import Conflict
from perdure.kernel.ports import Owned, OwnerSilent
from perdure.store.transaction import Transaction
from tests.contracts.histories import HELLO, OTHER, WORKER, Stored, begin
from tests.contracts.time_travel import put_back, taken_now

pytestmark = pytest.mark.parametrize("place", ["postgresql"], indirect=True)
ELSEWHERE = replace(OTHER, host="another", home_id="another", boot_id="another")
DAY_S = 24 * 3600


async def jump(stored: Stored, seconds: int) -> None:
    """Let the server's clock differ from the real one."""
    await changed(stored, f"UPDATE server_clock SET shift = INTERVAL '{seconds} seconds'")


async def changed(stored: Stored, statement: str) -> None:
    def change(tx: Transaction) -> None:
        tx.execute(statement)

    assert stored.database is not None
    await stored.database.write(change)


async def refused(stored: Stored) -> Conflict:
    """Why the goal cannot be claimed from elsewhere."""
    with pytest.raises(Conflict) as refusal:
        await stored.leases.claim("g", ELSEWHERE)
    return refusal.value


async def test_a_healthy_worker_keeps_its_goal_when_the_clock_jumps_forward(stored: Stored) -> None:
    goal = await begin(stored)
    await stored.leases.renew(WORKER, 30)
    await jump(stored, 45)
    assert isinstance(await refused(stored), OwnerSilent)
    stored.clock.now_s += 10
    assert isinstance(await refused(stored), OwnerSilent)
    await stored.leases.renew(WORKER, 30)
    await jump(stored, 90)
    assert type(await refused(stored)) is Owned
    assert await stored.leases.living([WORKER.id], ELSEWHERE) == {WORKER.id}
    await goal.append(HELLO)


async def test_a_dead_worker_loses_its_goal_when_the_clock_jumps_back_a_day(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    await jump(stored, -DAY_S)
    assert await stored.leases.living([WORKER.id], ELSEWHERE) == frozenset()
    silent = await refused(stored)
    assert isinstance(silent, OwnerSilent)
    assert (silent.owner, silent.left_s) == (WORKER, 30)
    stored.clock.now_s += 30
    assert await stored.leases.claim("g", ELSEWHERE) > 1


async def test_a_healthy_worker_keeps_its_goal_when_the_clock_jumps_back_a_day(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    await jump(stored, -DAY_S)
    for _ in range(5):
        await refused(stored)
        stored.clock.now_s += 10
        await stored.leases.renew(WORKER, 30)
    assert type(await refused(stored)) is Owned


async def test_the_waiting_process_learns_for_how_long(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    await jump(stored, 45)
    left = []
    for _ in range(3):
        silent = await refused(stored)
        assert isinstance(silent, OwnerSilent)
        left.append(silent.left_s)
        stored.clock.now_s += 10
    assert left == [30, 20, 10]
    assert "may still be run by w1 on host" in silent.detail
    assert await stored.leases.claim("g", ELSEWHERE) > 1


async def test_who_was_proven_dead_does_not_live_again_because_the_clock_says_so(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    await stored.leases.living([WORKER.id], ELSEWHERE)
    stored.clock.now_s += 30
    assert await stored.leases.living([WORKER.id], ELSEWHERE) == frozenset()
    assert await stored.leases.claim("g", ELSEWHERE) > 1


async def test_a_worker_of_a_machine_that_was_started_again_is_dead_for_that_machine(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    assert type(await refused(stored)) is Owned
    assert await stored.leases.claim("g", replace(OTHER, boot_id="after the restart")) > 1


async def test_a_renewal_of_an_older_version_that_moves_only_the_deadline_is_a_sign_of_life(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    await jump(stored, 45)
    await refused(stored)
    stored.clock.now_s += 20
    await changed(stored, "UPDATE leases SET deadline = deadline + 1")
    assert type(await refused(stored)) is Owned


async def test_a_database_that_goes_back_kills_no_worker(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    assert stored.database is not None
    before = await taken_now(stored.database)
    for _ in range(3):
        stored.clock.now_s += 10
        await stored.leases.renew(WORKER, 30)
        await refused(stored)
    await put_back(stored.database, before)
    await jump(stored, 45)
    stored.clock.now_s += 10
    assert type(await refused(stored)) is Owned
