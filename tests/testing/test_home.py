"""The home of a test: its clock, its replaced functions and its crashes, on both databases."""

import asyncio
import functools
import logging
import threading
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import perdure.testing
from perdure import Conflict, Goal, GoalFailed, GoalWaiting, Invalid, Retry, Unavailable, flow
from perdure.testing import TemporaryHome
from tests.app.serving import until

START = datetime(2026, 11, 16, 8, 0, tzinfo=UTC)
DAY_S = 24 * 3600
CALLS: list[str] = []
GATES: dict[str, asyncio.Event] = {}


@pytest.fixture(autouse=True)
def empty() -> None:
    CALLS.clear()
    GATES.clear()


@pytest.fixture
async def p(own_url: str) -> AsyncIterator[TemporaryHome]:
    async with perdure.testing.home(database_url=own_url, now=START) as p:
        yield p


def note(text: str) -> str:
    CALLS.append(text)
    return text


async def failing(text: str) -> str:
    CALLS.append(text)
    raise ConnectionError(text)


async def failing_first(text: str) -> str:
    CALLS.append(text)
    if len(CALLS) == 1:
        raise ConnectionError(text)
    return text


async def blocked(name: str) -> str:
    CALLS.append(name)
    await GATES.setdefault(name, asyncio.Event()).wait()
    return name


def never() -> str:
    raise AssertionError("the real function was called")


@flow
async def reminding(goal: Goal, order: str) -> str:
    await goal.sleep(DAY_S)
    await goal.step(note, f"reminder of {order}")
    try:
        answer = await goal.ask("Confirm?", ["yes", "no"], timeout_s=DAY_S)
    except TimeoutError:
        return await goal.step(note, "given up")
    return await goal.step(note, f"confirmed: {answer}")


@flow
async def ticking(goal: Goal, times: int, seconds: float) -> list[str]:
    found = []
    for number in range(times):
        await goal.sleep(seconds)
        found.append(await goal.step(note, f"tick {number}"))
    return found


@flow
async def two_lines(goal: Goal) -> list[str]:
    async def line(name: str, seconds: float) -> str:
        await goal.sleep(seconds)
        await goal.step(note, f"{name} 1")
        await goal.sleep(seconds)
        return await goal.step(note, f"{name} 2")

    return list(await goal.gather(line("slow", 30), line("quick", 20)))


@flow
async def retrying(goal: Goal) -> str:
    return await goal.options(effect="idempotent", retry=Retry(3, initial=600, factor=1)).step(failing, "tried")


@flow
async def limited(goal: Goal, timeout_s: float) -> str:
    try:
        return await goal.options(effect="idempotent", timeout_s=timeout_s).step(blocked, "limited")
    except Exception as error:  # noqa: BLE001 (which class is another test's)
        return await goal.step(note, type(error).__name__)


@flow
async def in_time(goal: Goal, seconds: float) -> str:
    limit = goal.timeout(seconds)
    try:
        async with limit:
            return str(await goal.signal("paid"))
    except TimeoutError:
        return "late" if limit.has_passed else "another timeout"


@flow
async def waiting_long(goal: Goal, kind: str) -> str:
    waited = goal.signal("paid", timeout_s=DAY_S) if kind == "signal" else None
    try:
        return str(await (waited or goal.ask("Confirm?", ["yes", "no"], timeout_s=DAY_S)))
    except TimeoutError:
        await goal.sleep(7 * DAY_S)
        return "late"


@flow
async def continuing(goal: Goal, kind: str, follows: str) -> str:
    async def news() -> str:
        if kind == "block":
            async with goal.timeout(30):
                return str(await goal.signal("paid"))
        waited = goal.ask("Approve?", timeout_s=30) if kind == "ask" else goal.signal("paid", timeout_s=30)
        return str(await waited)

    try:
        found = await news()
    except TimeoutError:
        return "late"
    if follows == "sleep":
        await goal.sleep(20)
        return await goal.step(note, found)
    patient = goal.options(effect="idempotent", retry=Retry(2, initial=20))
    return await patient.step(failing_first, found)


