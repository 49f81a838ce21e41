"""What steps use counts for the limits of their goal, on each kind of store."""

import pytest

from perdure import Goal, GoalWaiting, Invalid, Limits, current_step, flow
from perdure.app.goals import Goals

CALLS: list[int] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def think(number: int) -> int:
    CALLS.append(number)
    current_step().usage(tokens=100, cost_usd=0.5)
    current_step().record(model="m-1")
    return number


@flow
async def thinking(goal: Goal) -> int:
    for number in range(4):
        await goal.step(think, number)
    return 4


@pytest.mark.parametrize(
    ("limits", "done", "raised"),
    [
        (Limits(tokens=250), 3, Limits(tokens=1000)),
        (Limits(tokens=200), 2, Limits(tokens=1000)),
        (Limits(usd=1.2), 3, Limits(usd=10)),
        (Limits(usd=0.5, tokens=300), 1, Limits(usd=10, tokens=1000)),
    ],
)
async def test_a_goal_waits_when_its_steps_have_used_a_limit_up(
    goals: Goals, limits: Limits, done: int, raised: Limits
) -> None:
    with pytest.raises(GoalWaiting) as waits:
        await goals.options(key="think", limits=limits).run(thinking)
    assert (waits.value.waiting_for, waits.value.exit_code) == ("limit", 6)
    assert list(range(done)) == CALLS
    with pytest.raises(GoalWaiting):
        await goals.resume(waits.value.id)
    result = await goals.resume(waits.value.id, limits=raised)
    assert (result.value, CALLS) == (4, [0, 1, 2, 3])
    state = await goals.state(waits.value.id)
    assert (state.used.tokens, state.used.usd) == (400, 2.0)
    outcome = state.calls["/think#0.1"].outcome
    assert outcome is not None
    assert outcome.meta == {"model": "m-1"}
    assert (await goals.replay(waits.value.id)).state.status == "done"


async def test_a_limit_that_is_used_up_already_cannot_be_set(goals: Goals) -> None:
    with pytest.raises(GoalWaiting) as waits:
        await goals.options(limits=Limits(tokens=150)).run(thinking)
    for wrong in (Limits(tokens=200), Limits(tokens=-1), 5):
        with pytest.raises(Invalid):
            await goals.resume(waits.value.id, limits=wrong)  # type: ignore[arg-type]
    assert (await goals.state(waits.value.id)).limits.tokens == 150
