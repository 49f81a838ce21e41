"""A Python function as a goal: what it asks for happens once, and it goes on where it stopped."""

import asyncio
import contextlib
import dataclasses
import enum
import inspect
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from perdure import Conflict, Invalid, NotFound
from perdure.errors import StepFailed
from perdure.kernel.events import Decision, MindSpec, Signal, Termination, ToolCall, ToolOutput, decode
from perdure.kernel.loop import Loop, RunResult
from perdure.minds.flow.flow import flow
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.registry import find_flow
from perdure.minds.flow.values.values import to_json
from tests.kernel.world import World
from tests.registered_flows import path_of

CALLS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def no_calls() -> Iterator[None]:
    CALLS.clear()
    yield
    CALLS.clear()


def double(number: int) -> int:
    CALLS["double"] += 1
    return number * 2


async def add(first: int, second: int = 1) -> int:
    CALLS["add"] += 1
    return first + second


def fail(message: str) -> None:
    CALLS["fail"] += 1
    raise ValueError(message)


async def run(world: World, fn: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> RunResult:
    return await world.start(MindSpec("flow", at=path_of(fn), args={"args": list(args), "kwargs": {}}))


def ended(ran: RunResult) -> Termination:
    assert ran.state.termination is not None
    return ran.state.termination


async def bodies(world: World) -> list[Any]:
    return [decode(event) for event in await world.store.load("goal-a")]


async def test_steps_run_one_after_the_other_and_the_value_is_the_goals(world: World) -> None:
    async def plus(goal: Goal, number: int) -> int:
        doubled = await goal.step(double, number)
        return int(await goal.step(add, doubled, second=5))

    assert ended(await run(world, plus, 4)) == Termination("done", value=13)
    calls = [body for body in await bodies(world) if isinstance(body, ToolCall)]
    assert [(call.step, call.tool, call.effect) for call in calls] == [
        ("/double#0", "step", "once"),
        ("/add#0", "step", "once"),
    ]
    assert calls[1].arguments["args"] == [8]
    assert calls[1].arguments["kwargs"] == {"second": 5}


async def test_a_pure_step_has_no_intent_and_its_outcome_says_which_it_was(world: World) -> None:
    async def pure(goal: Goal) -> list[int]:
        return [await goal.options(effect="pure").step(double, number) for number in range(3)]

    assert ended(await run(world, pure)).value == [0, 2, 4]
    assert [type(body).__name__ for body in await bodies(world)] == ["GoalBegun", *["ToolOutput"] * 3, "Termination"]
    output = (await bodies(world))[2]
    assert isinstance(output, ToolOutput)
    assert (output.step, output.effect) == ("/double#1", "pure")
    assert output.digest


async def test_branches_of_a_gather_run_side_by_side(world: World) -> None:
    met = asyncio.Event()

    async def first() -> str:
        await met.wait()
        return "first"

    async def second() -> str:
        met.set()
        return "second"

    async def both(goal: Goal) -> list[Any]:
        nested = goal.gather(goal.step(add, 1), goal.step(add, 2))
        return list(await goal.gather(goal.step(first), goal.step(second), nested))

    assert ended(await run(world, both)).value == ["first", "second", [2, 3]]
    steps = [body.step for body in await bodies(world) if isinstance(body, ToolCall)]
    assert steps == ["g1.0/first#0", "g1.1/second#0", "g1.2.g1.0/add#0", "g1.2.g1.1/add#0"]


async def test_an_empty_gather_is_an_empty_list(world: World) -> None:
    async def nothing(goal: Goal) -> list[Any]:
        return await goal.gather()

    assert ended(await run(world, nothing)).value == []


async def test_a_failed_step_raises_and_may_be_caught(world: World) -> None:
    async def catches(goal: Goal) -> str:
        try:
            await goal.options(retry=3).step(fail, "no luck")
        except ValueError as error:
            return str(error)
        return ""

    assert ended(await run(world, catches)).value == "no luck"
    assert CALLS["fail"] == 3


async def test_a_failed_step_that_is_not_caught_ends_the_goal_failed(world: World) -> None:
    async def fails(goal: Goal) -> None:
        await goal.step(fail, "no luck")

    end = ended(await run(world, fails))
    assert end.reason == "failed"
    assert str(end.detail).startswith("ValueError: no luck (")


async def test_an_error_of_the_flow_itself_is_fatal(world: World) -> None:
    async def broken(goal: Goal) -> None:  # noqa: ARG001 (it breaks before)
        raise KeyError("x")

    end = ended(await run(world, broken))
    assert end.reason == "fatal_error"
    assert str(end.detail).startswith("KeyError: 'x' (")


async def test_a_question_a_signal_and_a_sleep(world: World) -> None:
    async def waits(goal: Goal) -> list[Any]:
        answer = await goal.ask("Publish?", ["yes", "no"])
        await goal.sleep(30)
        return [answer, await goal.signal("paid"), await goal.signal("paid")]

    assert (await run(world, waits)).state.waiting_for == "person"
    await world.store.post("goal-a", "signal", {"name": "paid", "payload": 1}, key="s1")
    await world.store.post("goal-a", "decision", {"call_id": "/ask#0.1", "decision": "answer", "value": "yes"}, key="a")
    ran = await world.resume()
    assert ran.state.waiting_for == "signal"
    await world.store.post("goal-a", "signal", {"name": "paid", "payload": 2}, key="s2")
    assert ended(await world.resume()).value == ["yes", 1, 2]
    found = await bodies(world)
    assert Signal("paid", 1) in found
    assert any(isinstance(body, Decision) and body.by == "timer" for body in found)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: float


def point(x: int) -> Point:
    return Point(x, y=0.5)


async def test_a_dataclass_comes_back_when_the_annotation_names_it_the_first_time_too(world: World) -> None:
    async def typed(goal: Goal) -> list[Any]:
        found = await goal.step(point, 3)
        await goal.ask("go on?")
        return [type(found).__name__, found.x, found.y]

    await run(world, typed)
    await world.store.post("goal-a", "decision", {"call_id": "/ask#0.1", "decision": "answer", "value": "y"}, key="a")
    assert ended(await world.resume()).value == ["Point", 3, 0.5]


async def test_a_flow_gets_the_dataclass_that_its_parameter_names(world: World) -> None:
    async def typed(goal: Goal, /, at: Point, *others: Point, by: Point | None = None, **named: Point) -> list[Any]:
        await goal.ask("go on?")
        return [at.x, [other.x for other in others], by and by.x, {name: one.y for name, one in named.items()}]

    path = path_of(typed)
    args = {"args": [{"x": 1, "y": 2}, {"x": 3, "y": 0}], "kwargs": {"by": {"x": 4, "y": 0}, "more": {"x": 5, "y": 6}}}
    await world.start(MindSpec("flow", at=path, args=args))
    await world.store.post("goal-a", "decision", {"call_id": "/ask#0.1", "decision": "answer", "value": "y"}, key="a")
    assert ended(await world.resume()).value == [1, [3], 4, {"more": 6.0}]


async def test_a_tuple_is_a_list_the_first_time_too_without_an_annotation(world: World) -> None:
    def pair() -> Any:
        return (1, 2)

    async def pairs(goal: Goal) -> str:
        return type(await goal.step(pair)).__name__

    assert ended(await run(world, pairs)).value == "list"


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1, (2,)), [1, [2]]),
        (2**64 - 1, 2**64 - 1),
        (-(2**63), -(2**63)),
        (datetime(2026, 11, 15, tzinfo=UTC), "2026-11-15T00:00:00+00:00"),
        (date(2026, 11, 15), "2026-11-15"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        (Point(1, 2.5), {"x": 1, "y": 2.5}),
        (b"a", "YQ=="),
        (Path("a"), "a"),
        (Decimal("1.50"), "1.50"),
        (timedelta(days=1, seconds=2), "P1DT2S"),
        ({2, 10, 1}, [1, 10, 2]),
    ],
)
def test_values_go_through_json_as_the_how_to_says(value: Any, kept: Any) -> None:
    assert to_json(value, "It") == kept


