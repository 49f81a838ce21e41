"""Flows that servers in child processes run, and a server that runs few goals at once."""

import asyncio
import os
import signal
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path

from perdure import Goal, Perdure, failpoints, flow
from perdure.interfaces.api.server import Address, running

COUNTING, BLOCKED = "tests.crash.flows:counting", "tests.crash.flows:blocked"
STEPS = 4


@flow
async def counting(goal: Goal, folder: str, name: str) -> str:
    """Leave a line in a file for each of some steps."""
    for number in range(STEPS):
        await goal.options(effect="idempotent").step(note, folder, f"{name}-{number}")
    return name


@flow
async def blocked(goal: Goal, folder: str) -> str:
    """Block between two steps, until the test says otherwise."""
    await goal.options(effect="idempotent").step(note, folder, "before")
    if not Path(folder, "go").exists():
        note(folder, "blocks")
        time.sleep(600)  # noqa: ASYNC251 (what is tested)
    return str(await goal.step(note, folder, "after"))


@flow(cleanup=True)
async def cleaning(goal: Goal, folder: str) -> str:
    """Book something, and undo that when the goal is cancelled."""
    await goal.options(effect="idempotent").step(note, folder, "book")
    try:
        return str(await goal.ask("Keep it?"))
    finally:
        await goal.options(effect="idempotent").step(note, folder, "undo")


def note(folder: str, name: str) -> str:
    with Path(folder, name).open("a") as file:
        file.write(".\n")
    return name


async def serve_few(home: Path, most: int, killed_at: tuple[str, int] | None, pipe: Connection) -> None:
    """Serve a home with few places for goals, and die by SIGKILL at the nth hit of a point."""
    left = killed_at[1] if killed_at else 0

    def blow() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with ExitStack() as stack:
        async with Perdure.open(home) as p, running(p, Address(port=0)) as server:
            server.surface.worker.most = most
            if killed_at is not None:
                stack.enter_context(failpoints.armed(killed_at[0], blow))
            pipe.send(server.url)
            await asyncio.Event().wait()
