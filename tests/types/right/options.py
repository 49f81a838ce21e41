# pyright: reportAny=false, reportUnusedParameter=false
"""Options come before the function and its arguments, so no option has the name of an argument."""

from typing import Any, assert_type

from perdure import Effect, Goal, flow


def publish(name: str, effect: str, *, id: int, timeout_s: float) -> str:  # noqa: A002
    return f"{name} {effect} {id} {timeout_s}"


def was_published(name: str, effect: str, *, id: int, timeout_s: float) -> bool:  # noqa: A002, ARG001
    return True


@flow(name="publishing", cleanup=True)
async def publishing(goal: Goal, name: str, effect: Effect = "once") -> str:
    options = goal.options(effect=effect, name="publish", id="x", timeout_s=5, check=was_published)
    text = await options.step(publish, name, effect="loud", id=3, timeout_s=0.5)
    assert_type(text, str)
    assert_type(await goal.ask("Publish?", ["yes", "no"], timeout_s=60), str)
    answer: Any = await goal.ask("Which name?")
    payload: object = await goal.signal("paid", timeout_s=60)
    async with goal.timeout(30) as limit:
        await goal.sleep(10)
    assert_type(limit.has_passed, bool)
    return f"{text} {answer} {payload}"