@flow
async def awaiting_child(goal: Goal) -> str:
    async with goal.timeout(30):
        found = await goal.child(signalled)
    await goal.sleep(20)
    return await goal.step(note, found)


@flow
async def signalled(goal: Goal) -> str:
    try:
        return str(await goal.signal("paid", timeout_s=60))
    except TimeoutError:
        return "late"


@flow
async def blocking(goal: Goal) -> str:
    await goal.step(note, "before")
    await goal.options(effect="idempotent").step(blocked, "gate")
    return await goal.step(note, "after")


@flow
async def charging_once(goal: Goal) -> str:
    return await goal.step(blocked, "charge")


@flow
async def own_sleep(goal: Goal) -> str:
    await asyncio.sleep(0.15)
    return await goal.step(note, "slept")


@flow
async def telling_time(goal: Goal) -> list[datetime]:
    before = goal.now()
    await goal.sleep(DAY_S)
    return [before, goal.now()]


@flow
async def shipping(goal: Goal, order: str) -> str:
    await goal.sleep(DAY_S)
    return await goal.step(note, f"shipped {order}")


@flow
async def selling(goal: Goal) -> list[str]:
    return await goal.gather(*(goal.child(shipping, order) for order in ("A-1", "A-2")))


@flow
async def calling_never(goal: Goal) -> str:
    return await goal.step(never)


async def test_a_day_passes_at_once_and_the_answer_is_taken(p: TemporaryHome) -> None:
    handle = await p.goals.start(reminding, "A-1")
    await p.clock.advance(DAY_S - 1)
    assert CALLS == []
    await p.clock.advance(1)
    assert CALLS == ["reminder of A-1"]
    await p.goals.decide(handle.id, "answer", value="yes")
    await p.clock.advance(0)
    assert (await handle.result(timeout_s=5)).value == "confirmed: yes"
    assert p.clock.now == START + timedelta(days=1)


async def test_a_question_that_is_not_answered_times_out_in_the_same_advance(p: TemporaryHome) -> None:
    handle = await p.goals.start(reminding, "A-1")
    await p.clock.advance(3 * DAY_S)
    assert (await handle.result(timeout_s=5)).value == "given up"
    last = (await p.goals.history(handle.id))[-1]
    given_up = datetime.fromtimestamp(last.timestamp_us / 1e6, UTC)
    assert given_up == START + timedelta(days=2), "its question came after a day, and nobody has answered for another"


async def test_the_clock_stands_still_without_an_advance(p: TemporaryHome) -> None:
    handle = await p.goals.start(ticking, 1, 0.01)
    with pytest.raises(TimeoutError):
        await handle.result(timeout_s=0.3)
    assert CALLS == []
    await p.clock.advance(0.01)
    assert (await handle.result(timeout_s=5)).value == ["tick 0"]


@pytest.mark.parametrize("seconds", [7, 100], ids=["held", "parked"])
async def test_sleeps_that_begin_on_the_way_pass_too(p: TemporaryHome, seconds: float) -> None:
    handle = await p.goals.start(ticking, 5, seconds)
    await p.clock.advance(3.5 * seconds)
    assert CALLS == ["tick 0", "tick 1", "tick 2"]
    await p.clock.advance(1.5 * seconds)
    assert (await handle.result(timeout_s=5)).value == [f"tick {number}" for number in range(5)]


async def test_moments_come_in_their_order(p: TemporaryHome) -> None:
    handle = await p.goals.start(two_lines)
    await p.clock.advance(60)
    assert (await handle.result(timeout_s=5)).value == ["slow 2", "quick 2"]
    assert CALLS == ["quick 1", "slow 1", "quick 2", "slow 2"]


async def test_waits_of_retries_pass(p: TemporaryHome) -> None:
    handle = await p.goals.options(on_failed="return").start(retrying)
    await p.clock.advance(0)
    assert CALLS == ["tried"]
    await p.clock.advance(600)
    assert CALLS == ["tried"] * 2
    await p.clock.advance(600)
    assert CALLS == ["tried"] * 3
    assert (await handle.result(timeout_s=5)).status == "failed"


