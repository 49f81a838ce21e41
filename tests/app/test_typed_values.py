"""Results of goals and steps by annotation, results that cannot be stored, and values that a person gives instead."""

import threading
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from perdure import Conflict, Goal, GoalFailed, GoalWaiting, Invalid, StepFailed, flow
from perdure.app.goals.goals import Goals
from perdure.app.goals.updates import skipped_values
from perdure.app.workers import flow_threads
from perdure.minds.flow import registry

CALLS: Counter[str] = Counter()


@dataclass
class Paid:
    order: UUID
    sum: Decimal
    at: datetime
    tags: set[str] = field(default_factory=set)


PAID = Paid(UUID(int=7), Decimal("12.50"), datetime(2026, 11, 16, tzinfo=UTC), {"new", "eu"})
PAID_AS_JSON = {
    "order": "00000000-0000-0000-0000-000000000007",
    "sum": "12.50",
    "at": "2026-11-16T00:00:00+00:00",
    "tags": ["eu", "new"],
}


def pay(order: UUID, total: Decimal) -> Paid:
    CALLS["pay"] += 1
    return Paid(order, total, PAID.at, {"new", "eu"})


@flow
async def checkout(goal: Goal, order: UUID, total: Decimal) -> dict[int, Paid]:
    assert (type(order), type(total)) == (UUID, Decimal)
    paid = await goal.step(pay, order, total)
    assert type(paid) is Paid
    return {1: paid}


def connect() -> Any:
    CALLS["connect"] += 1
    return {"session": threading.Lock()}


def charge(order: UUID) -> Paid:  # noqa: ARG001 (what is paid)
    CALLS["charge"] += 1
    paid: Any = connect()
    return paid  # type: ignore[no-any-return] # not what it says


@flow
async def charging(goal: Goal) -> Paid:
    return await goal.step(charge, PAID.order)


@flow
async def connecting(goal: Goal, effect: str) -> str:
    try:
        await goal.options(effect=effect, retry=3).step(connect)  # type: ignore[arg-type]
    except StepFailed as error:
        return error.detail
    return "connected"


@flow
async def giving(goal: Goal, what: str) -> Any:
    if what == "argument":
        await goal.step(pay, PAID.order, total=threading.Lock())  # type: ignore[arg-type]
    return threading.Lock()


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


async def test_the_result_of_a_goal_has_the_type_that_the_flow_returns_wherever_it_is_read(goals: Goals) -> None:
    options = goals.options(key="order 7")
    first = await options.run(checkout, PAID.order, total=PAID.sum)
    assert first.value == {1: PAID}
    again = await options.run(checkout, total=PAID.sum, order=PAID.order)
    started = await options.start(checkout, PAID.order, PAID.sum)
    handle = await goals.handle(first.id)
    others = [again, await started.result(), await handle.result(), await goals.resume(first.id)]
    assert [other.value for other in others] == [{1: PAID}] * 4
    end = (await goals.state(first.id)).termination
    assert end is not None
    assert end.value == {"1": PAID_AS_JSON}
    assert CALLS["pay"] == 1


async def test_the_result_of_a_flow_that_is_not_loaded_is_json(goals: Goals, monkeypatch: pytest.MonkeyPatch) -> None:
    done = await goals.run(checkout, PAID.order, PAID.sum)
    monkeypatch.delitem(registry._FLOWS, checkout.key)
    assert (await (await goals.handle(done.id)).result()).value == {"1": PAID_AS_JSON}


async def test_a_value_that_does_not_fit_changed_code_is_an_error_and_is_not_lost(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await goals.run(checkout, PAID.order, PAID.sum)

    async def changed(goal: Goal, order: UUID, total: Decimal) -> dict[int, int]:  # noqa: ARG001 (as it was)
        return {}

    with monkeypatch.context() as patch:
        patch.setattr(checkout, "fn", changed)
        with pytest.raises(Conflict, match=rf"{done.id} is done, but its result cannot be read by .* goal show"):
            await goals.resume(done.id)
    assert (await goals.resume(done.id)).value == {1: PAID}


async def test_a_once_step_whose_result_cannot_be_stored_is_unknown_and_is_not_repeated(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as raised:
        await goals.run(charging)
    goal_id = raised.value.id
    [call] = (await goals.state(goal_id)).open_calls.values()
    assert call.unknown is not None
    assert "The result of /charge#0 cannot be stored as JSON: a value of type _thread.lock" in call.unknown.why
    assert "(at .session)" in call.unknown.why
    assert "`skip` with the result as JSON, or `retry`" in call.unknown.why
    await goals.decide(goal_id, "skip", value=PAID_AS_JSON)
    assert (await goals.resume(goal_id)).value == PAID
    assert CALLS["charge"] == 1


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_another_step_whose_result_cannot_be_stored_has_failed_and_is_not_tried_again(
    goals: Goals, effect: str
) -> None:
    result = await goals.run(connecting, effect)
    assert "a value of type _thread.lock (at .session)" in result.value
    assert CALLS["connect"] == 1


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("argument", "The argument total of pay cannot be stored as JSON: a value of type _thread.lock"),
        ("result", "The result of giving cannot be stored as JSON: a value of type _thread.lock"),
    ],
)
async def test_what_cannot_be_stored_is_named_and_not_recorded(goals: Goals, what: str, said: str) -> None:
    with pytest.raises(GoalFailed, match=said) as raised:
        await goals.run(giving, what)
    assert not (await goals.state(raised.value.id)).calls
    assert CALLS["pay"] == 0


