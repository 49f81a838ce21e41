"""`goal.version`: code is changed while goals run, and each goal finishes with a version that fits its history."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any

import pytest

from perdure import Conflict, Invalid, StepFailed, failpoints
from perdure.kernel.events import MindSpec, ToolCall, ToolOutput, decode
from perdure.kernel.fold import GoalState, fold
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World

Code = Callable[[Goal], Coroutine[Any, Any, Any]]


class Died(BaseException):
    """Stands for a kill."""


def echo(*values: Any) -> list[Any]:
    return list(values)


def step(goal: Goal, name: str, *values: Any, effect: Any = "idempotent") -> Any:
    return goal.options(effect=effect, name=name).step(echo, *values)


async def plain(goal: Goal) -> list[Any]:
    return [await step(goal, "first"), await step(goal, "print"), await step(goal, "last")]


async def changed(goal: Goal) -> list[Any]:
    first = await step(goal, "first")
    number = await goal.version("mail", 2)
    sent = [await step(goal, "print")] if number == 1 else [await step(goal, "mail", n) for n in range(2)]
    again = await goal.version("mail", 2)
    assert again == number
    return [first, *sent, await step(goal, "last")]


async def settled_on_mail(goal: Goal) -> list[Any]:
    return [await step(goal, "first"), *[await step(goal, "mail", n) for n in range(2)], await step(goal, "last")]


async def plain_items(goal: Goal) -> Any:
    async def item(number: int) -> Any:
        await step(goal, "fetch", number)
        return await step(goal, "print", number)

    items = await goal.gather(*(item(number) for number in range(3)))
    return [items, await step(goal, "last")]


async def changed_items(goal: Goal) -> Any:
    async def item(number: int) -> Any:
        await step(goal, "fetch", number)
        if await goal.version("mail", 2) == 1:
            printed = await step(goal, "print", number)
        else:
            printed = await step(goal, "mail", number, effect="pure")
        if await goal.version("note", 3) == 3:
            await step(goal, "note", number)
        return printed

    items = await goal.gather(*(item(number) for number in range(3)))
    tail = await goal.version("tail", 2)
    more = [await step(goal, "more")] if tail == 2 else []
    return [items, await step(goal, "last"), *more]


class Killed:
    """A goal whose worker dies at chosen appends, and whose code is replaced at every death."""

    def __init__(self) -> None:
        dead: set[str] = set()
        self.store = InMemoryStateStore(is_dead=dead.__contains__)
        self.world = World(self.store, self.store, dead=dead)
        self.flow: Flow[..., Any] = Flow(plain, name="versioned")

    async def run(self, code: Code, die_at: int | None = None, point: str = "kernel.append.after") -> GoalState:
        """Run the goal with some code until its end, or until it dies at the nth append."""
        appends = 0

        def die() -> None:
            nonlocal appends
            appends += 1
            if appends == die_at:
                raise Died

        self.flow.fn = code
        with failpoints.armed(point, die), suppress(Died):
            if not await self.store.list_goals():
                await self.world.start(MindSpec("flow", flow="versioned", at=self.flow.path))
            elif (await self.state()).termination is None:
                await self.world.resume()
        return await self.state()

    async def state(self) -> GoalState:
        return fold(await self.store.load("goal-a"))


def value(state: GoalState) -> Any:
    assert state.termination is not None
    assert state.termination.reason == "done", state.termination
    return state.termination.value


def steps(state: GoalState) -> set[str]:
    return {call.call.step.rpartition("/")[2] for call in state.calls.values()}


async def test_a_new_goal_has_the_latest_version_in_a_marker_without_an_intent() -> None:
    goal = Killed()
    value(await goal.run(changed))
    bodies = [decode(event) for event in await goal.store.load("goal-a")]
    (marker,) = [body for body in bodies if isinstance(body, ToolOutput) and body.step == "/version:mail"]
    assert (marker.ok, marker.output, marker.effect, marker.digest) == (True, 2, "pure", None)
    asked = [body.step for body in bodies if isinstance(body, ToolCall)]
    assert asked == ["/first#0", "/mail#0", "/mail#1", "/last#0"]
    assert bodies.index(marker) < bodies.index(next(each for each in bodies if getattr(each, "step", "") == "/mail#0"))


@pytest.mark.parametrize(("old", "new"), [(plain, changed), (plain_items, changed_items)])
async def test_code_may_change_at_every_append_and_be_killed_at_every_append(old: Code, new: Code) -> None:
    results = set()
    for die_old, die_new in product(range(1, 9), range(1, 9)):
        goal = Killed()
        await goal.run(old, die_old)
        await goal.run(new, die_new)
        state = await goal.run(new)
        results.add(str(value(state)))
        undisturbed = Killed()
        await undisturbed.run(old, die_old)
        assert value(await undisturbed.run(new)) == value(state)
        assert steps(await undisturbed.state()) == steps(state)
    assert len(results) > 1, "some goals finish with the old code, some with the new"


@pytest.mark.parametrize("code", [changed, changed_items])
async def test_a_new_goal_keeps_its_version_wherever_it_dies(code: Code) -> None:
    clean = await Killed().run(code)
    for die_at in range(1, 12):
        goal = Killed()
        await goal.run(code, die_at)
        state = await goal.run(code)
        assert value(state) == value(clean)
        assert steps(state) == steps(clean)


async def test_a_call_that_no_goal_needs_any_more_may_be_removed() -> None:
    for die_at in range(1, 7):
        goal = Killed()
        await goal.run(changed, die_at)
        recorded = await goal.run(settled_on_mail)
        assert value(recorded) == value(await Killed().run(settled_on_mail))


async def test_a_version_is_recorded_with_what_follows_from_it() -> None:
    async def asks(goal: Goal, latest: int) -> list[Any]:
        await step(goal, "first")
        return [await goal.version("mail", latest), await step(goal, "last")]

    for point, kept in (("kernel.append.before", 3), ("kernel.append.after", 2)):
        goal = Killed()
        await goal.run(partial(asks, latest=2), 2, point)
        assert value(await goal.run(partial(asks, latest=3))) == [kept, []]


async def test_a_version_that_the_code_no_longer_has_is_a_conflict_and_records_nothing() -> None:
    caught: list[BaseException] = []

    async def demands(goal: Goal) -> Any:
        await step(goal, "first")
        try:
            await goal.version("mail", 3, oldest=3)
        except BaseException as error:
            caught.append(error)
            raise
        return await step(goal, "else")

    for old, number in ((plain, 1), (changed, 2)):
        goal = Killed()
        before = await goal.run(old, 3)
        goal.flow.fn = demands
        with pytest.raises(
            Conflict, match=rf"goal-a runs version {number} of 'mail'; this code has version 3\..*older"
        ):
            await goal.world.resume()
        assert (await goal.state()).head == before.head
    assert not [error for error in caught if isinstance(error, Exception)], "the flow cannot catch it"


async def test_a_version_that_is_newer_than_the_code_is_a_conflict() -> None:
    async def newer(goal: Goal) -> None:
        await step(goal, "first")
        await goal.version("mail", 4)
        await step(goal, "wait")

    goal = Killed()
    await goal.run(newer, 2)
    goal.flow.fn = changed
    with pytest.raises(Conflict, match=r"version 4 of 'mail'; this code has versions 1 to 2\..*newer"):
        await goal.world.resume()


async def test_a_conflict_behind_the_history_keeps_the_outcomes_that_came_meanwhile() -> None:
    async def waits(goal: Goal) -> None:
        await goal.version("mail", 2)
        await goal.signal("go")

    async def demands_later(goal: Goal) -> None:
        await goal.signal("go")
        await goal.gather(step(goal, "beside"), demand(goal))

    async def demand(goal: Goal) -> None:
        await step(goal, "charge", effect="once")
        await goal.version("mail", 3, oldest=3)

    goal = Killed()
    await goal.run(waits)
    await goal.store.post("goal-a", "signal", {"name": "go", "payload": None}, key="k")
    goal.flow.fn = demands_later
    with pytest.raises(Conflict, match="runs version 2 of 'mail'"):
        await goal.world.resume()
    state = await goal.state()
    assert state.termination is None
    assert state.calls["g1.1/charge#0.1"].outcome is not None
    assert state.calls["g1.0/beside#0.1"].outcome is not None


async def test_a_step_may_be_added_at_the_end_of_a_branch() -> None:
    """The branch has no recorded steps ahead then, but what comes after its gather is recorded."""

    async def with_end(goal: Goal) -> Any:
        async def item(number: int) -> Any:
            await step(goal, "fetch", number)
            printed = await step(goal, "print", number)
            if await goal.version("end", 2) == 2:
                await step(goal, "end", number)
            return printed

        items = await goal.gather(*(item(number) for number in range(3)))
        return [items, await step(goal, "last")]

    for die_at in range(1, 10):
        goal = Killed()
        await goal.run(plain_items, die_at)
        value(await goal.run(with_end))


async def test_a_marker_after_a_failure_does_not_forbid_a_retry() -> None:
    broken = True

    def fails() -> str:
        if broken:
            raise ValueError("no luck")
        return "fine"

    async def asks_afterwards(goal: Goal) -> str:
        try:
            return await goal.options(effect="idempotent").step(fails)
        except StepFailed:
            await goal.version("afterwards", 2)
            raise

    goal = Killed()
    assert (await goal.run(asks_afterwards)).status == "failed"
    broken = False
    await goal.world.retry()
    assert value(await goal.state()) == "fine"


@pytest.mark.parametrize(
    ("name", "latest", "oldest"),
    [("", 2, 1), ("a/b", 2, 1), ("a#1", 2, 1), (3, 2, 1), ("x", 0, 1), ("x", 2, 3), ("x", 2, 0), ("x", True, 1)],
)
async def test_what_is_not_a_version_is_invalid(name: Any, latest: Any, oldest: Any) -> None:
    async def asks(goal: Goal) -> None:
        with pytest.raises(Invalid):
            await goal.version(name, latest, oldest)

    value(await Killed().run(asks))


async def test_a_step_has_no_versions() -> None:
    async def asks(goal: Goal) -> bool:
        async def inside() -> bool:
            with pytest.raises(Invalid, match="inside a step"):
                await goal.version("x", 2)
            return True

        return await goal.step(inside)

    assert value(await Killed().run(asks))
