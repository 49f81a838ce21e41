"""The contract of `Leases.claim_next`: the same in memory, on SQLite and on PostgreSQL."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from perdure import Conflict, failpoints
from perdure.kernel.events import Ask, Signal, content_of
from perdure.kernel.ports import ClaimedGoal, Leases, Worker
from perdure.store.database import Database
from perdure.store.goals.postgres import PostgresLeases
from perdure.store.goals.sqlite import SqliteLeases
from perdure.store.postgres.database import PostgresDatabase
from perdure.store.raw import RawDatabase
from perdure.store.sqlite.file_database import SqliteFileDatabase
from perdure.store.target import PostgresTarget, parse_target
from tests.contracts.histories import HELLO, OTHER, WORKER, History, Stored, end, put
from tests.contracts.reads import CountedReads

THIRD = replace(OTHER, id="w3")
in_sql = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)
in_postgres = pytest.mark.parametrize("place", ["postgresql"], indirect=True)


async def claimed(stored: Stored, worker: Worker = OTHER, **options: object) -> str | None:
    """Claim the next goal of the server, and see that `has_next` has announced it."""
    is_there = await stored.leases.has_next(["server"], worker, **options)  # type: ignore[arg-type]
    found = await stored.leases.claim_next(["server"], worker, **options)  # type: ignore[arg-type]
    assert is_there == (found is not None)
    return None if found is None else found.goal.goal_id


async def waiting(stored: Stored, goal_id: str) -> History:
    """Make a goal that waits for a person, and has something in its inbox."""
    goal = await put(stored, goal_id, release=False)
    await goal.append(Ask("a/1", "a", "Sure?", None), release=True)
    await stored.store.post(goal_id, "signal", content_of(Signal("hello")), key="k")
    return goal


async def test_open_goals_of_a_queue_are_claimed_the_oldest_first(stored: Stored) -> None:
    for name in ("b", "c", "a"):
        await put(stored, name)
    await put(stored, "terminal", "cli")
    assert [await claimed(stored) for _ in range(4)] == ["b", "c", "a", None]


async def test_a_claim_is_the_claim_of_a_goal_by_name(stored: Stored) -> None:
    goal = await put(stored, "g")
    found = await stored.leases.claim_next(["server"], WORKER)
    assert found is not None
    assert (found.goal, found.former) == (await stored.store.find("g"), None)
    assert (found.goal.worker, found.goal.deaths) == (WORKER.id, 0)
    with pytest.raises(Conflict, match="another owner"):
        await goal.append(HELLO)
    goal.epoch = found.epoch
    await goal.append(HELLO)


async def test_the_oldest_goal_of_several_queues_is_claimed(stored: Stored) -> None:
    for number, queue in enumerate(["app.shop", "server", "cli"]):
        await put(stored, f"g{number}", queue)
    queues = ["server", "app.shop"]
    found = [await stored.leases.claim_next(queues, OTHER) for _ in range(3)]
    assert [each and each.goal.goal_id for each in found] == ["g0", "g1", None]
    assert await stored.leases.claim_next([], OTHER) is None


async def test_a_goal_that_waits_and_was_posted_to_comes_first(stored: Stored) -> None:
    await put(stored, "older")
    await waiting(stored, "waits")
    assert [await claimed(stored) for _ in range(3)] == ["waits", "older", None]


async def test_goals_that_wait_for_a_person_or_have_ended_are_not_claimed(stored: Stored) -> None:
    await end(await put(stored, "ended", release=False))
    waits = await put(stored, "waits", release=False)
    await waits.append(Ask("a/1", "a", "Sure?", None), release=True)
    deleted = await put(stored, "deleted")
    await stored.store.delete(deleted.goal_id, even_unfinished=True)
    assert await claimed(stored) is None


async def test_goals_of_live_workers_and_of_the_claimant_are_not_claimed(stored: Stored) -> None:
    for worker in (WORKER, OTHER):
        await stored.leases.renew(worker, 30)
        await put(stored, f"of {worker.id}")
        assert await claimed(stored, worker) == f"of {worker.id}"
    await put(stored, "new")
    assert [await claimed(stored) for _ in range(2)] == ["new", None]


async def test_a_goal_of_a_dead_worker_is_claimed_in_its_turn_and_counts_a_death(stored: Stored) -> None:
    await stored.leases.renew(WORKER, 30)
    for name in ("first", "left", "last"):
        await put(stored, name, release=name != "left")
    assert await claimed(stored) == "first"
    stored.dead.add(WORKER.id)
    found = await stored.leases.claim_next(["server"], OTHER)
    assert found is not None
    assert (found.goal.goal_id, found.former, found.goal.deaths) == ("left", WORKER.id, 1)
    assert [await claimed(stored) for _ in range(2)] == ["last", None]


async def test_a_posted_goal_of_a_dead_worker_that_waits_is_claimed(stored: Stored) -> None:
    goal = await waiting(stored, "waits")
    goal.epoch = await stored.leases.claim("waits", WORKER)
    await stored.leases.renew(WORKER, 30)
    assert await claimed(stored) is None
    await stored.leases.retire(WORKER)
    assert await claimed(stored) == "waits"


async def test_goals_of_a_worker_are_claimed_after_the_time_of_its_lease(stored: Stored) -> None:
    await stored.leases.renew(WORKER, 30)
    await put(stored, "left", release=False)
    for wait_s in (0, 29.9):
        stored.clock.now_s += wait_s
        assert await claimed(stored) is None
    stored.clock.now_s += 0.1
    assert await claimed(stored) == "left"


@in_postgres
async def test_a_silent_worker_keeps_its_goals_until_its_death_is_proven(stored: Stored) -> None:
    elsewhere = Worker("w9", "another", "another", "another")
    await stored.leases.renew(WORKER, 30)
    await put(stored, "left", release=False)
    assert stored.database is not None
    later = "UPDATE server_clock SET shift = INTERVAL '90 seconds'"
    await stored.database.write_raw(lambda raw: raw.execute(later))
    for wait_s in (0, 29):
        stored.clock.now_s += wait_s
        assert await claimed(stored, elsewhere) is None
    stored.clock.now_s += 1
    assert await claimed(stored, elsewhere) == "left"


async def test_a_goal_is_skipped_at_a_seq_and_holds_up_no_other(stored: Stored) -> None:
    bad, waits = await put(stored, "bad", release=False), await waiting(stored, "waits")
    await bad.append(release=True)
    await put(stored, "good")
    skip = {"bad": 1, "waits": 2}
    assert [await claimed(stored, skip=skip) for _ in range(2)] == ["good", None]
    bad.epoch = await stored.leases.claim("bad", THIRD)
    await bad.append(HELLO, release=True)
    assert [await claimed(stored, skip=skip) for _ in range(2)] == ["bad", None]
    assert waits.goal_id == await claimed(stored)


async def test_behind_a_goal_only_open_goals_behind_it_are_claimed(stored: Stored) -> None:
    for name in ("a", "b", "c"):
        await put(stored, name)
    await waiting(stored, "waits")
    assert await claimed(stored, after="b") == "c"
    assert await claimed(stored, after="b") is None
    assert await claimed(stored) == "waits"
    assert await claimed(stored) == "a"


async def test_a_claim_that_fails_changes_nothing(stored: Stored) -> None:
    if stored.database is None:
        pytest.skip("memory has nothing that fails")
    await put(stored, "g")

    def fail() -> None:
        raise RuntimeError("It failed.")

    with failpoints.armed("store.claim.before", fail), pytest.raises(RuntimeError):
        await stored.leases.claim_next(["server"], OTHER)
    assert (await stored.store.find("g")).worker is None
    assert await claimed(stored) == "g"


async def opened(place: str | Path) -> tuple[Database, Leases]:
    """Open the database of a test once more, as another process would."""
    options = {"boottime_s": lambda: 1_000_000.0, "is_dead": lambda name: name == "dead"}
    if isinstance(place, Path):
        database = await SqliteFileDatabase.open(place, migrate=False, debug=False)
        return database, SqliteLeases(database, **options)  # type: ignore[arg-type]
    target = parse_target(place)
    assert isinstance(target, PostgresTarget)
    server = await PostgresDatabase.open(target, migrate=False, debug=False)
    return server, PostgresLeases(server, **options)  # type: ignore[arg-type]


async def claim_all(leases: Leases, worker: Worker) -> list[ClaimedGoal]:
    await leases.renew(worker, 30)
    found: list[ClaimedGoal] = []
    while (one := await leases.claim_next(["server"], worker)) is not None:
        found.append(one)
    return found


async def test_each_of_many_goals_is_claimed_by_one_of_several_claimants(
    stored: Stored, place: str | Path | None
) -> None:
    """Every second goal is one that a dead worker has left."""
    dead = replace(WORKER, id="dead")
    stored.dead.add("dead")
    for number in range(100):
        await put(stored, f"g{number:02}")
        if number % 2:
            await stored.leases.claim(f"g{number:02}", dead)
    workers = [replace(OTHER, id=f"c{number}") for number in range(8)]
    others = [] if place is None else [await opened(place) for _ in workers]
    leases = [each for _, each in others] or [stored.leases] * len(workers)
    found = await asyncio.gather(*map(claim_all, leases, workers))
    for database, _ in others:
        await database.close()
    names = [one.goal.goal_id for each in found for one in each]
    assert sorted(names) == [f"g{number:02}" for number in range(100)]
    for worker, each in zip(workers, found, strict=True):
        assert {one.goal.worker for one in each} <= {worker.id}
    deaths = [(await stored.store.find(f"g{number:02}")).deaths for number in range(100)]
    assert deaths == [0, 1] * 50


FEW = {"sqlite": 3_000, "postgresql": 40}
"""The most that a look may read: instructions of SQLite's machine, rows of PostgreSQL."""


