"""Values of steps, arguments and results on every store: the same after a resume, or refused when recorded."""

import dataclasses
import enum
from collections import OrderedDict
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, ConfigDict

from perdure import Goal, GoalWaiting, Invalid, flow
from perdure.app.goals.goals import Goals

T = TypeVar("T")
SEEN: list[list[Any]] = []
DAY = date(2026, 11, 16)


class Size(enum.IntEnum):
    LARGE = 2


class Pair(NamedTuple):
    left: Decimal
    right: bytes


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    number: int


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    lives: int


class Page(BaseModel, Generic[T]):
    items: list[T]


@dataclasses.dataclass(frozen=True, slots=True)
class Loose:
    some: Any
    pair: Pair | None = None


def extra() -> Open:
    return Open.model_validate({"number": 1, "more": {"b": 1, "a": [None]}})


def loose() -> Loose:
    return Loose({"z": 1, "a": 2.5}, Pair(Decimal("-0"), b"\xff"))


def union() -> list[Cat | Dog]:
    return [Dog(lives=1), Cat(lives=9)]


def page() -> Page[date]:
    return Page[date](items=[DAY])


def ordered() -> OrderedDict[str, Size]:
    return OrderedDict(z=Size.LARGE, a=Size.LARGE)


def summer() -> datetime:
    return datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))


STEPS: tuple[Callable[[], Any], ...] = (extra, loose, union, page, ordered, summer)


@flow
async def keeping(goal: Goal, dog: Dog | Cat, /, **loose: Loose) -> tuple[Dog | Cat, dict[str, Loose]]:
    SEEN.append([dog, loose, *[await goal.step(fn) for fn in STEPS]])
    await goal.ask("Go on?")
    return dog, loose


async def test_values_are_the_same_before_and_after_a_resume(goals: Goals) -> None:
    SEEN.clear()
    kept = {"z": loose(), "a": Loose([1])}
    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(keeping, Dog(lives=3), **kept)
    await goals.decide(waiting.value.id, "answer", value="yes")
    done = await goals.resume(waiting.value.id)
    assert done.value == (Dog(lives=3), kept)
    first, again = SEEN
    assert repr(first) == repr(again)
    assert first[:-1] == [Dog(lives=3), kept, *[fn() for fn in STEPS[:-1]]]
    assert [type(each) for each in first[2:]] == [type(fn()) for fn in STEPS]
    assert list(first[6]) == ["z", "a"]
    assert first[-1].utcoffset() == summer().utcoffset()


def moment() -> date:
    return datetime(2026, 11, 16)  # noqa: DTZ001 (that is the point)


def tuples() -> Loose:
    return Loose((1, 2))


def extra_date() -> Open:
    return Open.model_validate({"number": 1, "more": DAY})


@pytest.mark.parametrize(
    ("fn", "said"),
    [
        (moment, "datetime.datetime that would come back from the annotation date as a value of type datetime.date"),
        (tuples, "tuple (at .some) that would come back from the annotation Loose as a value of type list"),
        (extra_date, "datetime.date (at .more) that would come back from the annotation Open as a value of type str"),
    ],
)
async def test_a_result_that_would_change_is_unknown_and_says_why(
    goals: Goals, fn: Callable[[], Any], said: str
) -> None:
    @flow(name=f"changing {fn.__name__}")
    async def changing(goal: Goal) -> str:
        return repr(await goal.step(fn))

    with pytest.raises(GoalWaiting) as waiting:
        await goals.run(changing)
    [call] = (await goals.state(waiting.value.id)).open_calls.values()
    assert call.unknown is not None
    assert said in call.unknown.why
    assert "annotate its exact type" in call.unknown.why


async def test_an_argument_that_would_change_starts_nothing(goals: Goals) -> None:
    for run in (goals.run, goals.start):
        with pytest.raises(Invalid, match=r"The argument loose of keeping is a value of type tuple \(at .some\)"):
            await partial(run, keeping)(Cat(lives=1), first=Loose((1,)))
    assert await goals.list() == []
