"""A nightly report that a person approves before it is sent.

    python examples/nightly_report.py 2026-11-15
    perdure goal answer GOAL yes          # as the script says
    python examples/nightly_report.py 2026-11-15

Kill it wherever you like and start it again: the key makes it the same goal.
"""

import asyncio
import json
import sys
from pathlib import Path

from perdure import Goal, Perdure, flow

OUTBOX = Path("outbox")


def fetch(day: str) -> dict[str, int]:
    """Read the numbers of a day. Reading twice does no harm."""
    return {"orders": len(day) * 7, "returns": len(day)}


def write_report(day: str, numbers: dict[str, int]) -> str:
    """Write the report; writing it again writes the same."""
    path = Path(f"report-{day}.json")
    path.write_text(json.dumps(numbers, indent=2), encoding="utf-8")
    return str(path)


def send(report: str) -> str:
    """Send the report, which must not happen twice."""
    OUTBOX.mkdir(exist_ok=True)
    with (OUTBOX / report).open("a", encoding="utf-8") as letter:
        letter.write("sent\n")
    return f"sent {report}"


def was_sent(report: str) -> bool:
    """Tell, after a crash, whether the report went out."""
    return (OUTBOX / report).exists()


@flow
async def nightly(goal: Goal, day: str) -> str:
    numbers = await goal.step(fetch, day, effect="pure", retry=3)
    report = await goal.step(write_report, day, numbers, effect="idempotent")
    if await goal.ask(f"Send {report}?", ["yes", "no"]) == "no":
        return "kept"
    return str(await goal.step(send, report, check=was_sent))


async def main(day: str) -> None:
    async with Perdure.open() as p:
        result = await p.goals.run(nightly, day, key=f"nightly-{day}")
        print(f"{result.id}: {result.status}", result.value or "")
        if result.status == "waiting":
            print(f"Answer it: perdure goal answer {result.id} yes|no")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
