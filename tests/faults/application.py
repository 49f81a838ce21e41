"""An application that runs random flows, in a process that is killed, and what must be true of it afterwards."""

import asyncio
import os
import signal
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from perdure import Conflict, GoalFailed, GoalWaiting, Perdure, failpoints
from perdure.app.goals.goals import Goals
from perdure.app.goals.handle import GoalHandle
from perdure.kernel.fold import GoalState
from perdure.kernel.ports import Owned
from tests.faults.checks import require_intact, require_promised_effects
from tests.faults.flows import random_flow
from tests.faults.generator import program_of
from tests.faults.outside import outside_of
from tests.faults.person import post_for
from tests.faults.programs import expected

APP = "faults"
_LOOK_AGAIN_S = 0.03
_MOST_S = 45.0
_MOST_GOALS = 1_000
_MOST_RETRIES = 10


async def run_flows(home: Path, url: str, folder: str, seeds: range, killed_at: tuple[str, int] | None) -> None:
    """Run the flows of seeds to their ends, or be killed by SIGKILL at the nth hit of a point."""
    with ExitStack() as stack:
        if killed_at is not None:
            stack.enter_context(failpoints.armed(killed_at[0], _Kill(killed_at[1])))
        async with Perdure.open(home, database_url=url, app=APP, recover=True) as p:
            handles = [await p.goals.options(key=f"seed-{seed}").start(random_flow, seed, folder) for seed in seeds]
            person = asyncio.create_task(_help(p.goals, folder))
            try:
                await asyncio.gather(*(_finish(p.goals, handle, folder) for handle in handles))
            finally:
                person.cancel()


async def run_flows_and_say_so(home: Path, url: str, folder: str, seeds: range, pipe: Connection) -> None:
    """Run the flows of seeds; say that they are about to begin."""
    pipe.send("begins")
    await run_flows(home, url, folder, seeds, None)


async def _finish(goals: Goals, handle: GoalHandle[Any], folder: str) -> None:
    """Wait for the end of a flow; one that has failed is retried when what made it fail is mended."""
    why: object = None
    for _ in range(_MOST_RETRIES):
        try:
            await handle.result(timeout_s=_MOST_S)
        except GoalFailed as failed:
            why = failed
            state = await goals.state(handle.id)
            outside_of(_seed_of(state), folder).note_retries(len(state.reopenings) + 1)
        else:
            return
        with suppress(GoalFailed, GoalWaiting, Owned):  # again; for the person; the run that has failed still ends
            await goals.retry(handle.id)
    raise AssertionError(f"{handle.id} fails again and again: {why}")


class _Kill:
    """Kills this process at the nth hit."""

    def __init__(self, nth: int) -> None:
        self._nth = nth

    def __call__(self) -> None:
        self._nth -= 1
        if self._nth == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def _help(goals: Goals, folder: str) -> None:
    """Be the person beside the goals: answer, send signals, and settle what is unknown."""
    while True:
        for goal in await goals.list(limit=_MOST_GOALS):
            if not goal.is_final:
                await _help_goal(goals, await goals.state(goal.id), folder)
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _help_goal(goals: Goals, state: GoalState, folder: str) -> None:
    outside = outside_of(_seed_of(state), folder)
    for name, call in state.open_calls.items():
        post = post_for(call, outside)
        with suppress(Conflict):  # it was settled meanwhile
            match post:
                case "signal", {"name": str(signalled), "payload": payload}:
                    await goals.signal(state.goal_id, signalled, payload, key=f"{state.goal_id}/{name}")
                case "decision", {"decision": str(decision), "value": value}:
                    await goals.decide(state.goal_id, decision, call_id=name, value=value)


def _seed_of(state: GoalState) -> int:
    """Return the seed of a goal: it is among the arguments of its flow."""
    arguments = (state.begun.mind.args or {})["args"]
    return next(each for each in arguments if isinstance(each, int))


async def require_promised(goals: Goals, seeds: range, folder: str) -> None:
    """Check the results, the histories and the effects of the flows of seeds.

    Raises: AssertionError, with the seed and the program.
    """
    states = [await goals.state(goal.id) for goal in await goals.list(limit=_MOST_GOALS)]
    for state in states:
        await _require_promised(goals, state, folder)
    assert {_seed_of(state) for state in states} >= set(seeds)


async def _require_promised(goals: Goals, state: GoalState, folder: str) -> None:
    seed = _seed_of(state)
    program, has_model = program_of(seed)
    try:
        require_intact(await goals.history(state.goal_id), (await goals.get(state.goal_id)).summary)
        require_promised_effects(state, outside_of(seed, folder))
        if state.begun.parent is None:
            assert state.termination is not None
            assert state.termination.reason == "done", state.termination
            assert not has_model or state.termination.value == expected(program), "not the result of the model"
    except BaseException as error:
        error.add_note(f"seed {seed}, program:\n{program!r}")
        raise