async def test_the_timeout_of_a_step_that_runs_passes(own_url: str) -> None:
    async with perdure.testing.home(database_url=own_url, patience_s=0.2) as p:
        handle = await p.goals.start(limited, 3600.0)
        await p.clock.advance(3599)
        assert CALLS == ["limited"]
        await p.clock.advance(1)
        assert len(CALLS) == 2
        assert (await handle.result(timeout_s=5)).status == "done"


async def test_a_deadline_and_the_timeout_of_a_signal_pass(p: TemporaryHome) -> None:
    deadline, signal = await p.goals.start(in_time, 3600.0), await p.goals.start(signalled)
    paid = await p.goals.start(in_time, 3600.0)
    await p.clock.advance(30)
    await p.goals.signal(paid.id, "paid", "yes")
    await p.clock.advance(3570)
    assert [(await handle.result(timeout_s=5)).value for handle in (deadline, signal, paid)] == ["late", "late", "yes"]


async def give(p: TemporaryHome, goal_id: str, kind: str) -> None:
    if kind == "ask":
        await p.goals.decide(goal_id, "answer", value="yes")
    else:
        await p.goals.signal(goal_id, "paid", "yes")


@pytest.mark.parametrize("follows", ["sleep", "retry"])
@pytest.mark.parametrize("kind", ["ask", "signal", "block"])
async def test_news_are_taken_before_the_clock_moves_also_by_a_goal_that_stays(
    p: TemporaryHome, kind: str, follows: str
) -> None:
    handle = await p.goals.start(continuing, kind, follows)
    await p.clock.advance(10)
    await give(p, handle.id, kind)
    await p.clock.advance(10)
    await p.clock.advance(10)
    assert len(CALLS) == (1 if follows == "sleep" else 2)
    assert (await handle.result(timeout_s=5)).value == "yes"
    last = (await p.goals.history(handle.id))[-1]
    assert datetime.fromtimestamp(last.timestamp_us / 1e6, UTC) == START + timedelta(seconds=30)


@pytest.mark.parametrize("how", ["settle", "advance"])
async def test_news_are_taken_without_time_passing(p: TemporaryHome, how: str) -> None:
    handles = {kind: await p.goals.start(continuing, kind, "sleep") for kind in ("ask", "signal", "block")}
    await p.clock.advance(0)
    for kind, handle in handles.items():
        await give(p, handle.id, kind)
    await (p.settle() if how == "settle" else p.clock.advance(0))
    states = [await p.goals.state(handle.id) for handle in handles.values()]
    assert [list(state.open_calls) for state in states] == [["/sleep#0.1"]] * 3
    await p.clock.advance(20)
    assert [(await handle.result(timeout_s=5)).value for handle in handles.values()] == ["yes"] * 3


async def test_the_end_of_a_child_is_taken_before_the_clock_moves(p: TemporaryHome) -> None:
    handle = await p.goals.start(awaiting_child)
    await p.clock.advance(10)
    (child,) = await p.goals.children_of(handle.id)
    await p.goals.signal(child.id, "paid", "yes")
    await p.clock.advance(10)
    await p.clock.advance(10)
    assert (await handle.result(timeout_s=5)).value == "yes"


async def test_a_step_that_runs_long_does_not_hold_the_clock_for_ever(own_url: str) -> None:
    async with perdure.testing.home(database_url=own_url, patience_s=0.2) as p:
        handle, ticks = await p.goals.start(blocking), await p.goals.start(ticking, 3, 60)
        began_s = asyncio.get_running_loop().time()
        await p.clock.advance(180)
        assert (await ticks.result(timeout_s=5)).status == "done"
        assert asyncio.get_running_loop().time() - began_s < 4, "its patience is lost once, not at each moment"
        GATES["gate"].set()
        assert (await handle.result(timeout_s=5)).value == "after"


async def test_work_of_a_flow_that_is_not_recorded_is_waited_for(p: TemporaryHome) -> None:
    handle = await p.goals.start(own_sleep)
    await p.clock.advance(0)
    assert CALLS == ["slept"]
    assert (await handle.result(timeout_s=5)).value == "slept"


@flow
async def failing_then_ticking(goal: Goal) -> list[str]:
    await goal.options(effect="idempotent").step(failing_first, "first")
    return await ticking.fn(goal, 2, 5)


