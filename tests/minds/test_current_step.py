"""What the function of a step can ask about its step, and what surrounds it: usage, records, context variables."""

import asyncio
import decimal
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Goal, Invalid, Retry, current_goal, current_step, failpoints
from perdure.errors import PerdureError
from perdure.kernel.history.compare import compare
from perdure.kernel.loop import RunResult
from perdure.minds.flow.current import CurrentStep
from tests.kernel.lives import Died
from tests.kernel.world import World
from tests.minds.test_flow import ended, run

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


def outcome(ran: RunResult, call_id: str) -> Any:
    return ran.state.calls[call_id].outcome


def use_on_a_thread() -> list[Any]:
    step = current_step()
    step.usage(tokens=10)
    step.usage(tokens=5, cost_usd=0.25)
    step.record(model="m-1", tries=[1, 2])
    step.record(model="m-2")
    return [step.goal_id, step.step, step.attempt, step.idempotency_key]


async def use_here() -> list[Any]:
    async def inner() -> None:
        await asyncio.sleep(0)
        current_step().usage(tokens=10)

    await asyncio.gather(inner(), asyncio.to_thread(lambda: current_step().usage(tokens=5, cost_usd=0.25)))
    current_step().record(model="m-2", tries=[1, 2])
    step = current_step()
    return [step.goal_id, step.step, step.attempt, step.idempotency_key]


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
@pytest.mark.parametrize("fn", [use_on_a_thread, use_here])
async def test_a_step_counts_its_usage_and_records_values(world: World, fn: Callable[[], Any], effect: Any) -> None:
    async def one(goal: Goal) -> Any:
        return await goal.options(effect=effect, name="use").step(fn)

    ran = await run(world, one)
    assert ended(ran).value == ["goal-a", "/use#0", 1, "goal-a//use#0.1"]
    found = outcome(ran, "/use#0.1")
    assert (found.usage, found.meta) == ({"tokens": 15, "cost_usd": 0.25}, {"model": "m-2", "tries": [1, 2]})
    assert (ran.state.used.tokens, ran.state.used.usd) == (15, 0.25)


async def test_a_step_that_uses_nothing_records_nothing(world: World) -> None:
    async def one(goal: Goal) -> None:
        await goal.step(int, 5)

    found = outcome(await run(world, one), "/int#0.1")
    assert (found.usage, found.meta) == (None, None)


async def test_usage_counts_for_each_attempt_also_of_one_that_fails_or_times_out(world: World) -> None:
    async def fails() -> None:
        current_step().usage(tokens=7)
        current_step().record(attempt=current_step().attempt)
        raise ValueError("no")

    async def slow() -> None:
        current_step().usage(cost_usd=1.5)
        await asyncio.Event().wait()

    async def both(goal: Goal) -> None:
        with pytest.raises(ValueError, match="no"):
            await goal.options(retry=Retry(2)).step(fails)
        with pytest.raises(TimeoutError):
            await goal.options(timeout_s=0.01).step(slow)

    ran = await run(world, both)
    assert ended(ran).reason == "done"
    assert (ran.state.used.tokens, ran.state.used.usd) == (14, 1.5)
    assert [outcome(ran, f"/fails#0.{number}").meta for number in (1, 2)] == [{"attempt": 1}, {"attempt": 2}]


async def test_what_a_step_records_is_not_compared(world: World) -> None:
    notes = iter(["first", "second"])

    def notes_something() -> None:
        current_step().record(note=next(notes))
        current_step().usage(tokens=1)

    async def one(goal: Goal) -> None:
        await goal.step(notes_something)

    spec = (await run(world, one)).state.begun.mind
    await world.start(spec, goal_id="goal-b")
    left, right = await world.store.load("goal-a"), await world.store.load("goal-b")
    parted = compare(left, right)
    assert (parted.left, parted.right) == ([], [])


BAD: dict[str, Callable[[CurrentStep], None]] = {
    "tokens below 0": lambda step: step.usage(tokens=-1),
    "half a token": lambda step: step.usage(tokens=0.5),  # type: ignore[arg-type]
    "true": lambda step: step.usage(tokens=True),
    "a text": lambda step: step.usage(cost_usd="1"),  # type: ignore[arg-type]
    "no number": lambda step: step.usage(cost_usd=float("nan")),
    "endless": lambda step: step.usage(cost_usd=float("inf")),
    "too many tokens": lambda step: step.usage(tokens=2**63),
    "an object": lambda step: step.record(it=object()),
    "a value without JSON": lambda step: step.record(it=float("nan")),
    "too large a value": lambda step: step.record(it="x" * 70_000),
}


@pytest.mark.parametrize("bad", BAD)
async def test_what_cannot_be_recorded_is_invalid_and_the_rest_stays(world: World, bad: str) -> None:
    def odd() -> str:
        current_step().usage(tokens=1)
        current_step().record(kept=1)
        try:
            BAD[bad](current_step())
        except Invalid as error:
            return error.detail
        return ""

    async def one(goal: Goal) -> str:
        return await goal.step(odd)

    ran = await run(world, one)
    assert ended(ran).value
    assert (outcome(ran, "/odd#0.1").usage, outcome(ran, "/odd#0.1").meta) == ({"tokens": 1}, {"kept": 1})


@given(st.lists(st.tuples(st.integers(0, 10**6), st.floats(0, 1000)), max_size=20))
def test_usage_adds_up(parts: list[tuple[int, float]]) -> None:
    step = CurrentStep("g", "/s#0", 1)
    for tokens, cost_usd in parts:
        step.usage(tokens=tokens, cost_usd=cost_usd)
    used = step.end()[0] or {}
    assert used.get("tokens", 0) == sum(tokens for tokens, _ in parts)
    assert used.get("cost_usd", 0) == pytest.approx(sum(cost for _, cost in parts))


