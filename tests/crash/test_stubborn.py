"""Flows whose code blocks the event loop, or does not let itself be ended: they keep nobody from ending."""

import os
import signal
from pathlib import Path

import pytest

from tests import children
from tests.crash import program
from tests.crash.goals import open_goals

FLOWS = """
import asyncio
import sys
import threading
import time

from perdure import flow


def tell():
    print("it is so", file=sys.stderr, flush=True)


async def swallow():
    tell()
    while True:
        try:
            await asyncio.Event().wait()
        except BaseException:
            pass


@flow
async def blocks_the_loop(goal):
    await goal.step(int)
    tell()
    time.sleep(1000)


@flow
async def has_a_step_that_swallows(goal):
    await goal.step(swallow)


@flow
async def swallows_itself(goal):
    await goal.step(int)
    await swallow()


@flow
async def waits_for_a_thread(goal):
    await goal.step(int)
    tell()
    await asyncio.to_thread(time.sleep, 1000)


@flow
async def leaves_a_task_behind(goal):
    await goal.step(int)
    goal.task = asyncio.create_task(swallow())
    await asyncio.sleep(0)
    return "done"


@flow
async def leaves_a_thread_behind(goal):
    await goal.step(int)
    threading.Thread(target=time.sleep, args=(1000,)).start()
    tell()
    return "done"
"""
TOLD = "it is so"
ENDING = "Stopping after the running step"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "flows.py").write_text(FLOWS)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["blocks_the_loop", "has_a_step_that_swallows", "swallows_itself", "waits_for_a_thread"]
)
async def test_the_second_signal_ends_at_once_whatever_the_code_does(folder: Path, name: str) -> None:
    home = folder / "home"
    started = program.start(home, folder, ["run", "--flow", f"flows:{name}"])
    started.wait_for(TOLD)
    assert started.process.pid is not None
    os.kill(started.process.pid, signal.SIGTERM)
    started.wait_for(ENDING)
    os.kill(started.process.pid, signal.SIGTERM)
    code, said = started.end()
    assert code == 130
    assert "Traceback" not in said
    assert "Task was destroyed" not in said
    async with open_goals(home, str(home / "perdure.db")) as goals:
        (goal,) = await goals.list()
    assert goal.status == "interrupted"
    assert f"perdure goal resume {goal.summary.goal_id}" in said


@pytest.mark.parametrize("name", ["leaves_a_task_behind", "leaves_a_thread_behind"])
def test_what_a_flow_leaves_behind_does_not_keep_the_process(folder: Path, name: str) -> None:
    code, said = program.run(folder / "home", folder, "run", "--flow", f"flows:{name}")
    assert (code, "Traceback" in said) == (0, False)
    assert ": done" in said


SCRIPT = """
import asyncio
from functools import partial
from perdure import Perdure, flow
from perdure.app.workers import run_context

run_context.RunContext = partial(run_context.RunContext, end_within_s=0.1)

begun = asyncio.Event()

async def swallow():
    begun.set()
    while True:
        try:
            await asyncio.sleep(3600)
        except BaseException:
            pass

@flow
async def stuck(goal):
    await goal.step(swallow)

async def main():
    async with Perdure.open() as p:
        running = asyncio.create_task(p.goals.run(stuck))
        await begun.wait()
        running.cancel()
        await asyncio.wait([running])
    print("closed")

asyncio.run(main())
"""


def test_a_script_ends_though_a_step_of_its_flow_does_not() -> None:
    """It swallows also what is thrown into it when it is freed, where there is no event loop any more."""
    assert children.python(SCRIPT) == "closed\n"
