"""A journey booked in three places, and undone in the opposite order when one of them fails.

    python examples/saga.py Lisbon            # all three are booked
    python examples/saga.py Nowhere           # the last fails, so the others are given back

Kill it wherever you like, in the middle of undoing too, and start it again: the key makes it the same goal.
"""

import asyncio
import sys
from pathlib import Path

from perdure import Goal, Perdure, Retry, flow

LEDGER = Path("ledger.txt")


def note(line: str) -> None:
    """Write down what happened; the ledger stands for three companies that each keep one."""
    with LEDGER.open("a", encoding="utf-8") as ledger:
        ledger.write(f"{line}\n")


def is_noted(line: str) -> bool:
    return LEDGER.exists() and line in LEDGER.read_text(encoding="utf-8").splitlines()


def book(what: str, place: str) -> None:
    """Book something, or find that there is none."""
    if (what, place) == ("car", "Nowhere"):
        raise LookupError(f"there is no {what} in {place}")
    note(f"book {what} {place}")


def was_booked(what: str, place: str) -> bool:
    return is_noted(f"book {what} {place}")


def give_back(what: str, place: str) -> None:
    note(f"undo {what} {place}")


def was_given_back(what: str, place: str) -> bool:
    return is_noted(f"undo {what} {place}")


@flow
async def journey(goal: Goal, place: str) -> str:
    booked: list[str] = []
    try:
        for what in ("flight", "hotel", "car"):
            await goal.options(check=was_booked).step(book, what, place)
            booked.append(what)
    except LookupError as error:
        for what in reversed(booked):
            await goal.options(check=was_given_back, retry=Retry(6, initial=10)).step(give_back, what, place)
        return f"undone, because {error.args[0]}"
    return f"booked {', '.join(booked)}"


async def main(place: str) -> None:
    async with Perdure.open() as p:
        result = await p.goals.options(key=f"journey-{place}").run(journey, place)
        print(f"{result.id}: {result.status}", result.value)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python saga.py PLACE, such as Lisbon")
    asyncio.run(main(sys.argv[1]))