@pytest.mark.parametrize("value", [object(), {1: 2}, 2**64, -(2**63) - 1, float("nan"), Decimal("nan"), "\ud800"])
def test_what_the_how_to_says_is_refused_is(value: Any) -> None:
    with pytest.raises(Invalid, match="cannot be stored as JSON"):
        to_json(value, "It")


async def test_a_step_gets_its_arguments_as_they_were_given(world: World) -> None:
    def kind(value: Any) -> str:
        return type(value).__name__

    async def gives(goal: Goal) -> list[str]:
        return [await goal.step(kind, value) for value in ((1,), date(2026, 11, 15), Point(1, 2))]

    assert ended(await run(world, gives)).value == ["tuple", "date", "Point"]


async def test_an_argument_of_a_step_that_does_not_go_through_json_is_named(world: World) -> None:
    def book(city: str, day: Any) -> str:
        return f"{city} {day}"

    async def trip(goal: Goal) -> None:
        await goal.step(book, "Rome", object())

    assert "The argument day of book cannot be stored as JSON: a value of type object" in str(
        ended(await run(world, trip)).detail
    )


def test_a_flow_has_the_name_docstring_and_signature_of_its_function() -> None:
    async def trip(goal: Goal, city: str) -> str:  # noqa: ARG001 (a flow has one)
        """Plan a trip."""
        return city

    made = flow(trip)
    assert (made.__name__, made.__doc__, made.__wrapped__) == ("trip", "Plan a trip.", trip)
    assert [*inspect.signature(made).parameters] == ["goal", "city"]


