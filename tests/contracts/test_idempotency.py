"""The contract of calls that are done once under a key, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

import pytest

from perdure import Conflict, DatabaseClient, NotFound
from perdure.app.idempotency import Idempotency
from perdure.errors import KeyTaken
from perdure.forge.ports import BuilderDraft, BuilderMode, BuilderPhase
from perdure.kernel.ports import IdempotencyKeys, IdempotentCall
from perdure.store.builder.drafts import SqlBuilderDraftStore
from perdure.store.idempotency import KEPT_US, SqlIdempotencyKeys
from perdure.store.transaction import Transaction

CALL = IdempotentCall("a-key", "POST /things", b"\1" * 32, "thing-1")
DRAFT = BuilderDraft(
    session_id="s",
    state_json="{}",
    initial_description="a timer",
    phase=BuilderPhase.BASICS,
    mode=BuilderMode.BOT,
    question_count=0,
)


@dataclass
class Kept:
    """The keys of one database, and a clock that a test sets."""

    client: DatabaseClient
    now_us: int = 1_000_000

    @property
    def keys(self) -> IdempotencyKeys:
        return SqlIdempotencyKeys(self.client, now_us=lambda: self.now_us)

    @property
    def drafts(self) -> SqlBuilderDraftStore:
        return SqlBuilderDraftStore(self.client, now_us=lambda: self.now_us)

    async def count(self) -> int:
        return (await self.client.count_rows())["idempotency_keys"]


@pytest.fixture
async def kept(migrated_url: str) -> AsyncIterator[Kept]:
    async with await DatabaseClient.create(migrated_url) as client:
        await client.transaction(_empty)
        yield Kept(client)


def _empty(tx: Transaction) -> None:
    for table in ("idempotency_keys", "builder_drafts"):
        tx.execute(f"DELETE FROM {table}")


async def test_a_call_that_was_kept_is_found_and_no_other(kept: Kept) -> None:
    assert await kept.keys.find("a-key") is None
    assert await kept.keys.keep(CALL) == CALL
    assert await kept.keys.find("a-key") == CALL
    assert await kept.keys.find("A-key") is None


async def test_the_first_call_under_a_key_wins_whatever_comes_after(kept: Kept) -> None:
    await kept.keys.keep(CALL)
    for other in (CALL, replace(CALL, subject="thing-2"), replace(CALL, route="POST /else", body_sha256=b"\2" * 32)):
        assert await kept.keys.keep(other) == CALL
    assert await kept.count() == 1


async def test_the_key_of_a_call_that_was_refused_is_free_again_and_no_other(kept: Kept) -> None:
    await kept.keys.keep(CALL)
    await kept.keys.forget(replace(CALL, route="POST /else"))
    await kept.keys.forget(replace(CALL, body_sha256=b"\2" * 32))
    await kept.keys.forget(replace(CALL, key="another"))
    assert await kept.keys.find(CALL.key) == CALL
    await kept.keys.forget(CALL)
    await kept.keys.forget(CALL)
    assert await kept.keys.find(CALL.key) is None


async def test_of_many_who_keep_at_once_one_wins_and_all_get_its_answer(kept: Kept, migrated_url: str) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(await DatabaseClient.create(migrated_url)) for _ in range(4)]
        for key in ("one", "two", "three"):
            calls = [replace(CALL, key=key, subject=f"thing-{number}") for number in range(8)]
            keeping = [Kept(clients[at % 4]).keys.keep(call) for at, call in enumerate(calls)]
            told = await asyncio.gather(*keeping)
            assert len(set(told)) == 1
            assert told[0] in calls
            assert await kept.keys.find(key) == told[0]


async def test_a_call_is_forgotten_after_a_day_and_its_key_is_free(kept: Kept) -> None:
    await kept.keys.keep(CALL)
    kept.now_us += KEPT_US - 1
    assert await kept.keys.find("a-key") == CALL
    kept.now_us += 1
    assert await kept.keys.find("a-key") is None
    later = replace(CALL, subject="thing-2")
    assert await kept.keys.keep(later) == later
    assert await kept.count() == 1


async def test_what_is_too_old_is_removed_by_the_next_call(kept: Kept) -> None:
    for number in range(3):
        await kept.keys.keep(replace(CALL, key=f"old-{number}"))
    kept.now_us += KEPT_US
    await kept.keys.keep(CALL)
    assert await kept.count() == 1


async def test_a_draft_and_the_call_that_it_was_saved_for_are_kept_in_one_transaction(kept: Kept) -> None:
    await kept.drafts.save_draft(DRAFT, 0, CALL)
    assert await kept.keys.find("a-key") == CALL
    with pytest.raises(Conflict):
        await kept.drafts.save_draft(replace(DRAFT, session_id="another"), 0, replace(CALL, subject="another"))
    with pytest.raises(NotFound):
        await kept.drafts.load_draft("another")
    with pytest.raises(Conflict):
        await kept.drafts.save_draft(DRAFT, 0, replace(CALL, key="b-key"))
    assert await kept.keys.find("b-key") is None, "a draft that was not saved keeps no call"


async def test_of_two_drafts_that_are_saved_for_one_call_at_once_one_is(kept: Kept, migrated_url: str) -> None:
    async with await DatabaseClient.create(migrated_url) as other:
        saving = [
            each.drafts.save_draft(replace(DRAFT, session_id=name), 0, replace(CALL, subject=name))
            for each, name in ((kept, "one"), (Kept(other), "two"))
        ]
        told = await asyncio.gather(*saving, return_exceptions=True)
    assert sorted(type(each).__name__ for each in told) == ["BuilderDraft", "Conflict"]
    known = await kept.keys.find("a-key")
    assert known is not None
    assert [each.session_id for each in await kept.drafts.list_drafts()] == [known.subject]


async def test_the_first_answer_settles_a_call_and_later_ones_get_it(kept: Kept) -> None:
    await kept.keys.keep(CALL)
    assert (await kept.keys.settle(CALL, "answer")).subject == "answer"
    assert (await kept.keys.settle(CALL, "another")).subject == "answer"
    assert await kept.keys.find(CALL.key) == replace(CALL, subject="answer")


async def test_a_call_that_was_forgotten_is_not_kept_by_its_answer(kept: Kept) -> None:
    assert await kept.keys.settle(CALL, "answer") == replace(CALL, subject="answer")
    assert await kept.keys.find(CALL.key) is None


class Changes:
    """Something that is changed by calls, and is the same however often it is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.done: list[str] = []

    async def change(self, chosen: str = "") -> str:
        if self.error is not None:
            raise self.error
        self.done.append(chosen)
        return f"changed {chosen}"

    async def present(self, subject: str = "") -> str:
        return f"present {subject}"


