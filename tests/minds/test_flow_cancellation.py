"""Flows that cancel what they wait for: it is recorded, and a flow that is run again does the same."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import pytest

from perdure import failpoints
from perdure.kernel.events import MindSpec, ToolCall, ToolOutput
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.ports import GoalStore
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World
from tests.registered_flows import path_of

FlowFunction = Callable[[Goal], Coroutine[Any, Any, Any]]


_over: list[asyncio.Event] = []
"""The end of the present test, for steps that no cancel ends: the loop of the test could not be closed before."""


@pytest.fixture(autouse=True)
async def end_of_test() -> AsyncIterator[None]:
    _over[:] = [asyncio.Event()]
    yield
    _over[0].set()
    await asyncio.sleep(0)


class Died(BaseException):
    """Stands for a kill."""


async def forever() -> None:
    await asyncio.Event().wait()


def quick(number: int) -> int:
    return number


def broken() -> None:
    raise ValueError("no luck")


async def deadline_of_asyncio(goal: Goal) -> Any:
    try:
        async with asyncio.timeout(0.02):
            await goal.options(effect="idempotent").step(forever)
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 1)


async def deadline_of_wait_for(goal: Goal) -> Any:
    try:
        await asyncio.wait_for(goal.ask("Publish?"), 0.02)
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 1)


async def deadline_of_anyio(goal: Goal) -> Any:
    with anyio.move_on_after(0.02) as scope:
        await goal.options(effect="idempotent").step(forever)
    return [scope.cancelled_caught, await goal.options(effect="idempotent").step(quick, 2)]


async def group_whose_member_fails(goal: Goal) -> Any:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(goal.options(effect="idempotent").step(forever))
            group.create_task(goal.signal("never"))
            group.create_task(goal.sleep(1000))
            group.create_task(goal.options(effect="idempotent").step(broken))
    except* Exception:  # noqa: BLE001 (whatever the step raised)
        pass
    return await goal.options(effect="idempotent").step(quick, 3)


async def anyio_group_whose_member_fails(goal: Goal) -> Any:
    async def fails() -> None:
        await goal.options(effect="idempotent").step(quick, 1)
        raise KeyError("x")

    async def waits() -> None:
        await goal.options(effect="idempotent").step(forever)

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(waits)
            group.start_soon(fails)
    except* KeyError:
        pass
    return await goal.options(effect="idempotent").step(quick, 4)


async def task_that_is_cancelled(goal: Goal) -> Any:
    task = asyncio.create_task(goal.options(effect="idempotent").step(forever))
    first = await goal.options(effect="idempotent").step(quick, 5)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return [first, await goal.options(effect="idempotent").step(quick, 6)]


async def recorded_deadline(goal: Goal) -> Any:
    try:
        async with goal.timeout(5):
            await goal.ask("Publish?")
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 7)


async def deadline_that_is_kept(goal: Goal) -> Any:
    async with goal.timeout(500):
        await goal.options(effect="idempotent").step(quick, 8)
    return await goal.options(effect="idempotent").step(quick, 9)


async def question_with_a_timeout(goal: Goal) -> Any:
    try:
        return await goal.ask("Publish?", ["yes", "no"], timeout_s=5)
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 10)


async def signal_with_a_timeout(goal: Goal) -> Any:
    try:
        return await goal.signal("go", timeout_s=5)
    except TimeoutError:
        return await goal.options(effect="idempotent").step(quick, 11)


async def first_of_several(goal: Goal) -> Any:
    position, value = await goal.first(
        goal.signal("never"), goal.options(effect="idempotent").step(quick, 12), goal.sleep(1000)
    )
    return [position, value, await goal.options(effect="idempotent").step(quick, 13)]


async def shadowed(goal: Goal) -> Any:
    def greet(name: str) -> str:
        return f"hello {name}"

    return await goal.options(effect="idempotent").step(greet, name="bob")


def once(goal: Goal, fn: Callable[..., Any], *args: Any) -> Coroutine[Any, Any, Any]:
    """Ask for an idempotent step."""
    return goal.options(effect="idempotent").step(fn, *args)


async def scope_that_is_cancelled(goal: Goal) -> Any:
    found: list[Any] = []

    async def line(number: int) -> None:
        await once(goal, forever)
        found.append(number)

    async with anyio.create_task_group() as group:
        group.start_soon(line, 1)
        group.start_soon(line, 2)
        found.append(await once(goal, quick, 20))
        group.cancel_scope.cancel()
    return [found, await once(goal, quick, 21)]


async def deadline_that_fails(goal: Goal) -> Any:
    try:
        with anyio.fail_after(0.02):
            await once(goal, forever)
    except TimeoutError:
        return await once(goal, quick, 22)


async def shielded_cleanup(goal: Goal) -> Any:
    cleaned: list[Any] = []
    with anyio.move_on_after(0.02):
        try:
            await once(goal, forever)
        finally:
            with anyio.CancelScope(shield=True):
                cleaned.append(await once(goal, quick, 23))
    return [cleaned, await once(goal, quick, 24)]


async def nested_scopes(goal: Goal) -> Any:
    found: list[Any] = []
    with anyio.CancelScope() as outer:
        with anyio.move_on_after(0.02) as inner:
            await goal.ask("Publish?")
        found.append(inner.cancelled_caught)
        async with anyio.create_task_group() as group:
            group.start_soon(goal.signal, "never")
            found.append(await once(goal, quick, 25))
            outer.cancel()
    return [found, outer.cancelled_caught, await once(goal, quick, 26)]


async def slow_to_end() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.03)


async def scope_that_passes_while_a_step_ends(goal: Goal) -> Any:
    with anyio.move_on_after(0.02) as scope:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await once(goal, slow_to_end)
        await goal.signal("never")
    return [scope.cancelled_caught, await once(goal, quick, 16)]


async def rest_is_cancelled(goal: Goal) -> Any:
    tasks = [asyncio.create_task(each) for each in (once(goal, forever), once(goal, quick, 27), goal.sleep(1000))]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return [[task.result() for task in done], len(pending), await once(goal, quick, 28)]


async def shielded_step(goal: Goal) -> Any:
    inner = asyncio.ensure_future(once(goal, quick, 29))
    outer = asyncio.ensure_future(asyncio.shield(inner))
    await asyncio.sleep(0)
    outer.cancel()
    with suppress(asyncio.CancelledError):
        await outer
    return [await inner, await once(goal, quick, 30)]


async def generator_that_is_closed(goal: Goal) -> Any:
    closed: list[Any] = []

    async def numbers() -> Any:
        try:
            for number in range(31, 40):
                yield await once(goal, quick, number)
        finally:
            closed.append(await once(goal, quick, 0))

    stream = numbers()
    async for number in stream:
        if number == 32:
            break
    await stream.aclose()
    return [closed, await once(goal, quick, 33)]


async def queue_between_lines(goal: Goal) -> Any:
    queue: asyncio.Queue[int] = asyncio.Queue()
    found: list[int] = []

    async def consume() -> None:
        while True:
            found.append(await once(goal, quick, await queue.get()))
            queue.task_done()

    consumer = asyncio.create_task(consume())
    for number in (34, 35, 36):
        await queue.put(await once(goal, quick, number))
    await queue.join()
    consumer.cancel()
    with suppress(asyncio.CancelledError):
        await consumer
    return [found, await once(goal, quick, 37)]


async def task_that_never_began(goal: Goal) -> Any:
    task = asyncio.create_task(once(goal, forever))
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return await once(goal, quick, 38)


async def task_that_is_cancelled_before_its_call(goal: Goal) -> Any:
    task = asyncio.create_task(once(goal, forever))
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return await once(goal, quick, 39)


async def agent_with_tools(goal: Goal) -> Any:
    """Call several tools at once as agent frameworks do: the first error cancels the others, then it is tried again."""

    async def attempt(number: int) -> list[Any]:
        results: list[Any] = [None, None]

        async def tool(place: int, fn: Callable[..., Any], *args: Any) -> None:
            results[place] = await once(goal, fn, *args)

        async with anyio.create_task_group() as group:
            group.start_soon(tool, 0, quick, number)
            group.start_soon(tool, 1, broken if number == 0 else quick, *([] if number == 0 else [number]))
        return results

    for number in range(2):
        with suppress(ExceptionGroup):
            return [await attempt(number), await once(goal, quick, 40)]
    return None


async def cancelled_step_without_end(goal: Goal) -> Any:
    task = asyncio.create_task(once(goal, stubborn))
    first = await once(goal, quick, 41)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return [first, await once(goal, quick, 42)]


async def stubborn() -> None:
    [over] = _over
    while not over.is_set():
        with suppress(asyncio.CancelledError):
            await over.wait()


FLOWS: list[tuple[FlowFunction, Any]] = [
    (scope_that_is_cancelled, [[20], 21]),
    (deadline_that_fails, 22),
    (shielded_cleanup, [[23], 24]),
    (nested_scopes, [[True, 25], True, 26]),
    (rest_is_cancelled, [[27], 2, 28]),
    (shielded_step, [29, 30]),
    (generator_that_is_closed, [[0], 33]),
    (queue_between_lines, [[34, 35, 36], 37]),
    (task_that_never_began, 38),
    (task_that_is_cancelled_before_its_call, 39),
    (agent_with_tools, [[1, 1], 40]),
    (cancelled_step_without_end, [41, 42]),
    (deadline_of_asyncio, 1),
    (deadline_of_wait_for, 1),
    (deadline_of_anyio, [True, 2]),
    (group_whose_member_fails, 3),
    (anyio_group_whose_member_fails, 4),
    (task_that_is_cancelled, [5, 6]),
    (recorded_deadline, 7),
    (deadline_that_is_kept, 9),
    (question_with_a_timeout, 10),
    (signal_with_a_timeout, 11),
    (first_of_several, [1, 12, 13]),
    (shadowed, "hello bob"),
    (scope_that_passes_while_a_step_ends, [True, 16]),
]


async def run_to_end(fn: FlowFunction, die_at: int | None = None) -> GoalState:
    """Run a flow until its end; it dies once, right after the nth append."""
    dead: set[str] = set()
    store = InMemoryStateStore(is_dead=dead.__contains__)
    world = World(store, store, dead=dead, end_within_s=0.05)
    path = path_of(fn)
    appends = 0

    def die() -> None:
        nonlocal appends
        appends += 1
        if appends == die_at:
            raise Died

    with failpoints.armed("kernel.append.after", die):
        for _ in range(20):
            with suppress(Died):
                if not await store.list_goals():
                    await world.start(MindSpec("flow", at=path))
                else:
                    world.clock.now += 10_000_000
                    await world.resume()
            state = fold(await store.load("goal-a"))
            if state.termination is not None:
                return state
    raise AssertionError(f"{fn.__name__} never ended")


@pytest.mark.parametrize(("fn", "value"), FLOWS, ids=lambda each: getattr(each, "__name__", ""))
async def test_a_flow_that_cancels_ends_alike_wherever_it_dies(fn: FlowFunction, value: Any) -> None:
    clean = await run_to_end(fn)
    assert clean.termination is not None
    assert (clean.termination.reason, clean.termination.value) == ("done", value), clean.termination
    assert not clean.open_calls
    for die_at in range(1, 12):
        killed = await run_to_end(fn, die_at)
        assert killed.termination == clean.termination
        assert not killed.open_calls


async def kid(goal: Goal) -> None:
    await goal.signal("never")


KID = Flow(kid)


async def child_with_a_deadline(goal: Goal) -> Any:
    try:
        async with goal.timeout(5):
            await goal.child(KID)
    except TimeoutError:
        return "too late"


class SlowStore:
    """A store whose appends take some turns of the event loop."""

    def __init__(self, store: InMemoryStateStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append_event(self, *args: Any, **kwargs: Any) -> Any:
        for _ in range(5):
            await asyncio.sleep(0)
        return await self._store.append_event(*args, **kwargs)


@dataclass
class NotedChildren:
    """Creates no children, and notes what of their parent is durable when they are cancelled. See Children."""

    store: InMemoryStateStore
    durable: list[GoalState] = field(default_factory=list)

    async def start(self, parent: GoalState, calls: Sequence[ToolCall], queue: str) -> Sequence[ToolOutput]:  # noqa: ARG002
        return []

    async def cancel(self, goal_ids: Collection[str]) -> None:  # noqa: ARG002 (as the port says)
        self.durable.append(fold(await self.store.load("goal-a")))

    async def are_active(self, goal_ids: Collection[str]) -> bool:  # noqa: ARG002 (as the port says)
        return False


async def test_a_child_is_cancelled_when_the_reason_for_that_is_durable() -> None:
    store = InMemoryStateStore()
    children = NotedChildren(store)
    world = World(cast("GoalStore", SlowStore(store)), store, children=children)
    ended = (await world.start(MindSpec("flow", at=path_of(child_with_a_deadline)))).state
    assert ended.termination is not None
    assert ended.termination.value == "too late"
    [found] = children.durable
    assert not found.calls["/timeout#0.1"].is_open, "a process that dies now would not cancel the child again"
