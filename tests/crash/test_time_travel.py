"""Long runs in which time does what it should not: a database goes back while workers run, a server's clock jumps."""

import asyncio
import random

import pytest

from perdure import Conflict
from perdure.kernel.events import Message
from perdure.kernel.history.replay import require_unchanged
from tests.contracts.conftest import in_postgres
from tests.contracts.histories import HELLO, OTHER, WORKER, History, Stored, begin
from tests.contracts.test_newer_schema import stored_in
from tests.contracts.test_postgres_leases import DAY_S, ELSEWHERE, jump
from tests.contracts.time_travel import put_back, taken_now
from tests.crash.size import torture_size
from tests.postgres import PostgresServer
from tests.store.test_migrations import open_with

JUMPS_S = (0, 45, -45, 20, -20, DAY_S, -DAY_S)
LEASE_S = 30
SEED = 20_261_116


async def append_until_refused(goal: History, first: asyncio.Event, count: int) -> None:
    """Write as a worker does that knows nothing of what happens to the database."""
    for number in range(1_000_000):
        if number == count:
            first.set()
        try:
            await goal.append(Message("ours"))
        except Conflict:
            first.set()
            return


@pytest.mark.torture
async def test_a_database_that_goes_back_under_its_workers_keeps_the_history_of_one(database_url: str) -> None:
    chance = random.Random(SEED)
    ours, theirs = await open_with(database_url), await open_with(database_url)
    first, second = stored_in(ours), stored_in(theirs)
    for number in range(torture_size(small=10)):
        name = f"g{number}"
        goal = await begin(first, name, release=True)
        goal.epoch = await first.leases.claim(name, WORKER)
        before = await taken_now(theirs)
        has_begun = asyncio.Event()
        writing = asyncio.create_task(append_until_refused(goal, has_begun, chance.randrange(6)))
        await has_begun.wait()
        await put_back(theirs, before)
        events = await second.store.load(name)
        epoch = await second.leases.claim(name, OTHER)
        other = History(second, name, epoch, await second.store.load(name), OTHER)
        assert other.events[: len(events)] == events
        for _ in range(chance.randrange(6)):
            await other.append(Message("theirs"))
        await writing
        loaded = await second.store.load(name)
        assert loaded == other.events
        require_unchanged(loaded, name)
    await ours.close()
    await theirs.close()


async def claims(stored: Stored, name: str) -> bool:
    try:
        await stored.leases.claim(name, ELSEWHERE)
    except Conflict:
        return False
    return True


@pytest.mark.torture
async def test_whatever_the_clock_of_the_server_does_only_a_dead_worker_loses_its_goals(
    postgres: PostgresServer,
) -> None:
    chance = random.Random(SEED)
    async with in_postgres(postgres.new_database("clock_jumps")) as stored:
        for number in range(torture_size(small=5)):
            name = f"g{number}"
            goal = await begin(stored, name)
            for _ in range(12):
                await stored.leases.renew(WORKER, LEASE_S)
                for _ in range(chance.randrange(3)):
                    await jump(stored, chance.choice(JUMPS_S))
                    assert not await claims(stored, name)
                stored.clock.now_s += LEASE_S / 3
            await goal.append(HELLO)
            silent_s = 0
            while not await claims(stored, name):
                await jump(stored, chance.choice(JUMPS_S))
                stored.clock.now_s += 1
                silent_s += 1
            assert silent_s <= LEASE_S
