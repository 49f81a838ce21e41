"""The contract of `Changes`: the same in memory, on SQLite and on PostgreSQL."""

from tests.contracts.histories import HELLO, Stored, begin


async def test_changes_name_the_goals_that_have_got_events_and_their_last_seq(stored: Stored) -> None:
    first = await begin(stored, "a")
    begun = await stored.store.changes(None)
    assert begun.goals == {}
    assert (await stored.store.changes(begun.mark)).goals == {}
    await first.append(HELLO, HELLO)
    await begin(stored, "b")
    found = await stored.store.changes(begun.mark)
    assert found.goals == {"a": 3, "b": 1}
    assert found.mark > begun.mark
    assert (await stored.store.changes(found.mark)).mark == found.mark