async def test_a_flow_that_forgets_to_await_a_step_fails_and_names_it(world: World) -> None:
    async def forgets(goal: Goal) -> None:
        goal.step(double, 2)  # type: ignore[unused-coroutine]
        goal.sleep(5)  # type: ignore[unused-coroutine]

    end = ended(await run(world, forgets))
    assert end.reason == "fatal_error"
    assert "goal.step(double) and goal.sleep(5) were never awaited and did not run" in str(end.detail)


async def test_a_step_that_was_closed_on_purpose_need_not_be_awaited(world: World) -> None:
    async def closes(goal: Goal) -> Any:
        goal.step(double, 2).close()
        return await goal.step(double, 3)

    assert ended(await run(world, closes)).value == 6


@pytest.mark.parametrize("bad", [object(), {1, object()}, float("nan"), {"x": float("inf")}, "\ud800", 2**70, {1: 2}])
async def test_a_value_that_does_not_go_through_json_is_said(world: World, bad: Any) -> None:
    def gives() -> Any:
        return bad

    async def odd(goal: Goal) -> str:
        said = []
        for given in (goal.step(double, bad), goal.options(effect="pure").step(gives)):
            try:
                await given
            except (Invalid, StepFailed) as error:
                said.append(error.detail)
        return " ".join(said)

    value = ended(await run(world, odd)).value
    assert value.count("cannot be stored as JSON") == 2


async def test_two_steps_in_flight_in_one_branch_are_numbered_as_they_are_asked_for(world: World) -> None:
    async def twice(goal: Goal) -> list[int]:
        return await asyncio.gather(goal.step(double, 1), goal.step(double, 2))  # type: ignore[return-value] # it is a list

    assert ended(await run(world, twice)).value == [2, 4]


async def test_a_step_that_never_returns_ends_by_its_timeout(world: World) -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async def waits(goal: Goal) -> None:
        await goal.options(timeout_s=0.01).step(never)

    assert str(ended(await run(world, waits)).detail).startswith("timeout")


async def test_a_step_in_finally_is_not_run_while_the_goal_parks(world: World) -> None:
    async def tidy(goal: Goal) -> Any:
        try:
            return await goal.ask("Go on?")
        finally:
            await goal.step(double, 1)

    assert (await asyncio.wait_for(run(world, tidy), 5)).state.waiting_for == "person"
    assert CALLS["double"] == 0
    await world.store.post("goal-a", "decision", {"call_id": "/ask#0.1", "decision": "answer", "value": "yes"}, key="a")
    assert ended(await world.resume()).value == "yes"
    assert CALLS["double"] == 1


@pytest.mark.parametrize(("says", "tries", "ends"), [(None, 1, "failed"), (True, 1, "done"), (False, 3, "failed")])
async def test_a_step_that_may_have_happened_is_not_tried_again(
    world: World, says: bool | None, tries: int, ends: str
) -> None:
    async def pay() -> None:
        CALLS["pay"] += 1
        await asyncio.Event().wait()

    def was_paid() -> bool | None:
        return says

    async def pays(goal: Goal) -> None:
        await goal.options(retry=3, timeout_s=0.01, check=was_paid).step(pay)

    assert ended(await run(world, pays)).reason == ends
    assert CALLS["pay"] == tries


async def test_a_step_that_was_done_is_not_tried_again_for_its_result(world: World) -> None:
    def pay() -> object:
        CALLS["pay"] += 1
        return object()

    async def pays(goal: Goal) -> None:
        await goal.options(retry=3, effect="idempotent").step(pay)

    end = ended(await run(world, pays))
    assert str(end.detail).startswith("bad_result: The step was done, but its result cannot be stored")
    assert CALLS["pay"] == 1


