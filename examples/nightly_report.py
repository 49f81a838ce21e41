"""A nightly report that a person approves before it is sent.

    python examples/nightly_report.py 2026-11-15
    perdure goal answer GOAL yes                     # as the script says
    python examples/nightly_report.py 2026-11-15

Kill it wherever you like and start it again: the key makes it the same goal.
"""

import asyncio
import json
import sys
from pathlib import Path

from perdure import Goal, GoalWaiting, Perdure, Retry, flow

OUTBOX = Path("outbox.txt")


def fetch(day: str) -> dict[str, int]:
    """Read the numbers of a day: reading changes nothing, so the step is `pure`."""
    return {"orders": len(day) * 7, "returns": len(day)}


def write_report(day: str, numbers: dict[str, int]) -> str:
    """Write the report: doing it again does the same, so the step is `idempotent`."""
    path = Path(f"report-{day}.json")
    path.write_text(json.dumps(numbers, indent=2), encoding="utf-8")
    return str(path)


def send(report: str) -> None:
    """Send the report: it must not happen twice, so the step is `once`, as steps are unless they say otherwise."""
    with OUTBOX.open("a", encoding="utf-8") as outbox:
        outbox.write(f"{report}\n")


def was_sent(report: str) -> bool:
    """Tell, after a crash, whether the report went out; without this the goal would wait for a person to tell."""
    return OUTBOX.exists() and report in OUTBOX.read_text(encoding="utf-8").splitlines()


@flow
async def nightly(goal: Goal, day: str) -> str:
    numbers = await goal.options(effect="pure", retry=Retry(4, initial=10)).step(fetch, day)
    report = await goal.options(effect="idempotent").step(write_report, day, numbers)
    if await goal.ask(f"Send {report}?", ["yes", "no"]) == "no":
        return f"kept {report}"
    await goal.options(check=was_sent).step(send, report)
    return f"sent {report}"


async def main(day: str) -> None:
    async with Perdure.open() as p:
        try:
            result = await p.goals.options(key=f"nightly-{day}").run(nightly, day)
        except GoalWaiting as waiting:
            print(f"{waiting.id}: waiting")
            print(f"Look at report-{day}.json, then: perdure goal answer {waiting.id} yes")
        else:
            print(f"{result.id}: {result.status}", result.value)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python nightly_report.py DAY, such as 2026-11-15")
    asyncio.run(main(sys.argv[1]))
