"""A journey booked in three places, and undone in the opposite order when one of them fails.

python examples/saga.py Lisbon            # all three are booked
python examples/saga.py Nowhere           # the last fails, so the others are given back
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from perdure import Goal, Perdure, StepFailed, flow

LEDGER = Path("ledger.txt")


def note(line: str) -> None:
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def has(line: str) -> bool:
    return LEDGER.exists() and line in LEDGER.read_text(encoding="utf-8").splitlines()


def book(what: str, place: str) -> str:
    """Book something, or find that there is none."""
    if (what, place) == ("car", "Nowhere"):
        raise LookupError(f"there is no {what} in {place}")
    note(f"book {what} {place}")
    return f"{what} in {place}"


def give_back(what: str, place: str) -> None:
    note(f"undo {what} {place}")


def happened(verb: str) -> Callable[[str, str], bool]:
    """Make a check that looks a line up in the ledger."""
    return lambda what, place: has(f"{verb} {what} {place}")


@flow
async def journey(goal: Goal, place: str) -> str:
    booked: list[str] = []
    try:
        for what in ("flight", "hotel", "car"):
            await goal.step(book, what, place, check=happened("book"))
            booked.append(what)
    except StepFailed as error:
        for what in reversed(booked):
            await goal.step(give_back, what, place, check=happened("undo"))
        return f"undone, because {error.detail}"
    return f"booked {', '.join(booked)}"


async def main(place: str) -> None:
    async with Perdure.open() as p:
        result = await p.goals.run(journey, place, key=f"journey-{place}")
        print(f"{result.id}: {result.status}", result.value)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
