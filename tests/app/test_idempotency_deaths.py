"""A process dies before or after each commit of a call with a key: the same call again finishes it, once."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from perdure import failpoints
from perdure.app.idempotency import Idempotency
from perdure.errors import Conflict, KeyTaken
from perdure.kernel.ports import IdempotentCall
from perdure.store.client import DatabaseClient
from perdure.store.idempotency import SqlIdempotencyKeys, keep_call
from tests import children

POINTS = ("store.commit.before", "store.commit.after")
CALL = IdempotentCall("key", "route", bytes(32), "tea")
EFFECT = IdempotentCall("effect-tea", "effect", bytes(32), "tea")
"""Stands for what a call changes: a row that can be inserted once."""


class Died(BaseException):
    """What a process feels when it is killed."""


@dataclass
class Caller:
    """One process that makes a call, and how often it did the change."""

    client: DatabaseClient
    changes: int = 0

    @property
    def keys(self) -> SqlIdempotencyKeys:
        return SqlIdempotencyKeys(self.client)

    @property
    def calls(self) -> Idempotency:
        return Idempotency(self.keys)

    async def change(self, subject: str = "tea") -> str:
        """Change something that is found when it was changed before."""
        self.changes += 1
        if await self.keys.find(EFFECT.key) is None:
            await self.client.write_raw(lambda raw: keep_call(raw, EFFECT, time.time_ns() // 1000))
        return subject

    async def change_with_key(self) -> str:
        """Change something and keep the key in one transaction."""
        self.changes += 1

        def both(raw: object) -> None:
            for row in (EFFECT, CALL):
                keep_call(raw, row, time.time_ns() // 1000)  # type: ignore[arg-type]

        await self.client.write_raw(both)
        return "tea"

    async def present(self, subject: str = "tea") -> str:
        return subject


async def in_change(caller: Caller, call: IdempotentCall) -> str:
    return await caller.calls.in_change(call, caller.change_with_key, caller.present)


async def keep_first(caller: Caller, call: IdempotentCall) -> str:
    return await caller.calls.keep_first(call, "tea", caller.change)


async def keep_last(caller: Caller, call: IdempotentCall) -> str:
    return await caller.calls.keep_last(call, "tea", caller.change, caller.present)


async def settled(caller: Caller, call: IdempotentCall) -> str:
    answer, _ = await caller.calls.settle(call, "tea", caller.change)
    return answer


Way = Callable[[Caller, IdempotentCall], Awaitable[str]]
WAYS: dict[str, tuple[Way, int]] = {
    "in_change": (in_change, 1),
    "keep_first": (keep_first, 2),
    "keep_last": (keep_last, 2),
    "settled": (settled, 3),
}
"""The ways to do a call once, and how many commits each has."""
COMMITS = [(name, nth + 1) for name, (_, count) in WAYS.items() for nth in range(count)]


def dies_at(nth: int) -> Callable[[], None]:
    hits = 0

    def hit() -> None:
        nonlocal hits
        hits += 1
        if hits == nth:
            raise Died

    return hit


async def is_kept(caller: Caller) -> bool:
    return await caller.keys.find(CALL.key) is not None


async def finish(url: str, way: Way, name: str) -> None:
    """Make the call again after a death, and once more; check what both leave."""
    async with await DatabaseClient.create(url, migrate=False) as client:
        again = Caller(client)
        if name == "in_change":
            assert await is_kept(again) is (await again.keys.find(EFFECT.key) is not None), "both are there, or neither"
        assert await way(again, CALL) == "tea"
        assert await again.keys.find(EFFECT.key) == EFFECT
        repeat = Caller(client)
        assert await way(repeat, CALL) == "tea"
        assert repeat.changes == (1 if name == "keep_first" else 0)
        with pytest.raises(KeyTaken):
            await way(repeat, replace(CALL, body_sha256=bytes([1]) * 32))


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(("name", "nth"), COMMITS)
async def test_a_call_whose_process_died_at_a_commit_is_finished_by_its_repeat(
    own_url: str, name: str, nth: int, point: str
) -> None:
    way, _ = WAYS[name]
    client = await DatabaseClient.create(own_url, migrate=False)
    caller = Caller(client)
    with failpoints.armed(point, dies_at(nth)), pytest.raises(BaseException, match=r"Died|^$"):
        await way(caller, CALL)
    await client.close()
    await finish(own_url, way, name)


@pytest.mark.parametrize(("name", "count"), [(name, count) for name, (_, count) in WAYS.items()])
async def test_each_way_has_as_many_commits_as_are_tried(own_url: str, name: str, count: int) -> None:
    hits = 0

    def hit() -> None:
        nonlocal hits
        hits += 1

    async with await DatabaseClient.create(own_url, migrate=False) as client:
        with failpoints.armed("store.commit.after", hit):
            assert await WAYS[name][0](Caller(client), CALL) == "tea"
    assert hits == count


async def make_call(url: str, name: str) -> None:
    async with await DatabaseClient.create(url, migrate=False) as client:
        await WAYS[name][0](Caller(client), CALL)


@pytest.mark.parametrize("name", WAYS)
async def test_a_call_whose_process_was_killed_is_finished_by_its_repeat(own_url: str, name: str) -> None:
    way, count = WAYS[name]
    children.run_until("store.commit.after", make_call, own_url, name, hits=(count + 1) // 2)
    await finish(own_url, way, name)


async def test_a_rejected_call_leaves_its_key_free_wherever_its_process_dies(own_url: str) -> None:
    async def reject(_subject: str = "") -> str:
        raise Conflict("The pot is in use.")

    for nth in (1, 2):  # the key, and its removal
        client = await DatabaseClient.create(own_url, migrate=False)
        with failpoints.armed("store.commit.before", dies_at(nth)), pytest.raises(BaseException):  # noqa: PT011, B017
            await Idempotency(SqlIdempotencyKeys(client)).keep_first(CALL, "tea", reject)
        await client.close()
        async with await DatabaseClient.create(own_url, migrate=False) as other:
            with pytest.raises(Conflict, match="in use"):
                await Idempotency(SqlIdempotencyKeys(other)).keep_first(CALL, "tea", reject)
            assert not await is_kept(Caller(other))
