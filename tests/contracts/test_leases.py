"""The contract of `Leases`: the same in memory, on SQLite and on PostgreSQL."""

import asyncio
from dataclasses import replace

import pytest

from perdure import Conflict, NotFound
from perdure.kernel.ports import Ended, Owned
from tests.contracts.histories import HELLO, OTHER, WORKER, Stored, begin, end


async def test_a_claim_raises_the_epoch_and_names_the_owner(stored: Stored) -> None:
    await begin(stored, release=True)
    assert await stored.leases.claim("g", OTHER) > 1
    assert (await stored.store.find("g")).worker == OTHER.id


async def test_an_epoch_cannot_be_guessed_from_the_one_before(stored: Stored) -> None:
    """A database that goes back to an earlier state would assign the same epoch again, with steps of 1."""
    goals = [await begin(stored, f"g{number}", release=True) for number in range(8)]
    epochs = [await stored.leases.claim(goal.goal_id, OTHER) for goal in goals]
    assert len(set(epochs)) == 8
    assert all(1 < epoch < 2**41 for epoch in epochs)


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
    first = await stored.leases.claim("g", OTHER)
    await stored.leases.renew(OTHER, 30)
    await stored.leases.renew(OTHER, 0)
    assert await stored.leases.claim("g", WORKER) > first


async def test_a_renewal_counts_from_now(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, -1)
    await stored.leases.renew(WORKER, 30)
    with pytest.raises(Conflict):
        await stored.leases.claim("g", OTHER)


async def test_a_worker_may_claim_its_own_goal_again(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    assert await stored.leases.claim("g", WORKER) > 1


async def test_of_many_that_claim_at_once_one_live_worker_owns_the_goal(stored: Stored) -> None:
    await begin(stored, release=True)
    workers = [replace(WORKER, id=f"new{number}") for number in range(5)]
    for worker in workers:
        await stored.leases.renew(worker, 30)
    claims = await asyncio.gather(*[stored.leases.claim("g", worker) for worker in workers], return_exceptions=True)
    assert len([claim for claim in claims if isinstance(claim, int)]) == 1


async def test_an_ended_or_unknown_goal_cannot_be_claimed(stored: Stored) -> None:
    goal = await begin(stored)
    await end(goal)
    with pytest.raises(Ended, match="g has ended"):
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
    assert await stored.leases.claim("g", OTHER) > 1


@pytest.mark.parametrize("apart", [{"home_id": "another"}, {"host": "h2", "boot_id": "another"}], ids=str)
async def test_only_a_claimant_beside_it_knows_that_a_worker_is_dead(stored: Stored, apart: dict[str, str]) -> None:
    if stored.is_bound_to_boot and "boot_id" in apart:
        pytest.skip("another boot is death itself")
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    stored.dead.add(WORKER.id)
    with pytest.raises(Conflict):
        await stored.leases.claim("g", replace(OTHER, **apart))


async def test_a_worker_that_is_not_heard_of_for_the_time_of_its_lease_loses_its_goals(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    for wait_s in (0, 29.9):
        stored.clock.now_s += wait_s
        with pytest.raises(Conflict, match="is being worked on by w1"):
            await stored.leases.claim("g", OTHER)
    stored.clock.now_s += 0.1
    assert await stored.leases.living([WORKER.id], OTHER) == frozenset()
    assert await stored.leases.claim("g", OTHER) > 1


async def test_a_worker_that_renews_its_lease_keeps_its_goals(stored: Stored) -> None:
    await begin(stored)
    for _ in range(5):
        await stored.leases.renew(WORKER, 30)
        stored.clock.now_s += 20
        with pytest.raises(Conflict, match="is being worked on by w1"):
            await stored.leases.claim("g", OTHER)
        assert await stored.leases.living([WORKER.id], OTHER) == {WORKER.id}


async def test_a_worker_that_has_retired_is_dead_at_once(stored: Stored) -> None:
    await begin(stored)
    await stored.leases.renew(WORKER, 30)
    await stored.leases.renew(OTHER, 30)
    await stored.leases.retire(WORKER)
    await stored.leases.retire(replace(WORKER, id="unknown"))
    assert await stored.leases.living([WORKER.id, OTHER.id], OTHER) == {OTHER.id}
    assert await stored.leases.claim("g", OTHER) > 1


async def test_a_worker_that_is_not_heard_of_for_long_is_forgotten_by_the_clock_of_the_others(stored: Stored) -> None:
    if stored.database is None:
        pytest.skip("memory does not outlive its workers")
    late = replace(WORKER, id="late")
    await stored.leases.renew(replace(WORKER, id="old"), 30)
    for hour in range(26):
        await stored.leases.renew(WORKER, 30)
        if hour > 24:
            await stored.leases.renew(late, 30)
        stored.clock.now_s += 3600
    await stored.leases.renew(WORKER, 30)
    query = "SELECT worker FROM leases ORDER BY worker"
    assert await stored.database.read(lambda tx: list(tx.execute(query).scalars())) == ["late", "w1"]


async def test_who_lives_is_reported_as_a_claim_would_see_it(stored: Stored) -> None:
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
    after = replace(OTHER, host="another", boot_id="after the restart")
    assert await stored.leases.living([WORKER.id], after) == (set() if stored.is_bound_to_boot else {WORKER.id})


async def test_a_claim_may_say_whose_goal_it_is_from_now_on(stored: Stored) -> None:
    goal = await begin(stored, release=True)
    goal.epoch = await stored.leases.claim("g", WORKER, "server")
    assert (await stored.store.find("g")).queue == "server"
    await goal.append(HELLO, release=True)
    assert (await stored.store.find("g")).queue == "server"
    await stored.leases.claim("g", WORKER)
    assert (await stored.store.find("g")).queue == "server"
    await stored.leases.claim("g", WORKER, "cli")
    assert (await stored.store.find("g")).queue == "cli"


async def test_a_goal_that_another_live_worker_has_is_owned_which_is_distinguished_from_other_conflicts(
    stored: Stored,
) -> None:
    goal = await begin(stored)
    await stored.leases.renew(WORKER, 30)
    with pytest.raises(Owned):
        await stored.leases.claim("g", OTHER)
    await end(goal)
    with pytest.raises(Conflict) as refused:
        await stored.leases.claim("g", OTHER)
    assert not isinstance(refused.value, Owned)