async def test_a_call_that_waits_for_the_clock_raises_and_the_goal_continues_in_the_background(own_url: str) -> None:
    async with perdure.testing.home(database_url=own_url, now=START, patience_s=0.2) as p:
        handle = await p.goals.start(failing_then_ticking)
        await p.clock.advance(0)
        for call in (p.goals.retry(handle.id), p.goals.resume(handle.id), p.goals.run(retrying)):
            with pytest.raises(Unavailable, match=r"waits for the clock of this home.*create_task\(p\.goals\."):
                await call
        await p.clock.advance(30)
        assert (await p.goals.get(handle.id)).status == "done"


async def test_a_retry_in_a_task_ends_when_the_clock_is_advanced(p: TemporaryHome) -> None:
    handle = await p.goals.start(failing_then_ticking)
    await p.clock.advance(0)
    call = asyncio.create_task(p.goals.retry(handle.id))
    await p.clock.advance(10)
    assert (await call).value == ["tick 0", "tick 1"]


async def test_a_call_that_is_cancelled_interrupts_its_goal(p: TemporaryHome) -> None:
    call = asyncio.create_task(p.goals.run(ticking, 1, 30))
    await p.clock.advance(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await p.clock.advance(60)
    assert [goal.status for goal in await p.goals.list()] == ["done"]


async def test_what_waits_says_until_when(p: TemporaryHome) -> None:
    with pytest.raises(GoalWaiting) as signal:
        await p.goals.run(waiting_long, "signal")
    assert "waits for a signal: paid, until 2026-11-17 08:00:00 UTC." in str(signal.value)
    with pytest.raises(GoalWaiting) as question:
        await p.goals.run(waiting_long, "question")
    said = str(question.value)
    assert "waits for a person: 'Confirm?' (yes, no), until 2026-11-17 08:00:00 UTC." in said
    assert "asks: Confirm? (yes, no), until 2026-11-17 08:00:00 UTC" in said
    await p.clock.advance(2 * DAY_S)
    with pytest.raises(Conflict, match="timed out at 2026-11-17 08:00:00 UTC"):
        await p.goals.decide(question.value.id, "answer", value="yes")


async def test_a_run_that_parks_is_resumed_when_it_is_due(p: TemporaryHome) -> None:
    with pytest.raises(GoalWaiting) as waiting:
        await p.goals.options(key="a").run(ticking, 1, DAY_S)
    assert waiting.value.due_at == START + timedelta(days=1)
    await p.clock.advance(DAY_S)
    assert CALLS == ["tick 0"]
    assert (await p.goals.options(key="a").run(ticking, 1, DAY_S)).value == ["tick 0"]


async def test_a_flow_reports_the_time_of_the_clock(p: TemporaryHome) -> None:
    handle = await p.goals.start(telling_time)
    await p.clock.advance(DAY_S)
    assert (await handle.result(timeout_s=5)).value == [START, START + timedelta(days=1)]


async def test_children_live_by_the_same_clock(p: TemporaryHome) -> None:
    handle = await p.goals.start(selling)
    await p.clock.advance(DAY_S - 1)
    assert CALLS == []
    await p.clock.advance(1)
    assert (await handle.result(timeout_s=5)).value == ["shipped A-1", "shipped A-2"]


async def test_children_survive_a_crash(p: TemporaryHome) -> None:
    handle = await p.goals.start(selling)
    await p.clock.advance(10)
    await p.crash()
    await p.clock.advance(DAY_S)
    assert (await p.goals.get(handle.id)).status == "done"
    assert sorted(CALLS) == ["shipped A-1", "shipped A-2"]


async def test_a_lease_outlives_a_day_of_the_clock(p: TemporaryHome) -> None:
    handle = await p.goals.start(ticking, 1, 50)
    await p.clock.advance(49)
    await asyncio.gather(*(p.clock.advance(0.1) for _ in range(5)))
    assert (await p.goals.get(handle.id)).is_running
    await p.clock.advance(DAY_S)
    assert (await handle.result(timeout_s=5)).status == "done"


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "1", True, None])
async def test_what_is_not_a_time_is_invalid(p: TemporaryHome, seconds: float) -> None:
    with pytest.raises(Invalid, match="Invalid seconds: expected a number of at least 0"):
        await p.clock.advance(seconds)
    assert p.clock.now == START


