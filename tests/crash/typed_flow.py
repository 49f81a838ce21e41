"""A flow with values of every type, run by interpreters of their own; annotations are text, as in many programs."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import os
import signal
import sys
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict

from perdure import Goal, Perdure, failpoints, flow

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Model(BaseModel):
    price: Decimal
    names: set[str]


class Size(enum.IntEnum):
    LARGE = 2


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    lives: int


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    number: int


class Page(BaseModel, Generic[T]):
    items: list[T]


@dataclasses.dataclass
class Values:
    at: datetime
    day: date
    wait: timedelta
    price: Decimal
    id: UUID
    path: Path
    colours: frozenset[Colour]
    raw: bytes
    pair: tuple[int, str]
    by_day: dict[date, list[Model]]
    ordered: OrderedDict[str, Size]
    local: datetime
    pet: Cat | Dog
    page: Page[date]
    open: Open
    some: Any


VALUES = Values(
    at=datetime(2026, 11, 16, 1, 2, 3, 4, tzinfo=UTC),
    day=date(2026, 11, 16),
    wait=timedelta(days=-1, microseconds=7),
    price=Decimal("0.10"),
    id=UUID(int=5),
    path=Path("a/b"),
    colours=frozenset({Colour.RED, Colour.BLUE}),
    raw=b"\x00\xff",
    pair=(1, "one"),
    by_day={date(2026, 1, 1): [Model(price=Decimal("1.00"), names={f"name {n}" for n in range(20)})]},
    ordered=OrderedDict(z=Size.LARGE, a=Size.LARGE),
    local=datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")),
    pet=Dog(lives=1),
    page=Page[date](items=[date(2026, 1, 1)]),
    open=Open.model_validate({"number": 1, "more": {"z": [1.5], "a": None}}),
    some={"z": 1, "a": [True]},
)


def passed_on(values: Values, log: Path) -> Values:
    with log.open("a") as file:
        file.write(".")
    return values


def second(values: Values, names: set[str], log: Path) -> list[Values]:
    assert names
    return [passed_on(values, log)]


@flow
async def typed(goal: Goal, values: Values, log: Path) -> dict[str, list[Values]]:
    assert values == VALUES
    assert [type(each) for each in vars(values).values()] == [type(each) for each in vars(VALUES).values()]
    assert list(values.ordered) == ["z", "a"]
    assert isinstance(values.pet, Dog)
    first = await goal.options(effect="idempotent").step(passed_on, values, log)
    names = first.by_day[date(2026, 1, 1)][0].names
    return {"found": await goal.options(effect="idempotent").step(second, first, names, log)}


async def main(home: str, url: str, killed_at: int) -> None:
    """Run the flow, or resume it, under one key; die by SIGKILL at the nth append, unless that is 0."""
    left = killed_at

    def blow() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    async with Perdure.open(home, database_url=url) as p:
        with failpoints.armed("kernel.append.after", blow):
            done = await p.goals.options(key="typed").run(typed, VALUES, Path(home, "log"))
    assert done.value == {"found": [VALUES]}
    print("equal")


if __name__ == "__main__":
    from tests.crash.typed_flow import main as run  # so that the flow is of a module, not of a script

    asyncio.run(run(sys.argv[1], sys.argv[2], int(sys.argv[3])))