def test_nothing_is_added_after_the_end_of_a_step() -> None:
    step = CurrentStep("g", "/s#0", 1)
    step.end()
    with pytest.raises(Invalid, match="has ended"):
        step.usage(tokens=1)
    with pytest.raises(Invalid, match="has ended"):
        step.record(a=1)


async def test_there_is_a_step_in_a_step_and_a_goal_in_a_flow_only(world: World) -> None:
    def in_a_step() -> list[Any]:
        return [current_goal(), current_step().step]

    async def asks(goal: Goal) -> list[Any]:
        async def line() -> bool:
            return current_goal() is goal

        here = [current_goal() is goal, *await goal.gather(line(), line()), await asyncio.create_task(line())]
        with pytest.raises(Invalid, match="outside of a step"):
            current_step()
        return [*here, await goal.step(in_a_step)]

    assert ended(await run(world, asks)).value == [True, True, True, True, [None, "/in_a_step#0"]]
    assert current_goal() is None
    with pytest.raises(Invalid):
        current_step()


async def test_a_check_knows_its_step_and_records_nothing(world: World) -> None:
    def was_sent() -> bool:
        SEEN.append((current_step().idempotency_key, current_step().attempt, current_goal()))
        try:
            current_step().usage(tokens=1)
        except Invalid as error:
            SEEN.append(error.detail)
        return True

    async def one(goal: Goal) -> None:
        await goal.options(check=was_sent).step(int)

    def die() -> None:
        raise Died

    with failpoints.armed("kernel.effect.after", die), pytest.raises(Died):
        await run(world, one)
    await world.resume()
    refusal = "The check of /int#0 cannot record values or usage; only the step can."
    assert [("goal-a//int#0.1", 1, None), refusal] == SEEN


def tenant() -> str:
    found = TENANT.get()
    TENANT.set("changed by a step")
    return found


async def async_tenant() -> str:
    await asyncio.sleep(0)
    return tenant()


@pytest.mark.parametrize("fn", [tenant, async_tenant])
async def test_a_step_sees_the_context_variables_of_its_call(world: World, fn: Callable[[], Any]) -> None:
    async def tenants(goal: Goal) -> list[Any]:
        async def line(name: str) -> Any:
            TENANT.set(name)
            return await goal.options(name="t").step(fn)

        found = [await goal.options(name="t").step(fn)]
        TENANT.set("a")
        pending = goal.options(name="t").step(fn)
        found.append(await pending)
        TENANT.set("b")
        found += await goal.gather(line("c"), line("d"))
        found.append(await goal.options(name="t", retry=2).step(fn))
        return [*found, TENANT.get()]

    assert ended(await run(world, tenants)).value == ["nobody", "a", "c", "d", "b", "b"]
    assert TENANT.get() == "nobody"


@pytest.mark.parametrize("check", [tenant, async_tenant])
async def test_a_check_sees_the_context_variables_of_the_call_and_changes_none(world: World, check: Any) -> None:
    async def asks(*_args: Any) -> bool:
        found = check()
        SEEN.append(await found if asyncio.iscoroutine(found) else found)
        return True

    async def one(goal: Goal) -> None:
        TENANT.set("of the flow")
        await goal.options(check=asks).step(int)

    def die() -> None:
        raise Died

    with failpoints.armed("kernel.effect.after", die), pytest.raises(Died):
        await run(world, one)
    await world.resume()
    assert (SEEN, TENANT.get()) == (["of the flow"], "nobody")


async def test_a_decimal_context_of_the_flow_holds_in_its_steps(world: World) -> None:
    def third() -> str:
        return str(decimal.Decimal(1) / 3)

    async def one(goal: Goal) -> list[str]:
        with decimal.localcontext(prec=3):
            return [await goal.step(third), str(decimal.Decimal(1) / 3)]

    assert ended(await run(world, one)).value == ["0.333", "0.333"]


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_step_inside_a_step_is_refused(world: World, *, is_async: bool) -> None:
    async def nests(goal: Goal) -> str:
        async def inner() -> None:
            await goal.step(int)

        try:
            await goal.step(inner if is_async else lambda: goal.step(int))
        except PerdureError as error:
            return error.detail
        return "nested"

    assert "asked for inside a step" in ended(await run(world, nests)).value


async def test_a_flow_that_a_step_runs_has_no_step_of_its_own(world: World) -> None:
    from perdure.app import open_ephemeral
    from perdure.minds.flow.flow import Flow

    async def inner(goal: Goal) -> list[Any]:
        try:
            current_step()
        except Invalid:
            return [goal is current_goal(), await goal.step(lambda: current_step().step)]
        return ["a step"]

    inner_flow: Flow[[], list[Any]] = Flow(inner)

    async def runs_another() -> Any:
        async with open_ephemeral() as goals:
            result = await goals.run(inner_flow)
            return [result.value, current_step().step]

    async def outer(goal: Goal) -> Any:
        return await goal.step(runs_another)

    assert ended(await run(world, outer)).value == [[True, "/lambda#0"], "/runs_another#0"]


async def test_usage_from_many_threads_adds_up(world: World) -> None:
    def many() -> None:
        step = current_step()

        def use() -> None:
            for _ in range(500):
                step.usage(tokens=1)

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    async def one(goal: Goal) -> None:
        await goal.step(many)

    assert (await run(world, one)).state.used.tokens == 4000