async def test_a_call_without_a_key_is_simply_done(kept: Kept) -> None:
    calls, changes = Idempotency(kept.keys), Changes()
    assert await calls.in_change(None, changes.change, changes.present) == "changed "
    assert await calls.keep_first(None, "s", changes.change) == "changed "
    assert await calls.keep_last(None, "s", changes.change, changes.present) == "changed "
    assert await kept.count() == 0


async def test_a_repeat_of_a_call_whose_key_is_in_its_change_gets_what_there_is_now(kept: Kept) -> None:
    calls, changes = Idempotency(kept.keys), Changes()
    await kept.drafts.save_draft(DRAFT, 0, CALL)
    assert await calls.in_change(CALL, changes.change, changes.present) == "present thing-1"
    assert changes.done == []


async def test_a_conflict_of_a_call_with_itself_gets_what_there_is_now(kept: Kept) -> None:
    calls = Idempotency(kept.keys)

    async def lose() -> str:
        await kept.keys.keep(CALL)
        raise Conflict("the other was first")

    assert await calls.in_change(CALL, lose, Changes().present) == "present thing-1"


async def test_a_repeat_of_a_call_that_was_kept_first_is_done_again(kept: Kept) -> None:
    calls, changes = Idempotency(kept.keys), Changes()
    for _ in range(2):
        assert await calls.keep_first(CALL, "thing-1", changes.change) == "changed "
    assert await kept.keys.find(CALL.key) == CALL


async def test_a_call_that_was_kept_last_is_done_once(kept: Kept) -> None:
    calls, changes = Idempotency(kept.keys), Changes()
    assert await calls.keep_last(CALL, "thing-1", changes.change, changes.present) == "changed "
    assert await calls.keep_last(CALL, "thing-1", changes.change, changes.present) == "present "


async def test_an_answer_is_repeated_and_what_was_chosen_first_is_used(kept: Kept) -> None:
    calls, changes = Idempotency(kept.keys), Changes()
    await kept.keys.keep(replace(CALL, subject="first"))  # of a caller that died before its change
    assert await calls.settle(CALL, "second", changes.change) == ("changed first", False)
    assert await calls.settle(CALL, "third", changes.change) == ("changed first", True)
    assert changes.done == ["first"]


@pytest.mark.parametrize("error", [Conflict("taken"), OSError("broken")], ids=["rejected", "failed"])
async def test_only_a_call_that_was_rejected_leaves_its_key_free(kept: Kept, error: Exception) -> None:
    calls, changes = Idempotency(kept.keys), Changes(error)
    for begin in (
        lambda: calls.keep_first(CALL, "s", changes.change),
        lambda: calls.settle(CALL, "s", changes.change),
    ):
        with pytest.raises(type(error)):
            await begin()
        assert (await kept.keys.find(CALL.key) is None) == isinstance(error, Conflict)
        await kept.keys.forget(CALL)
    with pytest.raises(type(error)):
        await calls.keep_last(CALL, "s", changes.change, changes.present)
    assert await kept.keys.find(CALL.key) is None


async def test_the_key_of_another_call_is_taken_in_every_order(kept: Kept) -> None:
    calls, changes = Idempotency(kept.keys), Changes()
    await kept.keys.keep(replace(CALL, body_sha256=b"\2" * 32))
    for begin in (
        lambda: calls.in_change(CALL, changes.change, changes.present),
        lambda: calls.keep_first(CALL, "s", changes.change),
        lambda: calls.keep_last(CALL, "s", changes.change, changes.present),
        lambda: calls.settle(CALL, "s", changes.change),
    ):
        with pytest.raises(KeyTaken):
            await begin()
    assert changes.done == []
