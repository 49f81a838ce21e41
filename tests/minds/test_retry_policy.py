"""The retry policy of a step: how many attempts, when, after which errors, and until when, over crashes too."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Goal, Invalid, Retry, StepFailed, failpoints
from perdure.kernel.events import MindSpec, Termination, ToolError, ToolOutput
from perdure.kernel.loop import RunResult
from perdure.minds.plan.mind import PlanMind
from perdure.minds.plan.plan_file import parse_plan
from perdure.minds.plan.plan_view import step_statuses
from perdure.minds.retry import KEYS, NO_RETRY, retry_of
from perdure.minds.step_status import status_of_step
from tests.kernel.lives import Died
from tests.kernel.world import World
from tests.minds.history import History
from tests.registered_flows import path_of

CALLS: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


class Temporary(Exception):
    pass


class VeryTemporary(Temporary):
    pass


def fail(kind: str) -> None:
    CALLS["fail"] += 1
    raise {"temporary": VeryTemporary, "value": ValueError, "os": ConnectionError}[kind]("no")


async def run(world: World, fn: Callable[..., Coroutine[Any, Any, Any]]) -> RunResult:
    return await world.start(MindSpec("flow", at=path_of(fn)))


@contextmanager
def dying(point: str, times: int = 1) -> Iterator[None]:
    """Die when a point is reached for the nth time."""
    reached = count(1)

    def die() -> None:
        if next(reached) == times:
            raise Died

    with failpoints.armed(point, die), pytest.raises(Died):
        yield


def began_s(ran: RunResult, step: str) -> list[float]:
    """Return when each attempt of a step began, in seconds after the first."""
    calls = [call for call in ran.state.calls.values() if call.call.step == step]
    return [round((call.began_us - calls[0].began_us) / 1e6, 2) for call in calls]


def end_of(ran: RunResult) -> Termination:
    assert ran.state.termination is not None
    return ran.state.termination


@pytest.mark.parametrize(
    ("retry", "waits"),
    [
        (3, [0, 0]),
        (Retry(4, initial=0.25, factor=2), [0.25, 0.5, 1]),
        (Retry(5, initial=1, factor=3, maximum=5), [1, 3, 5, 5]),
        ({"attempts": 3, "initial": 0.5, "factor": 1}, [0.5, 0.5]),
        (Retry(9, initial=10, factor=1, deadline=25), [10, 10]),
    ],
)
async def test_the_attempts_of_a_flow_begin_when_the_policy_says(world: World, retry: Any, waits: list[float]) -> None:
    async def tries(goal: Goal) -> None:
        await goal.options(retry=retry).step(fail, "value")

    ran = await run(world, tries)
    moments = began_s(ran, "/fail#0")
    assert [after - before for before, after in pairwise(moments)] == pytest.approx(waits, abs=0.02)
    assert (end_of(ran).reason, CALLS["fail"]) == ("failed", len(waits) + 1)


@pytest.mark.parametrize(
    ("kind", "policy", "attempts"),
    [
        ("temporary", {"retry_on": Temporary}, 3),
        ("temporary", {"retry_on": [ValueError]}, 1),
        ("temporary", {"retry_on": "VeryTemporary"}, 3),
        ("temporary", {"give_up_on": Temporary}, 1),
        ("os", {"retry_on": OSError, "give_up_on": (ConnectionError,)}, 1),
        ("os", {"retry_on": (ValueError, OSError)}, 3),
        ("value", {"give_up_on": ["ValueError"]}, 1),
        ("value", {}, 3),
    ],
)
async def test_an_error_is_retried_by_its_class_and_that_is_recorded(
    world: World, kind: str, policy: dict[str, Any], attempts: int
) -> None:
    async def tries(goal: Goal) -> None:
        await goal.options(retry={"attempts": 3, **policy}).step(fail, kind)

    ran = await run(world, tries)
    assert CALLS["fail"] == attempts
    error = end_of(ran).error
    assert error is not None
    assert error.retryable is (attempts > 1)


async def test_a_resume_decides_by_the_record_not_by_the_class(world: World) -> None:
    retry_on: list[Any] = [ValueError]

    async def tries(goal: Goal) -> None:
        await goal.options(retry=Retry(3, initial=3600, retry_on=retry_on)).step(fail, "value")

    with dying("kernel.append.after", times=2):  # the first attempt is recorded, the second is not begun
        await run(world, tries)
    retry_on[:] = ["NoSuchClass"]
    assert end_of(await world.resume()).reason == "failed"
    assert CALLS["fail"] == 2


async def test_a_timeout_is_retried_as_a_timeout_error(world: World) -> None:
    async def slow() -> None:
        CALLS["slow"] += 1
        await asyncio.sleep(60)

    async def tries(goal: Goal) -> list[str]:
        said = []
        for policy in ({"retry_on": ConnectionError}, {"retry_on": "timeout"}, {"retry_on": TimeoutError}):
            options = goal.options(effect="idempotent", timeout_s=0.01, retry={"attempts": 2, **policy})
            try:
                await options.step(slow)
            except TimeoutError as error:
                said.append(f"{CALLS['slow']} {getattr(error.__cause__, 'code', '')}")
        return said

    assert end_of(await run(world, tries)).value == ["1 timeout", "3 timeout", "5 timeout"]


async def test_a_once_step_that_may_have_happened_is_never_retried(world: World) -> None:
    async def slow() -> None:
        CALLS["slow"] += 1
        await asyncio.sleep(60)

    async def tries(goal: Goal) -> None:
        await goal.options(timeout_s=0.01, retry=Retry(5, retry_on=TimeoutError)).step(slow)

    assert end_of(await run(world, tries)).reason == "failed"
    assert CALLS["slow"] == 1


async def test_a_base_exception_of_an_async_step_is_not_retried_by_default(world: World) -> None:
    async def leave() -> None:
        CALLS["leave"] += 1
        raise SystemExit(3)

    async def tries(goal: Goal) -> None:
        await goal.options(retry=3).step(leave)

    assert end_of(await run(world, tries)).reason == "failed"
    assert CALLS["leave"] == 1


@pytest.mark.parametrize(("deadline", "waits"), [(25, [10.0, 10.0, None]), (None, [10.0] * 3)])
async def test_a_failure_says_when_its_step_is_tried_again_and_nothing_after_the_deadline(
    world: World, deadline: float | None, waits: list[float | None]
) -> None:
    async def one(goal: Goal) -> None:
        await goal.options(effect="idempotent", retry=Retry(4, initial=10, factor=1, deadline=deadline)).step(
            fail, "os"
        )

    calls = (await run(world, one)).state.calls.values()
    assert [call.outcome and call.outcome.retry_after_s for call in calls][:3] == waits


async def test_a_deadline_that_passed_while_nothing_ran_allows_no_further_attempt(world: World) -> None:
    async def tries(goal: Goal) -> str:
        try:
            await goal.options(retry=Retry(5, initial=30, factor=1, deadline=100)).step(fail, "os")
        except ConnectionError as error:
            await goal.sleep(1)
            return f"gave up: {error}"
        return ""

    with dying("kernel.append.after", times=2):
        await run(world, tries)
    world.clock.now += 1_000_000_000
    with dying("kernel.append.after", times=2):
        await world.resume()  # it dies again when the end of the step is recorded, and the sleep is begun
    ran = await world.resume()
    assert (end_of(ran).value, CALLS["fail"]) == ("gave up: no", 1)


async def test_a_retried_goal_has_the_whole_policy_again(world: World) -> None:
    async def tries(goal: Goal) -> None:
        await goal.options(retry=Retry(3, initial=10, factor=2, deadline=60)).step(fail, "value")

    assert began_s(await run(world, tries), "/fail#0") == [0, 10, 30]
    world.clock.now += 1_000_000_000
    again = began_s(await world.retry(), "/fail#0")[3:]
    assert [round(moment - again[0]) for moment in again] == [0, 10, 30]
    assert CALLS["fail"] == 6


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"attempts": 0}, "attempts must be a whole number of at least 1, got 0"),
        ({"attempts": 2.0}, "attempts"),
        ({"attempts": True}, "attempts"),
        ({"attempts": 2, "initial": -1}, "initial must be a number from 0"),
        ({"attempts": 2, "initial": math.nan}, "initial"),
        ({"attempts": 2, "initial": math.inf}, "initial"),
        ({"attempts": 2, "initial": "1s"}, "initial"),
        ({"attempts": 2, "factor": 0.5}, "factor must be a number from 1"),
        ({"attempts": 2, "initial": 10, "maximum": 5}, r"initial \(10 s\) is above maximum \(5 s\)"),
        ({"attempts": 2, "jitter": 1.5}, "jitter must be a number from 0 to 1"),
        ({"attempts": 2, "deadline": -1}, "deadline"),
        ({"attempts": 2, "retry_on": 5}, "retry_on must be exception classes or error codes, got 5"),
        ({"attempts": 2, "retry_on": int}, "retry_on"),
        ({"attempts": 2, "retry_on": ()}, "retry_on is empty"),
        ({"attempts": 2, "give_up_on": [""]}, "give_up_on"),
        ({"attempts": 2, "give_up_on": ValueError("late")}, r"give_up_on .* got ValueError\('late'\)"),
        ({"attempts": 2, "retry_on": [ValueError, OSError()]}, r"retry_on .* got OSError\(\)"),
        ({"attempts": 2, "retry_on": [(ValueError, OSError)]}, "retry_on"),
        ({"attempts": 2, "retry_on": {ValueError: 3, 5: 1}}, "retry_on .* got 5"),
        ({"times": 2}, "the unknown key 'times'"),
        ({"initial": 2}, "no attempts"),
        ("3", "expected a number of attempts"),
        (1.5, "expected a number of attempts"),
    ],
)
def test_a_policy_that_is_invalid_is_invalid(given_: Any, said: str) -> None:
    with pytest.raises(Invalid, match=said):
        retry_of(given_)


def test_a_mapping_a_number_and_nothing_are_policies() -> None:
    assert retry_of({"attempts": 2, "initial": 0.5}) == Retry(2, initial=0.5)
    assert (retry_of(4), retry_of(None), retry_of(Retry(3))) == (Retry(4), NO_RETRY, Retry(3))
    assert set(KEYS) == {name for name in Retry.__dataclass_fields__ if name != "_"}


policies = st.builds(
    Retry,
    st.integers(1, 10_000),
    initial=st.floats(0, 1000),
    factor=st.floats(1, 1e9),
    maximum=st.none() | st.floats(1000, 1e6),
    jitter=st.floats(0, 1),
)


@given(policies, st.integers(1, 10_000), st.text())
def test_any_wait_lies_within_its_bounds_and_is_the_same_each_time(retry: Retry, failed: int, key: str) -> None:
    wait_us = retry.wait_us(failed, key)
    assert wait_us == retry.wait_us(failed, key)
    maximum = 3600.0 if retry.maximum is None else retry.maximum
    assert 0 <= wait_us <= maximum * 1e6 + 1
    if failed == 1:
        assert abs(wait_us - retry.initial * 1e6) <= retry.jitter * retry.initial * 1e6 + 1


def test_jitter_spreads_the_waits_of_many_goals() -> None:
    retry = Retry(2, initial=100, jitter=0.5)
    waits = sorted(retry.wait_us(1, f"goal-{number}/pay.1") / 1e6 for number in range(1000))
    assert waits[0] < 55
    assert waits[-1] > 145
    assert 90 < sum(waits) / len(waits) < 110


def test_an_error_of_an_older_record_is_retried_by_its_names() -> None:
    error = ToolError("ValueError", "no", type="builtins:ValueError")
    assert [Retry(2, retry_on=kind).retries_error(error) for kind in (Exception, ValueError, "ValueError")] == [
        True
    ] * 3
    assert not Retry(2, retry_on=OSError).retries_error(error)
    assert not Retry(2, give_up_on="ValueError").retries_error(error)


PLAN = "goal: g\nsteps:\n  - {id: a, exec: [x], effect: idempotent, retry: {RETRY}}\n"


@pytest.mark.parametrize(
    ("retry", "moments"),
    [
        ("attempts: 3, initial: 500ms", [0, 0.5, 1.5]),
        ("attempts: 4, initial: 1.5s, factor: 1", [0, 1.5, 3, 4.5]),
        ("attempts: 4, initial: 10s, factor: 3, maximum: 20s", [0, 10, 30, 50]),
        ("attempts: 9, initial: 10s, factor: 1, deadline: 25s", [0, 10, 20]),
        ("attempts: 3, retry_on: [exit]", [0, 0, 0]),
        ("attempts: 3, retry_on: timeout", [0]),
        ("attempts: 3, give_up_on: [timeout, exit]", [0]),
    ],
)
async def test_a_plan_has_the_same_policy(world: World, retry: str, moments: list[float]) -> None:
    world.tool.fails["a"] = 99
    ran = await world.start(PLAN.replace("RETRY", retry))
    assert [round(moment, 1) for moment in began_s(ran, "a")] == moments
    assert end_of(ran).reason == "failed"


async def test_a_plan_of_an_older_goal_resumes_with_its_former_keys(world: World) -> None:
    world.tool.fails["a"] = 2
    plan = PLAN.replace("RETRY", "times: 3, wait: 10s")

    with dying("kernel.effect.after"):
        await world.start(plan)
    ran = await world.resume()
    assert end_of(ran).reason == "done"
    assert [round(moment) for moment in began_s(ran, "a")] == [0, 10]


async def test_a_plan_makes_no_attempt_after_a_deadline_that_passed_while_nothing_ran(world: World) -> None:
    world.tool.fails["a"] = 99
    plan = PLAN.replace("RETRY", "attempts: 9, initial: 30s, deadline: 100s")
    plan += "  - {id: undo, exec: [x], needs: [a], if: {step: a, is: failed}, effect: idempotent}\n"

    with dying("kernel.append.after", times=2):
        await world.start(plan)
    world.clock.now += 1_000_000_000
    with dying("kernel.effect.before"):
        await world.resume()
    world.clock.now -= 2_000_000_000  # the clock is set back: what was given up stays given up
    ran = await world.resume()
    assert end_of(ran).reason == "failed"
    assert {name: found.status for name, found in step_statuses(ran.state).items()} == {"a": "failed", "undo": "done"}
    assert world.tool.effects == {"a": 1, "undo": 1}


async def test_a_policy_with_jitter_shows_the_moment_at_which_it_tries(world: World) -> None:
    async def tries(goal: Goal) -> None:
        await goal.options(retry=Retry(2, initial=100, jitter=0.5)).step(fail, "value")

    ran = await run(world, tries)
    first = ran.state.calls["/fail#0.1"]
    wait_s = Retry(2, initial=100, jitter=0.5).wait_us(1, "goal-a//fail#0.1") / 1e6
    assert abs(began_s(ran, "/fail#0")[1] - wait_s) < 0.1
    assert status_of_step(ran.state, "/fail#0", Retry(2)).last is not first


async def test_a_flow_may_still_ask_what_was_recorded(world: World) -> None:
    async def tries(goal: Goal) -> list[str]:
        try:
            await goal.step(fail, "value")
        except ValueError as error:
            cause = error.__cause__
            if isinstance(cause, StepFailed):
                return [cause.code, str(cause.step), cause.error.type]
        return []

    assert end_of(await run(world, tries)).value == ["ValueError", "/fail#0", "builtins:ValueError"]


def test_the_deadline_of_a_pure_step_counts_from_its_start_not_from_its_record() -> None:
    history = History(PlanMind(parse_plan("goal: g\nsteps: [{id: a, exec: x}]", "p")))
    error = ToolError("ValueError", "no")
    outcome = ToolOutput("/s#0.1", ok=False, error=error, duration_ms=10_000, step="/s#0", digest="d", effect="pure")
    history.add(outcome)
    policies = [Retry(3, initial=1, deadline=deadline) for deadline in (5, 20)]
    assert [status_of_step(history.state, "/s#0", retry).status for retry in policies] == ["failed", "retry"]