CROWDS = {
    "held by live workers": "'open', 'live' || (n - n / 4 * 4)",
    "queued": "'open', NULL",
    "waiting for a person": "'waiting', NULL",
}
"""Status and owner of ten thousand goals behind the first."""


@in_sql
@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("is_analyzed", [True, False], ids=["analyzed", "not analyzed"])
async def test_a_look_at_ten_thousand_goals_reads_a_few_rows(stored: Stored, crowd: str, *, is_analyzed: bool) -> None:
    await put(stored, "first")
    assert stored.database is not None
    for number in range(4):
        await stored.leases.renew(replace(WORKER, id=f"live{number}"), 30)
    copy = (
        "INSERT INTO goals (id, text, mind, queue, last_seq, last_hash, created_at, updated_at, status, worker)"
        " WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 10000)"
        " SELECT 'copy' || n, text, mind, queue, last_seq, last_hash, created_at, updated_at,"
        f" {CROWDS[crowd]} FROM goals, numbers"
    )
    await stored.database.write_raw(lambda raw: raw.execute(copy))
    if is_analyzed:
        await stored.database.write_raw(lambda raw: raw.execute("ANALYZE"))
    reads = CountedReads(stored.database)
    kind = SqliteLeases if stored.is_bound_to_boot else PostgresLeases
    leases = kind(cast("RawDatabase", reads), boottime_s=stored.clock.boottime_s)
    most = FEW["sqlite" if stored.is_bound_to_boot else "postgresql"]
    skip = {"copy1": 1, "copy2": 1}
    assert await leases.has_next(["server"], OTHER, skip=skip)
    assert reads.taken() <= most
    found = await leases.claim_next(["server"], OTHER, skip=skip)
    assert found is not None
    assert found.goal.goal_id == "first"
    assert reads.taken() <= most
    assert await leases.has_next(["server"], OTHER, skip=skip) == (crowd == "queued")
    assert reads.taken() <= most
