"""What a flow or a step returns fits its return annotation, or it is not recorded as its result."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import pytest

from perdure import Goal
from perdure.kernel.events import MindSpec
from tests.kernel.world import World
from tests.registered_flows import path_of


class Color(Enum):
    RED = "red"


class Size(IntEnum):
    BIG = 2


def returning(annotation: Any, value: Any) -> Callable[[], Any]:
    def given() -> Any:
        return value

    given.__annotations__["return"] = annotation
    return given


def flow_returning(annotation: Any, value: Any) -> Callable[..., Any]:
    async def given(_goal: Goal) -> Any:
        return value

    given.__annotations__["return"] = annotation
    return given


async def end_of(world: World, flow: Callable[..., Any]) -> Any:
    done = await world.start(MindSpec("flow", at=path_of(flow)))
    assert done.state.termination is not None
    return done.state.termination


UNFIT = [
    (int, "x"),
    (int, 1.5),
    (str, 5),
    (None, 5),
    (type(None), "x"),
    (bool, 1),
    (float, "1.5"),
    (str, None),
]
FIT = [
    (int, 10**12, 10**12),
    (int, True, True),
    (int, Size.BIG, 2),
    (float, 3, 3),
    (str, "äöü", "äöü"),
    (None, None, None),
    (Any, "x", "x"),
    (list[int], [1], [1]),
    (int | str, "x", "x"),
    (Decimal, Decimal("1.5"), "1.5"),
    (Color, Color.RED, "red"),
    (date, date(2026, 11, 15), "2026-11-15"),
]


@pytest.mark.parametrize(("annotation", "value"), [*UNFIT, (Decimal, "abc"), (list[int], ["x"]), (Color, "green")])
async def test_a_flow_whose_result_does_not_fit_fails(world: World, annotation: Any, value: Any) -> None:
    end = await end_of(world, flow_returning(annotation, value))
    assert end.reason == "fatal_error"
    assert "does not fit" in end.detail or "cannot be stored" in end.detail


@pytest.mark.parametrize(("annotation", "value", "stored"), FIT)
async def test_a_flow_whose_result_fits_is_done(world: World, annotation: Any, value: Any, stored: Any) -> None:
    end = await end_of(world, flow_returning(annotation, value))
    assert (end.reason, end.value) == ("done", stored)


@pytest.mark.parametrize(("annotation", "value"), UNFIT)
async def test_a_step_whose_result_does_not_fit_has_failed(world: World, annotation: Any, value: Any) -> None:
    async def one(goal: Goal) -> None:
        await goal.options(effect="idempotent").step(returning(annotation, value))

    end = await end_of(world, one)
    assert end.error.code == "bad_result"
    assert "does not fit its return annotation" in end.detail


async def test_the_result_of_a_once_step_that_does_not_fit_is_unknown(world: World) -> None:
    async def one(goal: Goal) -> None:
        await goal.step(returning(int, "x"))

    done = await world.start(MindSpec("flow", at=path_of(one)))
    assert done.state.waiting_for == "person"
    [call] = done.state.open_calls.values()
    assert call.unknown is not None
    assert "does not fit its return annotation int: it is str" in call.unknown.why


@pytest.mark.parametrize(("annotation", "value", "_stored"), [each for each in FIT if each[1] is not Size.BIG])
async def test_a_step_whose_result_fits_gives_it_back(world: World, annotation: Any, value: Any, _stored: Any) -> None:
    got: list[Any] = []

    async def one(goal: Goal) -> None:
        got.append(await goal.options(effect="pure").step(returning(annotation, value)))

    assert (await end_of(world, one)).reason == "done"
    assert got == [value]
