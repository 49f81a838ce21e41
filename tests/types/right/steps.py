"""Steps of every kind of callable, with results of their own types."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar, assert_type, overload

from pydantic import BaseModel

from perdure import Goal, flow

T = TypeVar("T")


@dataclass
class Order:
    number: int
    lines: list[str]


class Receipt(BaseModel):
    total: float


def greet(name: str) -> str:
    return f"Hello {name}"


async def charge(order: Order, *, currency: str = "EUR") -> Receipt:
    await asyncio.sleep(0)
    return Receipt(total=len(order.lines) + len(currency))


def log_all(*lines: str, **labels: int) -> int:
    return len(lines) + len(labels)


def same(value: T) -> T:
    return value


@overload
def double(value: int) -> int: ...
@overload
def double(value: str) -> str: ...
def double(value: int | str) -> int | str:
    return value * 2


class Mailer:
    def __init__(self, sender: str) -> None:
        self.sender: str = sender

    def send(self, to: str) -> bool:
        return to != self.sender

    async def receive(self, count: int) -> list[str]:
        return [self.sender] * count

    @classmethod
    def default(cls, sender: str) -> str:
        return cls(sender).sender

    @staticmethod
    def check(address: str) -> bool:
        return "@" in address


class Counter:
    async def __call__(self, by: int) -> int:
        return by + 1


class Sends(Protocol):
    async def __call__(self, to: str) -> bool: ...


@flow
async def steps(goal: Goal, order: Order) -> float:
    assert_type(await goal.step(greet, "Ada"), str)
    assert_type(await goal.step(greet, name="bob"), str)
    receipt = await goal.step(charge, order, currency="USD")
    assert_type(receipt, Receipt)
    assert_type(await goal.step(log_all, "a", "b", c=1), int)
    assert_type(await goal.step(same, 1.5), float)
    assert_type(await goal.step(double, 2), int)
    return receipt.total


@flow
async def methods(goal: Goal, address: str) -> int:
    mailer = Mailer("ada@example.org")
    assert_type(await goal.step(mailer.send, address), bool)
    assert_type(await goal.step(mailer.receive, 3), list[str])
    assert_type(await goal.step(Mailer.default, address), str)
    assert_type(await goal.step(Mailer.check, address=address), bool)
    assert_type(await goal.step(Counter(), by=1), int)
    assert_type(await goal.step(partial(charge, currency="USD"), Order(1, [])), Receipt)
    assert_type(await goal.options(name="length").step(lambda: len(address)), int)
    return await goal.step(len, address)


@flow
async def protocols(goal: Goal, send: str) -> bool:
    async def sends(to: str) -> bool:
        return to == send

    chosen: Sends = sends
    return await goal.step(chosen, to="x")


@flow
async def nothing(goal: Goal) -> None:
    await goal.step(print, "done")
    await goal.sleep(0.5)