@pytest.mark.parametrize("seconds", [1e18, 1e300, 10**400, 300_000_000_000], ids=["1e18", "1e300", "10**400", "3e11"])
async def test_a_time_that_no_calendar_has_is_invalid(p: TemporaryHome, seconds: float) -> None:
    with pytest.raises(Invalid, match="the year 9999 ends in"):
        await p.clock.advance(seconds)
    assert p.clock.now == START


async def test_the_clock_can_be_advanced_by_centuries(p: TemporaryHome) -> None:
    handle = await p.goals.start(ticking, 1, 50)
    await p.clock.advance(7000 * 365 * DAY_S)
    assert (await handle.result(timeout_s=5)).status == "done"


@flow
async def dozing(goal: Goal) -> None:
    await goal.options(effect="idempotent").step(time.sleep, 0.7)


@flow
async def stuck_for_ever(goal: Goal) -> None:
    await goal.options(effect="idempotent").step(asyncio.Event().wait)


async def test_a_crash_logs_no_warning(own_url: str, caplog: pytest.LogCaptureFixture) -> None:
    async with perdure.testing.home(database_url=own_url, patience_s=0.1) as p:
        for what in (dozing, stuck_for_ever):
            await p.goals.start(what)
        sleeping = await p.goals.start(ticking, 1, 50)
        awaited = asyncio.create_task(p.goals.run(stuck_for_ever))
        await p.clock.advance(1)
        await p.crash()
        with pytest.raises(Unavailable, match="was ended with all runs of this process"):
            await awaited
        await p.clock.advance(DAY_S)
        assert (await p.goals.get(sleeping.id)).status == "done"
        for goal in await p.goals.list(flow="stuck_for_ever", status="open"):
            await p.goals.cancel(goal.id)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_start_without_a_time_zone_is_invalid() -> None:
    with pytest.raises(Invalid, match="time zone"):
        async with perdure.testing.home(now=datetime(2026, 11, 16)):  # noqa: DTZ001
            pass


async def test_the_home_is_removed_and_no_setting_of_the_user_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PERDURE_DATABASE_URL", str(tmp_path / "production.db"))
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path / "production"))
    async with perdure.testing.home() as p:
        assert (await p.goals.run(own_sleep)).value == "slept"
        assert p.settings.home.is_dir()
    assert not p.settings.home.exists()
    assert list(tmp_path.iterdir()) == []


class Mailer:
    def __init__(self, sender: str) -> None:
        self.sender = sender

    def send(self, to: str) -> str:
        raise AssertionError(f"{self.sender} has sent to {to}")

    @classmethod
    def greet(cls, to: str) -> str:
        raise AssertionError(f"{cls} has greeted {to}")


class Bank:
    async def __call__(self, cents: int) -> int:
        raise AssertionError(f"{cents} were charged")


ADA, BOB, BANK = Mailer("ada"), Mailer("bob"), Bank()


@flow
async def mailing(goal: Goal) -> list[str]:
    return [
        await goal.step(ADA.send, "eve"),
        await goal.step(BOB.send, to="eve"),
        await goal.step(functools.partial(BOB.send), "zoe"),
        await goal.step(Mailer.greet, "eve"),
        str(await goal.step(BANK, 5)),
    ]


async def steps_of(p: TemporaryHome, goal_id: str) -> list[str]:
    return [call.call.step for call in (await p.goals.state(goal_id)).calls.values()]


async def test_functions_and_methods_are_replaced(p: TemporaryHome) -> None:
    async def fake_bank(cents: int) -> int:
        await asyncio.sleep(0)
        return cents + 1

    p.replace(Mailer.send, lambda mailer, to: f"{mailer.sender} to {to}")
    p.replace(ADA.send, lambda to: f"only ada to {to}")
    p.replace(Mailer.greet, lambda to: f"greeted {to}")
    p.replace(BANK, fake_bank)
    result = await p.goals.run(mailing)
    assert result.value == ["only ada to eve", "bob to eve", "bob to zoe", "greeted eve", "6"]
    assert await steps_of(p, result.id) == ["/send#0", "/send#1", "/partial#0", "/greet#0", "/Bank#0"]