async def test_a_flow_may_cancel_its_own_step(world: World) -> None:
    async def slow() -> None:
        await asyncio.Event().wait()

    async def impatient(goal: Goal) -> str:
        try:
            await asyncio.wait_for(goal.step(slow), 0.01)
        except TimeoutError:
            return "too slow"
        return "in time"

    assert ended(await run(world, impatient)).value == "too slow"


async def test_a_step_has_no_steps(world: World) -> None:
    async def nested(goal: Goal) -> None:
        async def inner() -> None:
            await goal.step(double, 1)

        await goal.step(inner)

    assert "only the flow itself has steps" in str(ended(await run(world, nested)).detail)


@pytest.mark.parametrize("error", [SystemExit(4), asyncio.CancelledError(), GeneratorExit()])
async def test_a_step_that_would_end_the_program_only_fails(world: World, error: BaseException) -> None:
    def stop() -> None:
        raise error

    async def astop() -> None:
        raise error

    async def stops(goal: Goal) -> list[str]:
        failures = []
        for fn in (stop, astop) if not isinstance(error, GeneratorExit) else (stop,):
            try:
                await goal.step(fn)
            except StepFailed as failed:
                failures.append(f"{failed.code} {failed.detail}")
        return failures

    assert all(type(error).__name__ in failure for failure in ended(await run(world, stops)).value)


async def test_a_flow_that_would_end_the_program_only_ends(world: World) -> None:
    async def exits(goal: Goal) -> None:  # noqa: ARG001
        raise SystemExit(4)

    assert str(ended(await run(world, exits)).detail).startswith("SystemExit: 4 (")


async def test_a_step_that_is_not_awaited_is_an_error(world: World) -> None:
    async def forgets(goal: Goal) -> None:
        world.kept = asyncio.create_task(goal.step(double, 1))  # type: ignore[attr-defined]

    assert "returned while /double#0 was in flight" in str(ended(await run(world, forgets)).detail)


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), GeneratorExit(), BaseException("odd"), BaseExceptionGroup("g", [SystemExit(1)])]
)
async def test_whatever_a_flow_raises_ends_it(world: World, error: BaseException) -> None:
    async def raises(goal: Goal) -> None:
        await goal.step(double, 1)
        raise error

    async def in_a_branch(goal: Goal) -> None:
        await goal.gather(raises(goal))

    assert ended(await run(world, raises)).reason == "fatal_error"
    path = path_of(in_a_branch)
    ran = await world.start(MindSpec("flow", at=path, args={"args": [], "kwargs": {}}), "goal-b")
    assert ended(ran).reason == "fatal_error"


async def test_what_an_exception_says_is_kept_however_odd_it_is(world: World) -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def silent() -> None:
        raise Silent

    async def odd(goal: Goal) -> None:
        try:
            await goal.step(silent)
        except StepFailed as failed:
            raise ValueError(f"caf\udce9 {failed.detail}") from None

    end = ended(await run(world, odd))
    assert str(end.detail).startswith("ValueError: caf\\udce9 [its text cannot be read: RuntimeError] (")


@pytest.mark.parametrize(
    "ask",
    [
        lambda goal: goal.ask("\ud800"),
        lambda goal: goal.ask("q", ["\ud800"]),
        lambda goal: goal.signal("\ud800"),
        lambda goal: goal.options(name="\ud800").step(double, 1),
        lambda goal: goal.step(add, _deep(251)),
    ],
)
async def test_what_cannot_be_kept_is_refused_before_it_is_recorded(world: World, ask: Callable[..., Any]) -> None:
    async def asks_odd(goal: Goal) -> None:
        await ask(goal)

    assert "cannot be stored as JSON" in str(ended(await run(world, asks_odd)).detail)


async def test_a_result_that_is_too_deep_for_an_event_ends_the_flow(world: World) -> None:
    async def deep(goal: Goal) -> Any:
        await goal.step(double, 1)
        return _deep(253)

    assert "cannot be stored as JSON" in str(ended(await run(world, deep)).detail)


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


async def test_a_step_that_changes_its_arguments_changes_nothing_else(world: World) -> None:
    seen = []

    def fill(items: list[int]) -> None:
        items.append(len(items))
        seen.append(list(items))
        raise ValueError

    async def fills(goal: Goal) -> list[int]:
        items: list[int] = []
        with contextlib.suppress(ValueError):
            await goal.options(retry=3).step(fill, items)
        return items

    assert ended(await run(world, fills)).value == []
    assert seen == [[0], [0], [0]]


