"""What somebody's own code did wrong is told with its line, the first time and ever after."""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from perdure import Conflict
from perdure.kernel.events import MindSpec
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.registry import find_flow
from perdure.minds.flow.steps.tracebacks import shown
from tests.kernel.world import World
from tests.minds.test_flow import bodies, ended, run
from tests.registered_flows import path_of


def fails() -> None:
    raise ValueError("no luck")


def fails_inside_a_library() -> None:
    json.loads("{")


def line_of(fn: Callable[..., Any], text: str) -> str:
    """Name the line of a function that has a text, as a mistake there is told."""
    lines, first = inspect.getsourcelines(fn)
    number = next(number for number, line in enumerate(lines, first) if text in line)
    return f"({shown(__file__)}, line {number})"


async def test_an_error_of_the_flow_names_its_line(world: World) -> None:
    async def broken(goal: Goal) -> None:
        await goal.step(len, "a")
        undefined_name  # type: ignore[name-defined] # noqa: B018, F821 (the mistake)

    said = f"NameError: name 'undefined_name' is not defined {line_of(broken, 'undefined_name')}"
    end = ended(await run(world, broken))
    assert (end.reason, end.detail) == ("fatal_error", said)


async def test_an_error_of_a_step_names_its_line_and_a_replay_says_the_same(world: World) -> None:
    said: list[str] = []

    async def catches(goal: Goal) -> None:
        try:
            await goal.step(fails)
        except ValueError as error:
            said.append(getattr(error.__cause__, "detail", ""))
        await goal.ask("Go on?")

    await run(world, catches)
    await world.resume()
    assert said == [f"no luck {line_of(fails, 'raise')}"] * 2


async def test_an_error_inside_a_library_names_the_line_that_called_it(world: World) -> None:
    async def broken(goal: Goal) -> None:
        await goal.step(fails_inside_a_library)

    assert str(ended(await run(world, broken)).detail).endswith(line_of(fails_inside_a_library, "json.loads"))


async def test_what_we_refuse_names_the_line_that_asked_for_it(world: World) -> None:
    async def sleeps(goal: Goal) -> None:
        await goal.sleep(-1)

    assert str(ended(await run(world, sleeps)).detail).endswith(line_of(sleeps, "sleep(-1)"))


async def test_the_log_has_the_whole_traceback(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def broken(goal: Goal) -> None:
        await goal.step(fails)

    with caplog.at_level(logging.INFO, "perdure"):
        await run(world, broken)
    assert 'raise ValueError("no luck")' in caplog.text


async def test_the_log_can_keep_a_traceback_whatever_the_exception_says(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(_goal: Goal) -> None:
        raise ValueError("caf\udce9")

    with caplog.at_level(logging.INFO, "perdure"):
        await run(world, broken)
    assert "ValueError: caf\\udce9" in caplog.text
    assert caplog.text.encode()


async def test_changed_code_that_fails_before_a_recorded_step_says_how(world: World) -> None:
    async def asks(goal: Goal) -> None:
        await goal.ask("Go on?")

    async def broken(_goal: Goal) -> None:
        await asyncio.sleep(0)
        raise KeyError("x")

    path = path_of(asks)
    await world.start(MindSpec("flow", at=path))
    before = await bodies(world)
    find_flow(path).fn = broken
    with pytest.raises(Conflict) as refused:
        await world.resume()
    assert f"ended before it (KeyError: 'x' {line_of(broken, 'raise')})" in refused.value.detail
    assert await bodies(world) == before
