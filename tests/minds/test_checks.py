"""What the check of a `once` step says, and how long an attempt has left after a crash."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any, Literal
from uuid import UUID

import pytest

from perdure import Goal, Happened, failpoints
from perdure.app.goals.errors import failure_of, wait_of
from perdure.kernel.events import Event, ToolCall, decode
from perdure.kernel.loop import RunResult
from tests.kernel.lives import Died
from tests.kernel.world import World
from tests.minds.test_flow import ended, run
from tests.minds.test_retry import decide

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


@dataclass
class Receipt:
    number: int


def pay() -> Receipt:
    CALLS.append("pay")
    return Receipt(1)


async def hang() -> Receipt:
    CALLS.append("hang")
    await asyncio.Event().wait()
    return Receipt(1)


def die() -> None:
    raise Died


def number_of(receipt: Any) -> int | None:
    return None if receipt is None else int(receipt.number)


async def killed_and_resumed(world: World, answer: Any) -> RunResult:
    def was_paid() -> Any:
        CALLS.append("check")
        return answer

    async def one(goal: Goal) -> Any:
        return number_of(await goal.options(check=was_paid).step(pay))

    with failpoints.armed("kernel.effect.after", die), pytest.raises(Died):
        await run(world, one)
    return await world.resume()


async def test_a_check_that_knows_the_result_gives_it_after_a_crash_and_at_every_replay(world: World) -> None:
    def was_paid() -> Happened[Receipt]:
        return Happened(Receipt(7))

    async def one(goal: Goal) -> Any:
        paid = await goal.options(check=was_paid).step(pay)
        await goal.ask("Go on?")
        return paid.number

    with failpoints.armed("kernel.effect.after", die), pytest.raises(Died):
        await run(world, one)
    ran = await world.resume()
    outcome = ran.state.calls["/pay#0.1"].outcome
    assert outcome is not None
    assert (outcome.ok, outcome.output) == (True, {"number": 7})
    await world.store.post(
        "goal-a", "decision", {"call_id": "/ask#0.1", "decision": "answer", "value": "yes"}, key="answer"
    )
    assert ended(await world.resume()).value == 7
    assert CALLS == ["pay"]


@pytest.mark.parametrize(
    ("answer", "status"),
    [(False, "done"), (None, "waiting"), ("yes", "waiting"), (1, "waiting"), (Happened(object()), "waiting")],
)
async def test_any_other_answer_runs_it_again_or_leaves_it_unknown(world: World, answer: Any, status: str) -> None:
    ran = await killed_and_resumed(world, answer)
    assert ran.state.status == status
    assert (["pay", "check", "pay"] if answer is False else ["pay", "check"]) == CALLS


def no_route(*_args: Any) -> Any:
    raise ConnectionError("no route to the bank")


async def test_a_check_that_raises_after_a_crash_is_named_with_its_exception(world: World) -> None:
    async def one(goal: Goal) -> Any:
        return number_of(await goal.options(check=no_route).step(pay))

    with failpoints.armed("kernel.effect.after", die), pytest.raises(Died):
        await run(world, one)
    ran = await world.resume()
    unknown = ran.state.calls["/pay#0.1"].unknown
    assert unknown is not None
    assert "its check cannot tell: it raised ConnectionError: no route to the bank (" in unknown.why
    assert "test_checks.py, line " in unknown.why
    waits = wait_of(ran)
    assert waits is not None
    assert "it raised ConnectionError: no route to the bank" in str(waits)
    assert "skip --value JSON" in str(waits)
    assert "which is of type Receipt." in str(waits)


async def test_a_check_that_raises_after_its_step_raised_is_named_with_its_exception(world: World) -> None:
    def lost() -> Receipt:
        raise TimeoutError("no reply")

    async def one(goal: Goal) -> Any:
        return number_of(await goal.options(check=no_route, retry=3).step(lost))

    ran = await run(world, one)
    [call] = ran.state.calls.values()
    assert call.outcome is not None
    assert (call.outcome.happened, call.outcome.error and call.outcome.error.args) == ("unknown", ["no reply"])
    said = str(call.outcome.error and call.outcome.error.message)
    assert (
        "; its check cannot tell whether its effect exists: it raised ConnectionError: no route to the bank (" in said
    )
    assert "no route to the bank" in str(failure_of(ran))


async def test_a_check_that_raises_after_a_timeout_is_named_with_its_exception(world: World) -> None:
    async def one(goal: Goal) -> Any:
        return number_of(await goal.options(check=no_route, timeout_s=0.01, retry=3).step(hang))

    assert "its check cannot tell: it raised ConnectionError: no route" in str(failure_of(await run(world, one)))
    assert CALLS == ["hang"]


async def test_only_a_once_step_that_needs_a_result_records_its_type(world: World) -> None:
    def nothing() -> None:
        pass

    async def three(goal: Goal) -> None:
        await goal.step(pay)
        await goal.step(nothing)
        await goal.options(effect="idempotent").step(pay)

    found = [body.returns for body in map(decode, await _events(world, three)) if isinstance(body, ToolCall)]
    assert found == ["Receipt", None, None]


async def _events(world: World, fn: Callable[..., Any]) -> Sequence[Event]:
    await run(world, fn)
    return await world.store.load("goal-a")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "cannot be stored as JSON: a value of type object"),
        ("receipt 7", "does not fit the return type of the step: Input should be an object"),
        ({"number": "seven"}, "does not fit the return type of the step: number: Input should be a valid integer"),
    ],
)
async def test_a_value_that_cannot_be_stored_or_read_is_said(world: World, value: Any, said: str) -> None:
    unknown = (await killed_and_resumed(world, Happened(value))).state.calls["/pay#0.1"].unknown
    assert unknown is not None
    assert f"its check cannot tell: The result from the check of /pay#0 {said}" in unknown.why


WITHOUT_RESULT = (
    "its check says that it happened, but not with which result; return Happened(value), or decide: skip --value JSON."
)


async def test_a_check_that_does_not_give_the_result_leaves_it_unknown_after_a_crash(world: World) -> None:
    unknown = (await killed_and_resumed(world, True)).state.calls["/pay#0.1"].unknown
    assert unknown is not None
    assert unknown.why.endswith(f"; {WITHOUT_RESULT}")
    assert (await world.resume()).state.waiting_for == "person"
    await decide(world, "/pay#0.1", "skip", {"number": 7})
    assert ended(await world.resume()).value == 7
    assert CALLS == ["pay", "check"]


async def test_a_check_that_does_not_give_the_result_leaves_it_unknown_after_a_timeout(world: World) -> None:
    async def one(goal: Goal) -> Any:
        return (await goal.options(check=lambda: True, timeout_s=0.01, retry=3).step(hang)).number

    unknown = (await run(world, one)).state.calls["/hang#0.1"].unknown
    assert unknown is not None
    assert unknown.why == f"The step took longer than its timeout of 0.01 s; {WITHOUT_RESULT}"
    await decide(world, "/hang#0.1", "skip", {"number": 7})
    assert ended(await world.resume()).value == 7
    assert CALLS == ["hang"]


async def test_a_cancelled_step_needs_no_result_of_its_check(world: World) -> None:
    async def one(goal: Goal) -> None:
        task = asyncio.create_task(goal.options(check=lambda: True).step(hang))
        await goal.step(int)
        task.cancel()
        await asyncio.wait([task])

    outcome = (await run(world, one)).state.calls["/hang#0.1"].outcome
    assert outcome is not None
    assert outcome.happened == "yes"


@pytest.mark.parametrize(
    ("result", "is_done"),
    [
        (None, True),
        (Any, True),
        (object, True),
        (Receipt | None, True),
        (str | None, True),
        ("NotDefined", True),
        (Callable[[], int], True),
        (Literal["paid", None], True),
        (Receipt, False),
        (str, False),
        (bool, False),
        (dict[str, Any], False),
        (list[Receipt | None], False),
        (Decimal | UUID, False),
    ],
    ids=str,
)
async def test_only_an_annotation_that_does_not_accept_none_needs_a_result(
    world: World, result: Any, *, is_done: bool
) -> None:
    async def hangs() -> Any:
        await asyncio.Event().wait()

    hangs.__annotations__["return"] = result

    async def one(goal: Goal) -> Any:
        return await goal.options(check=lambda: True, timeout_s=0.01).step(hangs)

    assert (await run(world, one)).state.status == ("done" if is_done else "waiting")


async def test_a_check_that_knows_the_result_gives_it_after_a_timeout(world: World) -> None:
    async def one(goal: Goal) -> Any:
        return (await goal.options(check=lambda: Happened(Receipt(7)), timeout_s=0.01).step(hang)).number

    assert ended(await run(world, one)).value == 7


async def test_a_value_that_cannot_be_stored_after_a_timeout_is_a_timeout_that_says_so(world: World) -> None:
    async def one(goal: Goal) -> str:
        try:
            await goal.options(check=lambda: Happened(object()), timeout_s=0.01, retry=3).step(hang)
        except TimeoutError as error:
            return str(error)
        return ""

    assert "its check cannot tell" in ended(await run(world, one)).value
    assert CALLS == ["hang"]


async def test_a_check_that_knows_the_result_is_recorded_with_a_cancelled_step(world: World) -> None:
    async def one(goal: Goal) -> str:
        task = asyncio.create_task(goal.options(check=lambda: Happened(Receipt(7))).step(hang))
        await goal.step(int)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return "cancelled"
        return ""

    ran = await run(world, one)
    outcome = ran.state.calls["/hang#0.1"].outcome
    assert outcome is not None
    assert (ended(ran).value, outcome.happened, outcome.output) == ("cancelled", "yes", {"number": 7})


@pytest.mark.parametrize(("passed_s", "is_run"), [(1, True), (600, False)])
@pytest.mark.parametrize("effect", ["idempotent", "once"])
async def test_an_attempt_that_is_repeated_after_a_crash_has_only_the_rest_of_its_time(
    world: World, effect: Any, passed_s: int, *, is_run: bool
) -> None:
    async def one(goal: Goal) -> str:
        try:
            return str((await goal.options(effect=effect, timeout_s=60, check=lambda: False).step(pay)).number)
        except TimeoutError as error:
            return getattr(error.__cause__, "code", "")

    with failpoints.armed("kernel.effect.before", die), pytest.raises(Died):
        await run(world, one)
    world.clock.now += passed_s * 1_000_000
    late = "timeout" if effect == "idempotent" else "not_happened"
    assert ended(await world.resume()).value == ("1" if is_run else late)
    assert ["pay"] * is_run == CALLS


async def test_another_attempt_after_a_crash_has_its_whole_time(world: World) -> None:
    async def one(goal: Goal) -> int:
        return (await goal.options(effect="idempotent", timeout_s=60, retry=2).step(pay)).number

    with failpoints.armed("kernel.effect.before", die), pytest.raises(Died):
        await run(world, one)
    world.clock.now += 600_000_000
    ran = await world.resume()
    assert (ended(ran).value, CALLS, list(ran.state.calls)) == (1, ["pay"], ["/pay#0.1", "/pay#0.2"])


async def test_a_clock_that_was_set_back_gives_no_more_time(world: World) -> None:
    async def one(goal: Goal) -> str:
        try:
            await goal.options(effect="idempotent", timeout_s=0.05).step(hang)
        except TimeoutError:
            return "timed out"
        return ""

    with failpoints.armed("kernel.effect.before", die), pytest.raises(Died):
        await run(world, one)
    world.clock.now -= 3_600_000_000
    async with asyncio.timeout(10):
        assert ended(await world.resume()).value == "timed out"


async def test_a_slow_commit_takes_nothing_from_the_time_of_an_attempt(world: World) -> None:
    async def one(goal: Goal) -> int:
        return (await goal.options(timeout_s=5).step(pay)).number

    def be_slow() -> None:
        world.clock.now += 60_000_000

    with failpoints.armed("kernel.effect.before", be_slow):
        assert ended(await run(world, one)).value == 1


class _Book:
    def was_paid(self, *args: Any, **kwargs: Any) -> bool:
        return bool(args or kwargs)

    def __call__(self, number: int, *, note: str = "") -> bool:
        return bool(number and note)


@pytest.mark.parametrize(
    "check",
    [_Book().was_paid, _Book(), partial(lambda bank, *_, note: bank == note, "bank"), max, lambda *_, **__: True],
)
async def test_every_callable_that_takes_the_arguments_of_the_step_is_a_check(
    world: World, check: Callable[..., Any]
) -> None:
    def pay_for(number: int, note: str) -> str:
        return f"{number} {note}"

    async def paying(goal: Goal) -> str:
        return await goal.options(check=check).step(pay_for, 1, note="a")

    assert ended(await run(world, paying)).value == "1 a"