async def test_a_busy_branch_holds_up_no_other(world: World) -> None:
    free = asyncio.Event()

    async def frees() -> None:
        free.set()

    async def busy(goal: Goal) -> None:
        await free.wait()
        await goal.step(double, 1)

    async def quick(goal: Goal) -> None:
        await goal.step(double, 2)
        await goal.step(frees)

    async def both(goal: Goal) -> None:
        await goal.gather(busy(goal), quick(goal))

    assert ended(await asyncio.wait_for(run(world, both), 10)).reason == "done"


async def test_a_group_of_tasks_runs_steps_side_by_side(world: World) -> None:
    async def grouped(goal: Goal) -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(goal.step(double, number)) for number in (1, 2)]
        return [task.result() for task in tasks]

    assert ended(await run(world, grouped)).value == [2, 4]


@pytest.mark.parametrize("path", ["nowhere", "nowhere:x", "tests.minds.test_flow:double", "__main__:gone"])
def test_a_flow_that_is_not_here_is_said(path: str) -> None:
    with pytest.raises((Invalid, NotFound)):
        find_flow(path)


def test_a_flow_is_an_async_function() -> None:
    with pytest.raises(Invalid):
        flow(double)  # type: ignore[arg-type]


async def asks(goal: Goal) -> None:
    await goal.step(double, 1)
    await goal.step(add, 1)
    await goal.ask("?")


async def renamed(goal: Goal) -> None:
    await goal.options(name="other").step(double, 1)
    await goal.step(add, 1)
    await goal.ask("?")


async def reordered(goal: Goal) -> None:
    await goal.step(add, 1)
    await goal.step(double, 1)
    await goal.ask("?")


async def more(goal: Goal) -> None:
    await goal.step(double, 1)
    await goal.step(double, 1)
    await goal.step(add, 1)


async def other_arguments(goal: Goal) -> None:
    await goal.step(double, 1)
    await goal.step(add, 2)
    await goal.ask("?")


async def removed(goal: Goal) -> None:
    await goal.step(double, 1)
    await goal.step(add, 1)


async def breaks(goal: Goal) -> None:
    await removed(goal)
    raise KeyError("x")


async def swallows(goal: Goal) -> None:
    try:
        await goal.step(add, 1)
    except BaseException:  # noqa: BLE001 (what a careless author writes)
        return


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (renamed, "Event 2 of the history is step /double#0; the code calls /other#0 instead"),
        (reordered, "Event 2 of the history is step /double#0; the code calls /add#0 instead"),
        (more, "Event 4 of the history is step /add#0; the code calls /double#1 "),
        (other_arguments, "Event 4 of the history is step /add#0; the code calls it with other arguments"),
        (removed, "Event 6 of the history is step /ask#0; the code ended before it."),
        (breaks, r"Event 6 of the history is step /ask#0; the code ended before it \(KeyError: 'x' \(.*, line \d+\)\)"),
        (swallows, "Event 2 of the history is step /double#0"),
    ],
)
async def test_changed_code_is_refused_and_nothing_is_appended(
    world: World, code: Callable[..., Coroutine[Any, Any, Any]], said: str
) -> None:
    path = path_of(asks)
    await world.start(MindSpec("flow", at=path))
    before = await world.store.load("goal-a")
    find_flow(path).fn = code
    with pytest.raises(Conflict, match=said):
        await world.resume()
    assert await world.store.load("goal-a") == before
    find_flow(path).fn = asks
    assert (await world.resume()).state.waiting_for == "person"
    assert CALLS == {"double": 1, "add": 1}


async def test_a_long_sleep_releases_the_goal_and_continues_when_it_is_due(world: World) -> None:
    async def sleeper(goal: Goal) -> int:
        await goal.sleep(3600)
        return int(await goal.step(double, 4))

    ran = await run(world, sleeper)
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "timer")
    summary = await world.store.find("goal-a")
    assert (summary.status, summary.waiting_for, summary.worker) == ("waiting", "timer", None)
    assert summary.due_us is not None
    events = len(await world.store.load("goal-a"))
    assert (await world.resume()).outcome == "waiting"
    assert len(await world.store.load("goal-a")) == events
    assert await world.store.due(world.clock.now) == []
    world.clock.now = summary.due_us
    assert [goal.goal_id for goal in await world.store.due(world.clock.now)] == ["goal-a"]
    assert ended(await world.resume()).value == 8
    assert await world.store.due(world.clock.now * 2) == []