async def test_a_flow_gets_its_arguments_as_they_were_given_or_is_not_started(goals: Goals) -> None:
    @flow
    async def either(goal: Goal, at: datetime | str) -> str:  # noqa: ARG001 (a flow has one)
        return type(at).__name__

    assert (await goals.run(either, PAID.at)).value == "datetime"
    with pytest.raises(Invalid, match="The argument at of .*either is a value of type str that would come back"):
        await goals.run(either, "2026-11-16T00:00:00")
    assert len(await goals.list()) == 1


async def test_a_value_that_does_not_fit_the_step_is_rejected_where_its_code_is(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(charging)
    goal_id = waiting.value.id
    before = await goals.events(goal_id)
    with pytest.raises(Invalid, match=r"The value for /charge#0 does not fit .* order: .* Nothing was recorded"):
        await goals.decide(goal_id, "skip", value={"order": "seven"}, key="skip 7")
    assert await goals.events(goal_id) == before
    await goals.decide(goal_id, "skip", value=PAID_AS_JSON, key="skip 7")
    assert (await goals.resume(goal_id)).value == PAID
    assert CALLS["charge"] == 1


async def test_a_value_that_does_not_fit_a_step_whose_code_is_elsewhere_fails_it_and_a_retry_asks_again(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    @flow(name="charging elsewhere")
    async def elsewhere(goal: Goal) -> Paid:
        return await goal.step(charge, PAID.order)

    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(elsewhere)
    goal_id = waiting.value.id
    with monkeypatch.context() as patch:
        patch.delitem(registry._FLOWS, elsewhere.key)
        await goals.decide(goal_id, "skip", value={"order": "seven"})
    with pytest.raises(GoalFailed, match=r"The value that was given for /charge#0 does not fit .* order: ") as failed:
        await goals.resume(goal_id)
    assert failed.value.reason == "failed"
    with pytest.raises(GoalWaiting) as again:
        await goals.retry(goal_id)
    assert list(again.value.unknown) == ["/charge#0"]
    with pytest.raises(Invalid, match="The value for /charge#0 does not fit"):
        await goals.decide(goal_id, "skip", value={"order": "eight"})
    await goals.decide(goal_id, "skip", value=PAID_AS_JSON)
    assert (await goals.resume(goal_id)).value == PAID
    assert CALLS["charge"] == 1


async def test_a_value_for_a_step_of_code_that_has_changed_is_recorded_and_validated_later(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(charging)

    async def changed(goal: Goal) -> Any:
        await goal.step(quote)
        return await goal.step(charge, PAID.order)

    with monkeypatch.context() as patch:
        patch.setattr(charging, "fn", changed)
        await goals.decide(waiting.value.id, "skip", value={"order": "seven"})
    with pytest.raises(GoalFailed, match="does not fit"):
        await goals.resume(waiting.value.id)
    assert not CALLS["quote"]


async def test_a_flow_that_blocks_does_not_hold_up_a_decision(goals: Goals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skipped_values, "_WITHIN_S", 0.05)
    monkeypatch.setattr(flow_threads, "DEAF_S", 0.05)
    may_run = threading.Event()
    may_run.set()

    @flow(name="blocking")
    async def blocking(goal: Goal) -> Paid:
        may_run.wait()
        return await goal.step(charge, PAID.order)

    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(blocking)
    may_run.clear()
    await goals.decide(waiting.value.id, "skip", value=PAID_AS_JSON)
    may_run.set()
    assert (await goals.resume(waiting.value.id)).value == PAID


def quote() -> Paid:
    CALLS["quote"] += 1
    sums: Any = {"EUR": Decimal("12.50")}
    return sums  # type: ignore[no-any-return] # not what it says


@flow
async def quoting(goal: Goal) -> Any:
    return await goal.step(quote)


async def test_a_result_that_does_not_fit_its_annotation_is_stored_and_a_retry_with_other_code_reads_it(
    goals: Goals, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(GoalFailed, match=r"The result of quote cannot be read: .* Paid: order: ") as failed:
        await goals.run(quoting)

    def corrected() -> dict[str, Decimal]:
        return {}

    monkeypatch.setitem(quote.__annotations__, "return", corrected.__annotations__["return"])
    monkeypatch.setattr(quote, "__dict__", {})
    assert (await goals.retry(failed.value.id)).value == {"EUR": "12.50"}
    assert CALLS["quote"] == 1


async def test_a_step_whose_result_cannot_be_none_is_not_skipped_without_a_value(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(charging)
    before = (await goals.state(waiting.value.id)).head.seq
    with pytest.raises(Invalid, match="returns a result that is not null"):
        await goals.decide(waiting.value.id, "skip")
    assert (await goals.state(waiting.value.id)).head.seq == before