async def test_a_replacement_ends_with_its_block_and_the_newest_counts(p: TemporaryHome) -> None:
    with p.replace(never, lambda: "first"), p.replace(never, lambda: "second"):
        result = await p.goals.run(calling_never)
        assert result.value == "second"
    with pytest.raises(GoalFailed, match="the real function was called"):
        await p.goals.run(calling_never)
    assert await steps_of(p, result.id) == ["/never#0"]


@pytest.mark.parametrize(("fn", "fake"), [(never, "text"), (None, never)])
async def test_only_a_function_is_replaced_by_a_function(p: TemporaryHome, fn: object, fake: object) -> None:
    with pytest.raises(Invalid, match="Expected a function"):
        p.replace(fn, fake)  # type: ignore[arg-type]


async def begun(name: str) -> None:
    """Wait until a step blocks."""
    await until(lambda: name in GATES)


async def test_after_a_crash_the_goal_continues_where_it_was(p: TemporaryHome) -> None:
    handle = await p.goals.options(key="k").start(blocking)
    await begun("gate")
    p.replace(blocked, note)
    await p.crash()
    again = await p.goals.options(key="k").start(blocking)
    assert again.id == handle.id
    assert (await again.result(timeout_s=5)).value == "after"
    assert CALLS == ["before", "gate", "gate", "after"]
    with pytest.raises(Unavailable):
        await handle.result(timeout_s=1)


async def test_a_crash_leaves_a_once_step_unknown(p: TemporaryHome) -> None:
    run = asyncio.create_task(p.goals.run(charging_once))
    await begun("charge")
    before = p.goals
    await p.crash()
    with pytest.raises(Unavailable):
        await run
    (goal,) = await p.goals.list()
    assert (goal.status, goal.summary.waiting_for) == ("waiting", "person")
    types = [event.type for event in await p.goals.history(goal.id)]
    assert types[-1] == "outcome_unknown"
    assert CALLS == ["charge"]
    assert p.goals is not before
    await p.goals.decide(goal.id, "retry")
    GATES["charge"].set()
    await p.clock.advance(0)
    assert (await p.goals.get(goal.id)).status == "done"


async def test_a_crash_counts_as_a_death_of_the_worker(p: TemporaryHome) -> None:
    handle = await p.goals.start(charging_once)
    await begun("charge")
    await p.crash()
    assert (await p.goals.get(handle.id)).summary.deaths == 1


async def test_sleeping_goals_survive_a_crash(p: TemporaryHome) -> None:
    held, parked = await p.goals.start(ticking, 1, 30), await p.goals.start(ticking, 1, 3000)
    await p.clock.advance(10)
    await p.crash()
    await p.clock.advance(20)
    assert (await p.goals.get(held.id)).status == "done"
    assert (await p.goals.get(parked.id)).status == "waiting"
    await p.clock.advance(2970)
    assert (await p.goals.get(parked.id)).status == "done"
    assert CALLS == ["tick 0", "tick 0"]


async def test_replaced_functions_stay_replaced_after_a_crash(p: TemporaryHome) -> None:
    p.replace(never, lambda: "fake")
    await p.crash()
    assert (await p.goals.run(calling_never)).value == "fake"


async def test_nothing_of_a_crashed_run_is_recorded(p: TemporaryHome) -> None:
    ended = threading.Event()

    @flow(name="unwinding")
    async def unwinding(goal: Goal) -> None:
        try:
            await goal.options(effect="idempotent").step(blocked, "gate")
        finally:
            ended.set()
            await goal.step(note, "cleanup")

    handle = await p.goals.start(unwinding)
    await begun("gate")
    length = len(await p.goals.history(handle.id))
    p.replace(blocked, never)
    await p.crash()
    assert ended.is_set()
    history = await p.goals.history(handle.id)
    assert history[length].type != "tool_output", "the old life has recorded its end"
    assert CALLS.count("cleanup") == 1, "that of the new life, whose step failed"
