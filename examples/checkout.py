"""A checkout: reserve every item side by side, wait for an approval with a deadline, charge, ship in a child goal.

    python examples/checkout.py               # starts it: an order above 100 waits for an approval
    perdure goal list                         # shows what it waits for
    perdure goal answer GOAL yes              # within a day
    python examples/checkout.py               # the same key: resumes the same goal

Kill it wherever you like and run it again: each reservation, charge and parcel is there once.
"""

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from perdure import Goal, GoalWaiting, Happened, Perdure, Retry, current_step, flow

LEDGER = Path("ledger.txt").absolute()
DAY_S = 24 * 3600


@dataclass(frozen=True)
class Item:
    """What is sold."""

    name: str
    price: Decimal


@dataclass(frozen=True)
class Order:
    """What a customer buys."""

    id: str
    items: tuple[Item, ...]

    @property
    def total(self) -> Decimal:
        return sum((item.price for item in self.items), Decimal(0))


@dataclass(frozen=True)
class Receipt:
    """What a customer gets."""

    order: str
    paid: Decimal
    parcel: str


def note(line: str) -> None:
    """Write down what happened; the ledger stands for the bank, the warehouse and the carrier."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def is_noted(line: str) -> bool:
    return LEDGER.exists() and line in LEDGER.read_text(encoding="utf-8").splitlines()


async def reserve(order: str, item: Item) -> str:
    """Reserve an item; the warehouse takes a key, which all attempts share, so a repeated call changes nothing."""
    line = f"reserve {current_step().step_key} {order} {item.name}"
    if not is_noted(line):
        note(line)
    return f"{order}/{item.name}"


async def charge(order: str, amount: Decimal) -> Decimal:
    """Take the money. It is async, so that a cancelled flow ends it; a thread would finish it behind its back."""
    note(f"charge {order} {amount}")
    return amount


def was_charged(order: str, amount: Decimal) -> Happened[Decimal] | bool:
    """Tell, after a crash, whether the money was taken, and how much: what `charge` would have returned."""
    return Happened(amount) if is_noted(f"charge {order} {amount}") else False


def release(order: str) -> None:
    if not is_noted(f"release {order}"):
        note(f"release {order}")


def send_parcel(order: str) -> str:
    note(f"parcel {order}")
    return f"parcel-{order}"


def was_sent(order: str) -> Happened[str] | bool:
    return Happened(f"parcel-{order}") if is_noted(f"parcel {order}") else False


@flow
async def ship(goal: Goal, order: str, pause_s: float) -> str:
    """Send a parcel some time after the order was paid."""
    await goal.sleep(pause_s)
    return await goal.options(check=was_sent).step(send_parcel, order)


async def is_approved(goal: Goal, order: Order) -> bool:
    """Ask a person about a large order; no answer within a day is a no."""
    if order.total <= 100:
        return True
    try:
        return await goal.ask(f"Approve {order.total} for {order.id}?", ["yes", "no"], timeout_s=DAY_S) == "yes"
    except TimeoutError:
        return False


@flow
async def checkout(goal: Goal, order: Order, pause_s: float = 0.1) -> Receipt | None:
    patient = Retry(3, initial=0.5, factor=2)
    async with asyncio.TaskGroup() as group:
        for item in order.items:
            group.create_task(goal.options(effect="idempotent", retry=patient).step(reserve, order.id, item))
    if not await is_approved(goal, order):
        await goal.options(effect="idempotent").step(release, order.id)
        return None
    paid = await goal.options(check=was_charged).step(charge, order.id, order.total)
    parcel = await goal.child(ship, order.id, pause_s)
    return Receipt(order.id, paid, parcel)


async def main() -> None:
    order = Order("17", (Item("lamp", Decimal("99.90")), Item("bulb", Decimal("4.50"))))
    async with Perdure.open() as p:
        try:
            result = await p.goals.options(key=f"checkout-{order.id}").run(checkout, order)
            print(result.value)
        except GoalWaiting as waiting:
            print(waiting)


if __name__ == "__main__":
    asyncio.run(main())