async def test_a_flow_that_waits_outside_of_its_steps_can_be_stopped_and_resumed(world: World) -> None:
    waits = asyncio.Event()
    gate = asyncio.Event()

    async def outside(goal: Goal) -> int:
        doubled = await goal.step(double, 4)
        waits.set()
        await gate.wait()
        return int(await goal.step(add, doubled))

    loops: list[Loop] = []
    world.watch = loops.append
    running = asyncio.create_task(run(world, outside))
    await waits.wait()
    loops[0].stop()
    assert (await running).outcome == "interrupted"
    gate.set()
    assert ended(await world.resume()).value == 9
    assert CALLS == {"double": 1, "add": 1}


async def test_a_flow_that_waits_outside_of_its_steps_can_be_cancelled(world: World) -> None:
    waits = asyncio.Event()

    async def outside(goal: Goal) -> None:
        await goal.step(double, 4)
        waits.set()
        await asyncio.Event().wait()

    loops: list[Loop] = []
    world.watch = loops.append
    running = asyncio.create_task(run(world, outside))
    await waits.wait()
    await world.store.post("goal-a", "cancel", {"by": "person"}, key="c")
    loops[0].check_inbox()
    assert ended(await asyncio.wait_for(running, 10)).reason == "cancelled"


async def one(goal: Goal, number: int) -> None:
    await goal.step(double, number)


async def two_branches(goal: Goal) -> None:
    await goal.gather(one(goal, 1), one(goal, 2))
    await goal.ask("?")


async def one_branch(goal: Goal) -> None:
    await goal.gather(one(goal, 1))
    await goal.ask("?")


async def three_branches(goal: Goal) -> None:
    await goal.gather(one(goal, 1), one(goal, 2), one(goal, 3))
    await goal.ask("?")


async def asks_first(goal: Goal) -> None:
    await goal.ask("?")
    await goal.gather(one(goal, 1), one(goal, 2))


async def no_branch(goal: Goal) -> None:
    await one(goal, 1)
    await one(goal, 2)
    await goal.ask("?")


async def another_gather(goal: Goal) -> None:
    await goal.gather(one(goal, 1), one(goal, 2))
    await goal.gather(one(goal, 3), one(goal, 4))
    await goal.ask("?")


@pytest.mark.parametrize("code", [one_branch, three_branches, asks_first, no_branch, another_gather])
async def test_code_that_branches_otherwise_is_refused_and_nothing_is_appended(
    world: World, code: Callable[..., Coroutine[Any, Any, Any]]
) -> None:
    path = path_of(two_branches)
    await world.start(MindSpec("flow", at=path))
    before = await world.store.load("goal-a")
    find_flow(path).fn = code
    with pytest.raises(Conflict, match="does not match the history of this goal"):
        await world.resume()
    assert await world.store.load("goal-a") == before
    assert CALLS["double"] == 2
    find_flow(path).fn = two_branches
    assert (await world.resume()).state.waiting_for == "person"


async def test_code_that_begins_to_branch_is_refused_and_nothing_is_appended(world: World) -> None:
    path = path_of(no_branch)
    await world.start(MindSpec("flow", at=path))
    before = await world.store.load("goal-a")
    find_flow(path).fn = two_branches
    with pytest.raises(Conflict, match="Event 2 of the history is step /double#0; the code does not call it"):
        await world.resume()
    assert await world.store.load("goal-a") == before
    assert CALLS["double"] == 2
    find_flow(path).fn = no_branch


@flow
async def direct(_goal: Goal, number: int) -> int:
    return number


@flow
async def through_another(goal: Goal) -> int:
    return int(await direct(goal, 5))


def test_a_flow_is_shown_by_its_path() -> None:
    assert repr(direct) == "<flow tests.minds.test_flow:direct>"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: cast("Any", direct)(1), "p.goals.run(direct, 1)"),
        (direct, "p.goals.run(direct)"),
        (lambda: cast("Any", direct)("a", number=2), "p.goals.run(direct, 'a', number=2)"),
    ],
)
def test_a_flow_that_is_called_directly_says_how_to_run_it(call: Callable[[], object], said: str) -> None:
    with pytest.raises(Invalid) as refused:
        call()
    assert refused.value.detail == f"A flow is not called directly. Run it as a goal: {said}"


async def test_a_flow_may_call_another_with_its_goal(world: World) -> None:
    assert ended(await run(world, through_another.fn)) == Termination("done", value=5)
