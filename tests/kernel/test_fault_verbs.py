"""A death at every fail-point, at each of its hits, while a goal is forked, told something, parked, woken or deleted.

Whoever was killed does the same again, and all is as if nobody had died; on all three stores.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
import pytest

from perdure import Goal, NotFound, failpoints
from perdure.kernel.events import Event, MindSpec, Signal, Wait, decode
from perdure.kernel.history.replay import replay
from tests.contracts.histories import Stored
from tests.kernel.lives import Died, Lives, story
from tests.kernel.test_faults import MANNERS, POINTS, is_hit
from tests.kernel.world import World
from tests.registered_flows import path_of

PLAN = """
goal: forked
steps:
  - {id: fetch, exec: [fetch], effect: idempotent}
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}, needs: [fetch]}
  - {id: send, exec: [send], needs: [sure]}
"""
SLEEPING = """
goal: sleeping
steps:
  - {id: fetch, exec: [fetch], effect: idempotent}
  - {id: nap, wait: 2h, needs: [fetch]}
  - {id: send, exec: [send], needs: [nap]}
"""


def points(*prefixes: str) -> list[str]:
    return [point for point in POINTS if point.startswith(prefixes)]


Deed = Callable[[int], Awaitable[object]]
"""Something that is done to the goals of a number."""


async def each_death(world: World, point: str, do: Deed, then: Deed, prepare: Deed | None = None) -> None:
    """Do something once for each hit of a point, and die there; then see what is left. The last time nobody dies."""
    number, has_died = 0, True
    while has_died:
        number += 1
        if prepare is not None:
            await prepare(number)
        has_died = await dies(point, number, do)
        await then(number)
    assert number > 1 or not is_hit(world, point), f"{point} was never reached"


async def dies(point: str, number: int, do: Deed) -> bool:
    """Do something and die at that hit of a point; return whether it came so far."""
    hits = 0

    def hit() -> None:
        nonlocal hits
        hits += 1
        if hits == number:
            raise Died

    with failpoints.armed(point, hit):
        try:
            await do(number)
        except Died:
            return True
    return False


def facts(events: Sequence[Event]) -> list[Any]:
    """Tell what a history says, but for times, ids and hashes."""
    passing = ("duration_ms", "until")
    contents = [orjson.loads(event.payload) for event in events]
    return [
        (event.seq, event.type, {name: value for name, value in content.items() if name not in passing})
        for event, content in zip(events, contents, strict=True)
    ]


async def told(world: World, goal_id: str) -> list[Any]:
    """Check every hash of a history, and tell what it says."""
    events = await world.store.load(goal_id)
    replay(events, await world.store.find(goal_id))
    return facts(events)


async def rows_of_events(stored: Stored) -> int:
    """Count what is kept of events, whoever may see it."""
    if stored.database is None:
        return 0
    return await stored.database.read(lambda tx: int(tx.execute("SELECT count(*) FROM events").scalar_one()))


async def left(world: World, *goal_ids: str) -> list[str]:
    """Return those goals that are there."""
    there = {goal.goal_id for goal in await world.store.list_goals()}
    return [goal_id for goal_id in goal_ids if goal_id in there]


@pytest.mark.parametrize("point", points("kernel.append.", "store.append.", "store.commit.", "store.renew."))
async def test_a_fork_that_was_killed_is_wholly_there_or_not_at_all_and_the_next_is_like_it(
    world: World, point: str
) -> None:
    async def outcome(goal_id: str) -> list[Any]:
        return story(await (await Lives(world, PLAN, goal_id, point).live()).history())

    async def fork(number: int) -> None:
        await world.fork(4, "parent", f"fork-{number}")

    async def look(number: int) -> None:
        assert await told(world, "parent") == before
        await world.fork(4, "parent", f"again-{number}")
        for goal_id in await left(world, f"fork-{number}", f"again-{number}"):
            assert (await world.store.find(goal_id)).worker is None
            assert await told(world, goal_id) == made
            assert await outcome(goal_id) == expected

    await world.start(PLAN, "parent")
    before = await told(world, "parent")
    await world.fork(4, "parent", "undisturbed")
    made, expected = await told(world, "undisturbed"), await outcome("undisturbed")
    await each_death(world, point, fork, look)
    assert await outcome("parent") == expected[:4] + expected[6:], "it has neither the fork nor its question"


@pytest.mark.parametrize("point", points("kernel.append.", "store.append.", "store.commit."))
async def test_a_start_key_is_with_the_goal_or_with_the_fork_that_takes_it_whenever_that_was_killed(
    world: World, point: str
) -> None:
    async def begin(number: int) -> None:
        await world.start(PLAN, f"goal-{number}", key=f"k{number}")

    async def fork(number: int) -> None:
        await world.fork(4, f"goal-{number}", f"fork-{number}", take_key=f"k{number}")

    async def look(number: int) -> None:
        is_forked = bool(await left(world, f"fork-{number}"))
        has_key = await world.store.started(f"k{number}")
        assert has_key is not None
        assert has_key.goal_id == (f"fork-{number}" if is_forked else f"goal-{number}")
        assert (await world.store.find(f"goal-{number}")).start_key == (None if is_forked else f"k{number}")
        outcomes.add(is_forked)

    outcomes: set[bool] = set()
    await each_death(world, point, fork, look, prepare=begin)
    if point.startswith("kernel.append."):
        assert outcomes == ({True, False} if point.endswith("before") else {True})


async def waits(goal: Goal) -> list[Any]:
    return [await goal.signal("paid"), await goal.signal("paid")]


@pytest.mark.parametrize("is_settled_by_others", [True, False], ids=["recorded by whoever tells", "or by whoever runs"])
@pytest.mark.parametrize("point", points("kernel.append.", "store."))
async def test_a_signal_whose_sender_was_killed_is_recorded_once_when_it_is_sent_again(
    world: World, point: str, is_settled_by_others: bool
) -> None:
    async def begin(number: int) -> None:
        await world.start(MindSpec("flow", at=path_of(waits)), f"goal-{number}")

    async def tell(number: int, payload: int = 1) -> None:
        goal_id, content = f"goal-{number}", {"name": "paid", "payload": payload}
        await world.store.post(goal_id, "signal", content, key=f"k{payload}")
        if is_settled_by_others:
            await world.settle(goal_id)
        else:
            await world.resume(goal_id)

    async def finish(number: int) -> list[Any]:
        goal_id = f"goal-{number}"
        await tell(number)
        await tell(number, 2)
        if is_settled_by_others:
            await world.resume(goal_id)
        assert await world.store.inbox(goal_id) == []
        bodies = [decode(event) for event in await world.store.load(goal_id)]
        assert [body.payload for body in bodies if isinstance(body, Signal)] == [1, 2]
        return await told(world, goal_id)

    async def look(number: int) -> None:
        assert await finish(number) == expected

    await begin(0)
    expected = await finish(0)
    assert expected[-1][2]["value"] == [1, 2]
    await each_death(world, point, tell, look, prepare=begin)


class Sleeper(Lives):
    """A goal that is given back for as long as it sleeps; when nobody holds it, time goes by until it is due."""

    async def _live_once(self) -> None:
        if await left(self.world, self.goal_id):
            goal = await self._summary()
            if goal.waiting_for == "timer" and goal.due_us is not None and goal.due_us > self.world.clock.now:
                assert self.goal_id not in await self._due()
                self.world.clock.now = goal.due_us
                assert self.goal_id in await self._due()
        await super()._live_once()

    async def _due(self) -> list[str]:
        return [goal.goal_id for goal in await self.world.store.due(self.world.clock.now)]


@pytest.mark.parametrize("deaths", [deaths for deaths, _ in MANNERS.values()])
@pytest.mark.parametrize("point", POINTS)
async def test_a_goal_that_died_while_it_was_parked_or_woken_sleeps_once_and_continues_when_it_is_due(
    world: World, point: str, deaths: int
) -> None:
    expected = story(await (await Sleeper(world, SLEEPING, "undisturbed", point).live()).history())
    lived: list[Sleeper] = []
    while not lived or lived[-1].struck:
        at = len(lived) + 1
        lives = Sleeper(world, SLEEPING, f"goal-{at}", point, dict.fromkeys(range(at, at + deaths), "death"))
        await lives.live()
        lived.append(lives)
        events = await lives.history()
        assert story(events) == expected
        assert sum(isinstance(decode(event), Wait) for event in events) == 1
        assert lives.tool.effects["send"] == 1
        assert await lives._due() == []
    assert len(lived) > 1 or not is_hit(world, point), f"{point} was never reached"


@pytest.mark.parametrize("point", ["store.commit.before", "store.commit.after"])
async def test_a_deletion_that_was_killed_has_happened_or_has_not_and_is_done_by_the_next(
    world: World, stored: Stored, point: str
) -> None:
    before: dict[str, list[Any]] = {}

    def pair(number: int) -> tuple[str, str]:
        return f"fork-{number}", f"goal-{number}"

    async def make(number: int) -> None:
        fork, parent = pair(number)
        await Lives(world, PLAN, parent, point).live()
        await world.fork(4, parent, fork)
        await Lives(world, PLAN, fork, point).live()
        before.update({goal_id: await told(world, goal_id) for goal_id in (parent, fork)})

    async def delete(number: int) -> None:
        for goal_id in await left(world, *pair(number)):
            await world.store.delete(goal_id)

    async def look(number: int) -> None:
        for goal_id in await left(world, *pair(number)):
            assert await told(world, goal_id) == before[goal_id]
        await delete(number)
        for goal_id in pair(number):
            with pytest.raises(NotFound):
                await world.store.load(goal_id)
        assert await world.store.list_goals() == []
        assert await rows_of_events(stored) == 0

    await each_death(world, point, delete, look, prepare=make)
