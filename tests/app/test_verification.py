"""`verify` checks the hash chain of every goal, on both databases; `doctor` that of a sample."""

from collections.abc import AsyncIterator

import pytest

from perdure import DatabaseClient
from perdure.app.home.verification import sample_histories, verify_database
from perdure.store.transaction import Transaction
from tests.contracts.histories import HELLO, History, Stored, begin, end

EVENT = "UPDATE events SET {} WHERE seq = {} AND goal_no = (SELECT goal_no FROM goals WHERE id = '{}')"
CUT = "DELETE FROM events WHERE seq = {} AND goal_no = (SELECT goal_no FROM goals WHERE id = '{}')"
ROW = "UPDATE goals SET {} WHERE id = '{}'"
DAMAGE = {
    "payload": (EVENT.format("payload = replace(payload, 'hello', 'hellp')", 2, "payload"), 2),
    "timestamp": (EVENT.format("timestamp = timestamp + 1", 3, "timestamp"), 3),
    "iteration": (EVENT.format("iteration = 7", 1, "iteration"), 1),
    "type": (EVENT.format("type = 'goal'", 4, "type"), 4),
    "hole": (CUT.format(2, "hole"), 2),
    "tail": (CUT.format(5, "tail"), 5),
    "hash": (ROW.format("last_hash = (SELECT min(hash) FROM events WHERE seq = 1)", "hash"), 5),
    "short": (ROW.format("last_seq = 4", "short"), 4),
    "long": (ROW.format("last_seq = 6", "long"), 6),
    "far": (EVENT.format("payload = '{}'", 250, "far"), 250),
}


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[DatabaseClient]:
    async with await DatabaseClient.create(database_url) as client:
        yield client


def stored_in(db: DatabaseClient) -> Stored:
    return Stored(db.state_store(), db.leases(boottime_s=lambda: 0.0, is_dead=lambda _worker: False), set())


async def written(db: DatabaseClient, name: str, events: int = 5) -> History:
    return await begin(stored_in(db), name, *[HELLO] * (events - 1))


async def edit(db: DatabaseClient, *statements: str) -> None:
    """Change rows as nobody should."""

    def change(tx: Transaction) -> None:
        for name in ("events_are_never_changed", "events_go_with_their_goal"):
            is_sqlite = tx.dialect == "sqlite"
            tx.execute(f"DROP TRIGGER {name}" if is_sqlite else f"ALTER TABLE events DISABLE TRIGGER {name}")
        for statement in statements:
            assert tx.execute(statement).rowcount == 1, statement

    await db.transaction(change)


async def test_histories_that_were_not_changed_are_in_order(db: DatabaseClient) -> None:
    parent = await written(db, "parent")
    fork = await parent.fork("fork", 3)
    await fork.append(HELLO)
    await (await fork.fork("of its own event", 5)).append(HELLO)
    await fork.fork("of an inherited event", 2)
    await written(db, "long", 250)
    gone = await written(db, "gone")
    await end(gone)
    await stored_in(db).store.delete("gone")
    told: list[tuple[int, int]] = []
    assert await verify_database(db, lambda done, total: told.append((done, total))) == []
    assert told == [(number, 5) for number in range(1, 6)]
    sample = await sample_histories(db)
    assert (sample.checked, sample.total, sample.problems) == (5, 5, [])


async def test_every_goal_whose_history_was_changed_is_named_with_the_event(db: DatabaseClient) -> None:
    for name in (*DAMAGE, "whole"):
        await written(db, name, 300 if name == "far" else 5)
    await edit(db, *[statement for statement, _ in DAMAGE.values()])
    problems = await verify_database(db)
    assert len(problems) == len(DAMAGE)
    for (name, (_, seq)), problem in zip(DAMAGE.items(), problems, strict=True):
        assert f"Event {seq} of {name} " in problem
    assert sorted((await sample_histories(db)).problems) == sorted(problems)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("status = 'waiting'", "has status 'waiting'; its 2 events say 'done'"),
        ("reason = 'failed'", "has reason 'failed'; its 2 events say 'done'"),
        ("waiting_for = 'timer'", "has waiting_for 'timer'; its 2 events say None"),
        ("steps = 99", "has steps 99; its 2 events say 0"),
        ("inbox_count = 5", "has inbox_count 5; its inbox has 0 rows"),
    ],
)
async def test_a_row_that_contradicts_its_history_is_named(db: DatabaseClient, change: str, sentence: str) -> None:
    history = await written(db, "g", 1)
    await end(history)
    fork = await history.fork("fork", 1)
    await fork.append(HELLO)
    assert await verify_database(db) == []
    await edit(db, ROW.format(change, "g"))
    (problem,) = await verify_database(db)
    assert problem.startswith(f"The row of g {sentence}.")
    assert problem.endswith("Restore a backup from before the damage (`perdure db restore`).")


async def test_a_fork_whose_parent_is_gone_is_named(db: DatabaseClient) -> None:
    fork = await (await written(db, "parent")).fork("fork", 3)
    await fork.append(HELLO)
    await edit(db, ROW.format("deleted_at = 1", "parent"))
    assert await verify_database(db) == ["fork is a fork of parent, which no longer exists."]


async def test_a_sample_has_the_newest_goals_and_some_of_the_others(db: DatabaseClient) -> None:
    for number in range(60):
        await written(db, f"g{number}", 1)
    await edit(db, EVENT.format("payload = '{}'", 1, "g59"))
    sample = await sample_histories(db)
    assert 20 <= sample.checked <= 40
    assert sample.total == 60
    assert [problem.split(" was")[0] for problem in sample.problems] == ["Event 1 of g59"]


async def test_a_database_of_before_the_first_version_has_no_histories_to_check(empty_url: str) -> None:
    async with await DatabaseClient.create(empty_url, migrate=False) as client:
        assert await verify_database(client) == []
