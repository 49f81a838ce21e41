"""A `once` step that had its effect and raised all the same: its check is asked before anything is repeated."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from perdure import Goal, Happened, Retry, current_step, failpoints
from perdure.app.wire.calls import call_wire, state_of
from perdure.kernel.fold import GoalState
from perdure.kernel.history.reopening import plan_retry
from tests.kernel.lives import Died
from tests.kernel.world import World
from tests.minds.cleanup_life import FlowFunction
from tests.minds.test_flow import ended, run
from tests.minds.test_retry import decide


@dataclass
class Bank:
    """Takes money, and loses the reply of the first charges; or does neither."""

    charges: list[str] = field(default_factory=list)
    lost: int = 1
    is_charging: bool = True
    asked: list[str] = field(default_factory=list)

    def charge(self) -> str:
        if self.is_charging:
            self.charges.append(current_step().idempotency_key)
        if self.lost:
            self.lost -= 1
            raise ConnectionError("the reply was lost")
        return f"receipt {len(self.charges)}"


BANK = Bank()


@pytest.fixture(autouse=True)
def open_bank() -> None:
    vars(BANK).update(vars(Bank()))


def charge() -> str:
    return BANK.charge()


async def charge_async() -> str:
    await asyncio.sleep(0)
    return BANK.charge()


def charge_silently() -> None:
    BANK.charge()


def charge_perhaps() -> str | None:
    return BANK.charge()


def charge_untyped():  # type: ignore[no-untyped-def]
    return BANK.charge()


def was_charged() -> bool:
    BANK.asked.append(current_step().idempotency_key)
    return current_step().idempotency_key in BANK.charges


async def receipt_of() -> Happened[str] | bool:
    return Happened("receipt 7") if was_charged() else False


def knows_nothing() -> None:
    was_charged()


def is_broken() -> bool:
    was_charged()
    raise RuntimeError("the bank is closed")


async def leaves() -> bool:
    was_charged()
    raise SystemExit(3)


async def cancels_itself() -> bool:
    was_charged()
    raise asyncio.CancelledError


def cannot_be_stored() -> Happened[Any]:
    was_charged()
    return Happened(object())


CHARGES = [charge, charge_async]
UNKNOWING = [knows_nothing, is_broken, leaves, cancels_itself, cannot_be_stored]


def named(each: object) -> str:
    return getattr(each, "__name__", str(each))


def paying(fn: Callable[..., Any], check: Callable[..., Any] | None, retry: Retry | int = 3) -> FlowFunction:
    async def pays(goal: Goal) -> Any:
        return await goal.options(check=check, retry=retry, id="pay").step(fn)

    return pays


def call_of(state: GoalState, attempt: int = 1) -> Any:
    return state.calls[f"/@pay.{attempt}"]


@pytest.mark.parametrize("fn", CHARGES, ids=named)
async def test_a_charge_whose_reply_was_lost_is_done_when_its_check_says_so(world: World, fn: Any) -> None:
    ran = await run(world, paying(fn, receipt_of))
    assert (ended(ran).reason, ended(ran).value) == ("done", "receipt 7")
    assert len(BANK.charges) == 1
    assert BANK.asked == BANK.charges
    assert state_of(call_of(ran.state)) == "done, says its check"


@pytest.mark.parametrize("fn", [charge_silently, charge_perhaps, charge_untyped], ids=named)
async def test_a_charge_that_may_return_none_is_done_without_a_result(world: World, fn: Any) -> None:
    ran = await run(world, paying(fn, was_charged))
    assert (ended(ran).reason, ended(ran).value, len(BANK.charges)) == ("done", None, 1)


@pytest.mark.parametrize("fn", CHARGES, ids=named)
async def test_a_charge_whose_result_its_check_does_not_give_waits_for_a_decision(world: World, fn: Any) -> None:
    ran = await run(world, paying(fn, was_charged))
    said = call_of(ran.state).unknown.why
    assert said.startswith("The step raised ConnectionError: the reply was lost")
    assert "its check says that it happened, but not with which result" in said
    assert (await world.resume()).state.waiting_for == "person"
    await decide(world, "/@pay.1", "skip", "receipt 9")
    assert ended(await world.resume()).value == "receipt 9"
    assert len(BANK.charges) == 1


@pytest.mark.parametrize("fn", CHARGES, ids=named)
async def test_a_charge_that_did_not_happen_is_retried_by_its_policy(world: World, fn: Any) -> None:
    BANK.is_charging = False
    BANK.lost = 2
    ran = await run(world, paying(fn, was_charged))
    assert ended(ran).value == "receipt 0"
    assert list(ran.state.calls) == ["/@pay.1", "/@pay.2", "/@pay.3"]
    assert [call_of(ran.state, attempt).outcome.happened for attempt in (1, 2, 3)] == ["no", "no", None]
    assert len(set(BANK.asked)) == 2


@pytest.mark.parametrize("fn", CHARGES, ids=named)
@pytest.mark.parametrize("check", UNKNOWING, ids=named)
async def test_a_charge_that_nothing_is_known_of_is_not_repeated(world: World, fn: Any, check: Any) -> None:
    ran = await run(world, paying(fn, check))
    call = call_of(ran.state)
    assert ended(ran).reason == "failed"
    assert "the reply was lost" in (ended(ran).detail or "")
    assert len(BANK.charges) == len(BANK.asked) == len(ran.state.calls) == 1
    assert (call.outcome.happened, call.outcome.error.retryable) == ("unknown", False)
    assert state_of(call) == "failed, effect unknown"
    assert call_wire(ran.state, call)["happened"] == "unknown"


@pytest.mark.parametrize(("verdict", "value", "charges"), [("skip", "receipt 9", 1), ("retry", "receipt 2", 2)])
async def test_a_retry_of_the_goal_waits_for_a_decision_about_it(
    world: World, verdict: str, value: str, charges: int
) -> None:
    state = (await run(world, paying(charge, knows_nothing))).state
    assert plan_retry(state, by="person").unknown == ("/@pay.1",)
    assert (await world.retry()).state.waiting_for == "person"
    assert len(BANK.charges) == 1
    await decide(world, "/@pay.1", verdict, "receipt 9" if verdict == "skip" else None)
    assert ended(await world.resume()).value == value
    assert len(BANK.charges) == charges


async def test_a_retry_of_the_goal_repeats_what_did_not_happen(world: World) -> None:
    BANK.is_charging = False
    state = (await run(world, paying(charge, was_charged, retry=1))).state
    assert state.status == "failed"
    assert plan_retry(state, by="person").again == ("/@pay.1",)
    BANK.is_charging = True
    assert ended(await world.retry()).value == "receipt 1"
    assert len(BANK.charges) == 1


async def test_without_a_check_the_retry_policy_is_the_word_of_its_author(world: World) -> None:
    ran = await run(world, paying(charge, None))
    assert ended(ran).value == "receipt 2"
    assert call_of(ran.state).outcome.happened is None


@pytest.mark.parametrize("effect", ["pure", "idempotent"])
async def test_a_step_that_may_be_repeated_is_not_checked(world: World, effect: Any) -> None:
    async def pays(goal: Goal) -> Any:
        return await goal.options(effect=effect, check=was_charged, retry=2).step(charge)

    assert ended(await run(world, pays)).value == "receipt 2"
    assert BANK.asked == []


async def test_a_function_that_no_thread_could_be_started_for_is_not_checked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start
    refused: list[str] = []

    def no_step_at_first(thread: threading.Thread) -> None:
        if thread.name == "perdure-step" and not refused:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", no_step_at_first)
    BANK.lost = 0
    ran = await run(world, paying(charge, was_charged))
    assert (ended(ran).value, list(ran.state.calls)) == ("receipt 1", ["/@pay.1", "/@pay.2"])
    assert BANK.asked == []


async def test_an_exception_that_the_flow_catches_is_the_steps_own_at_every_replay(world: World) -> None:
    seen: list[str] = []

    async def catches(goal: Goal) -> None:
        try:
            await goal.options(check=knows_nothing, retry=3).step(charge)
        except ConnectionError as error:
            seen.append(str(error))
        await goal.ask("Continue?")

    await run(world, catches)
    await world.resume()
    assert seen == ["the reply was lost"] * 2
    assert len(BANK.charges) == len(BANK.asked) == 1


def asking(fn: Callable[..., Any], check: Callable[..., Any]) -> FlowFunction:
    """Make a flow that is not at its end when the outcome of its step is recorded."""

    async def pays_and_asks(goal: Goal) -> Any:
        try:
            paid = await goal.options(check=check, retry=3, id="pay").step(fn)
        except ConnectionError as error:
            paid = str(error)
        return [paid, await goal.ask("Continue?")]

    return pays_and_asks


@pytest.mark.parametrize("fn", CHARGES, ids=named)
@pytest.mark.parametrize(
    ("check", "value"), [(receipt_of, "receipt 7"), (knows_nothing, "the reply was lost")], ids=named
)
async def test_a_death_after_the_record_repeats_neither_the_charge_nor_the_question(
    world: World, fn: Any, check: Any, value: str
) -> None:
    await died(world, "kernel.append.after", asking(fn, check))
    await world.resume()
    await decide(world, "/ask#0.1", "answer", "yes")
    assert ended(await world.resume()).value == [value, "yes"]
    assert len(BANK.charges) == len(BANK.asked) == 1


@pytest.mark.parametrize("fn", CHARGES, ids=named)
async def test_a_death_before_the_record_asks_the_check_again(world: World, fn: Any) -> None:
    await died(world, "kernel.append.before", paying(fn, receipt_of))
    assert ended(await world.resume()).value == "receipt 7"
    assert (len(BANK.charges), len(BANK.asked)) == (1, 2)


async def died(world: World, point: str, flow: FlowFunction) -> None:
    """Run a flow that dies at a point of the append with the outcome of its step: the second one."""
    hits = 0

    def die() -> None:
        nonlocal hits
        hits += 1
        if hits == 2:
            raise Died

    with failpoints.armed(point, die), pytest.raises(Died):
        await run(world, flow)
    assert len(BANK.charges) == len(BANK.asked) == 1
