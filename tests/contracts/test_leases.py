"""The contract of `Leases`: the same in memory, on SQLite and on PostgreSQL."""

import asyncio
from dataclasses import replace

import pytest

from perdure import Conflict, NotFound
from perdure.kernel.ports import Owned
from tests.contracts.histories import HELLO, OTHER, WORKER, Stored, begin, end


async def test_a_claim_raises_the_epoch_and_names_the_owner(stored: Stored) -> None:
    await begin(stored, release=True)
    assert await stored.leases.claim("g", OTHER) == 2
    assert (await stored.store.find("g")).worker == OTHER.id


async def test_an_owner_that_was_fenced_out_cannot_append(stored: Stored) -> None:
    goal = await begin(stored)
    await stored.leases.renew(WORKER, -1)
    goal.epoch = await stored.leases.claim("g", OTHER)
    with pytest.raises(Conflict, match="another owner"):
        await goal.append(HELLO, epoch=1)
    await goal.append(HELLO)
    assert await stored.store.load("g") == goal.events


async def test_a_goal_of_a_live_worker_cannot_be_claimed(stored: Stored) -> None:
    goal = await begin(stored)
    await stored.leases.renew(WORKER, 30)
    with pytest.raises(Conflict, match="w1 on host"):
        await stored.leases.claim("g", OTHER)
    await goal.append(HELLO)


async def test_a_goal_of_an_expired_or_unknown_worker_can_be_claimed(stored: Stored) -> None:
    await begin(stored)
    assert await stored.leases.claim("g", OTHER) == 2
    await stored.leases.renew(OTHER, 30)
    await stored.leases.renew(OTHER, 0)
    assert await stored.leases.claim("g", WORKER) == 3


async def test_a_renewal_counts_from_now(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, -1)
    await stored.leases.renew(WORKER, 30)
    with pytest.raises(Conflict):
        await stored.leases.claim("g", OTHER)


async def test_a_worker_may_claim_its_own_goal_again(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    assert await stored.leases.claim("g", WORKER) == 2


async def test_of_many_that_claim_at_once_one_live_worker_owns_the_goal(stored: Stored) -> None:
    await begin(stored, release=True)
    workers = [replace(WORKER, id=f"new{number}") for number in range(5)]
    for worker in workers:
        await stored.leases.renew(worker, 30)
    claims = await asyncio.gather(*[stored.leases.claim("g", worker) for worker in workers], return_exceptions=True)
    assert sorted(str(claim) for claim in claims if isinstance(claim, int)) == ["2"]


async def test_an_ended_or_unknown_goal_cannot_be_claimed(stored: Stored) -> None:
    goal = await begin(stored)
    await end(goal)
    with pytest.raises(Conflict, match="ended"):
        await stored.leases.claim("g", WORKER)
    await stored.store.delete("g")
    for goal_id in ("g", "unknown"):
        with pytest.raises(NotFound):
            await stored.leases.claim(goal_id, WORKER)


async def test_a_release_counts_only_while_the_goal_is_ours(stored: Stored) -> None:
    await begin(stored)
    for worker, epoch in ((OTHER, 1), (WORKER, 2)):
        await stored.leases.release("g", worker, epoch)
        assert (await stored.store.find("g")).worker == WORKER.id
    await stored.leases.release("g", WORKER, 1)
    assert (await stored.store.find("g")).worker is None
    await stored.leases.release("unknown", WORKER, 1)


async def test_a_worker_that_is_known_to_be_dead_loses_its_goals_at_once(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    stored.dead.add(WORKER.id)
    assert await stored.leases.claim("g", OTHER) == 2


@pytest.mark.parametrize("apart", [{"home_id": "another"}, {"boot_id": "another"}], ids=str)
async def test_only_a_claimant_beside_it_knows_that_a_worker_is_dead(stored: Stored, apart: dict[str, str]) -> None:
    if stored.is_bound_to_boot and "boot_id" in apart:
        pytest.skip("another boot is death itself")
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    stored.dead.add(WORKER.id)
    with pytest.raises(Conflict):
        await stored.leases.claim("g", replace(OTHER, **apart))


async def test_a_worker_that_was_not_heard_of_for_a_day_is_forgotten(stored: Stored) -> None:
    if stored.database is None:
        pytest.skip("memory does not outlive its workers")
    await stored.leases.renew(replace(WORKER, id="old"), -24 * 3600 - 1)
    await stored.leases.renew(replace(WORKER, id="late"), -3600)
    await stored.leases.renew(WORKER, 30)
    query = "SELECT worker FROM leases ORDER BY worker"
    assert await stored.database.read(lambda tx: list(tx.execute(query).scalars())) == ["late", "w1"]


async def test_who_lives_is_told_as_a_claim_would_see_it(stored: Stored) -> None:
    expired, gone, unknown = (replace(WORKER, id=name) for name in ("expired", "gone", "unknown"))
    for worker, ttl_s in ((WORKER, 30), (OTHER, 30), (gone, 30), (expired, -1)):
        await stored.leases.renew(worker, ttl_s)
    stored.dead.add(gone.id)
    everyone = [worker.id for worker in (WORKER, OTHER, gone, expired, unknown)]
    assert await stored.leases.living(everyone, OTHER) == {WORKER.id, OTHER.id}
    assert await stored.leases.living([WORKER.id], OTHER) == {WORKER.id}
    assert await stored.leases.living([], OTHER) == frozenset()
    elsewhere = replace(OTHER, home_id="another")
    assert await stored.leases.living(everyone, elsewhere) == {WORKER.id, OTHER.id, gone.id}


async def test_only_where_deadlines_are_bound_to_a_boot_is_a_worker_of_another_one_dead(stored: Stored) -> None:
    await stored.leases.renew(WORKER, 30)
    after = replace(OTHER, boot_id="after the restart")
    assert await stored.leases.living([WORKER.id], after) == (set() if stored.is_bound_to_boot else {WORKER.id})


async def test_a_claim_may_say_whose_goal_it_is_from_now_on(stored: Stored) -> None:
    goal = await begin(stored, release=True)
    goal.epoch = await stored.leases.claim("g", WORKER, "server")
    assert (await stored.store.find("g")).runner == "server"
    await goal.append(HELLO, release=True)
    assert (await stored.store.find("g")).runner == "server"
    await stored.leases.claim("g", WORKER)
    assert (await stored.store.find("g")).runner == "server"
    await stored.leases.claim("g", WORKER, "cli")
    assert (await stored.store.find("g")).runner == "cli"


async def test_a_goal_that_another_live_worker_has_is_owned_which_is_told_from_other_conflicts(stored: Stored) -> None:
    goal = await begin(stored)
    await stored.leases.renew(WORKER, 30)
    with pytest.raises(Owned):
        await stored.leases.claim("g", OTHER)
    await end(goal)
    with pytest.raises(Conflict) as refused:
        await stored.leases.claim("g", OTHER)
    assert not isinstance(refused.value, Owned)
