"""Exceptions of unusual classes: each end of a flow is recorded, with the steps that the history knows."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from perdure.errors import StepFailed
from perdure.kernel.events import ToolError
from perdure.minds.flow.goal import Goal
from tests.kernel.world import World
from tests.minds.test_flow import ended, run


class Delegating(Exception):
    def __getattr__(self, name: str) -> Any:
        return getattr(self.response, name)


class Agreeing(Exception):
    def __getattr__(self, name: str) -> Any:
        return 1


class Closed(Exception):
    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)


class Frozen(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(name)


class Silent(BaseException):
    def __str__(self) -> str:
        raise ValueError("silent")


def _break(_error: object) -> None:
    raise ValueError("broken")


BROKEN = property(_break)
BrokenGroup: Any = type("BrokenGroup", (ExceptionGroup,), {"exceptions": BROKEN})
Lying: Any = type("Lying", (Exception,), {"__class__": BROKEN})


class Name(str):
    __slots__ = ()

    def __getitem__(self, key: Any) -> str:
        raise RuntimeError("name")


class Named(Exception):
    pass


Named.__name__ = Name("Named")


class Misleading(StepFailed):
    """Says that a step failed which is not even a text."""

    @property
    def step(self) -> Any:
        return 5

    @step.setter
    def step(self, value: object) -> None:
        """Leave it."""


class BadlyCoded(StepFailed):
    """Has a code and an error that no event can have."""

    def __init__(self) -> None:
        super().__init__("half \ud800", "no")
        self.error = ToolError("c", "m", args=[object()])


MAKERS: dict[str, Callable[[], BaseException]] = {
    **{each.__name__: lambda each=each: each("x") for each in (Delegating, Agreeing, Closed, Frozen, Silent, Lying)},  # type: ignore[misc]
    "BrokenGroup": lambda: BrokenGroup("g", [ValueError(1)]),
    "Named": lambda: Named("x"),
    "Misleading": lambda: Misleading("c", "m", step="/other#0"),
    "BadlyCoded": BadlyCoded,
}


def throw(kind: str) -> None:
    error = MAKERS[kind]()
    raise error


def fail() -> None:
    raise ValueError("no")


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_flow_that_raises_an_unusual_exception_has_failed(world: World, kind: str) -> None:
    async def raises(goal: Goal) -> None:
        await goal.step(str, "done")
        throw(kind)

    end = ended(await run(world, raises))
    assert (end.reason in ("failed", "fatal_error"), end.steps) == (True, ())


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_gather_knows_its_failed_step_beside_an_unusual_exception(world: World, kind: str) -> None:
    async def raises() -> None:
        throw(kind)

    async def both(goal: Goal) -> None:
        await goal.gather(raises(), goal.step(fail))

    steps = () if kind == "BadlyCoded" else ("g1.1/fail#0",)
    assert ended(await run(world, both)).steps == steps


@pytest.mark.parametrize("kind", MAKERS)
async def test_a_step_that_raises_an_unusual_exception_on_its_thread_has_failed(world: World, kind: str) -> None:
    async def calls(goal: Goal) -> None:
        await goal.step(throw, kind)

    async with asyncio.timeout(20):
        assert ended(await run(world, calls)).steps == ("/throw#0",)


async def test_a_step_failure_that_the_flow_made_itself_names_no_step_of_its_own_choice(world: World) -> None:
    async def raises(goal: Goal) -> None:
        await goal.step(str, "done")
        raise StepFailed("c", "m", step="/str#0")

    end = ended(await run(world, raises))
    assert (end.reason, end.steps) == ("failed", ())
