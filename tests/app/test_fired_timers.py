"""Timers of a flow that have fired, as the surfaces show them."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from perdure import Goal
from perdure.app.wire.calls import call_wire
from perdure.app.wire.next_commands import next_commands
from perdure.kernel.events import MindSpec
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World
from tests.minds.timed_flows import deadline, forever, once
from tests.registered_flows import path_of


async def fails_by_a_deadline(goal: Goal) -> None:
    await once(goal, 1)
    async with asyncio.timeout(0.02):
        await goal.options(effect="pure").step(forever)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ({"deadline": 0, "seconds": 0.02}, "deadline of 0.02 s has passed"),
        ({"sleep": 1, "seconds": 1.5}, "slept 1.5 s"),
        ({"sleep": 0, "seconds": 3.0, "times": 30}, "slept 3 s in 30 sleeps"),
    ],
)
async def test_a_fired_timer_is_shown_in_words(output: dict[str, Any], words: str) -> None:
    store = InMemoryStateStore()
    state = (await World(store, store).start(MindSpec("flow", at=path_of(deadline)))).state
    found = state.calls["/timer:1.1"]
    assert found.outcome is not None
    call = call_wire(state, replace(found, outcome=replace(found.outcome, output=output)))
    assert (call["tool"], call["state"]) == ("timer", words)


async def test_the_command_that_retries_a_flow_that_a_deadline_ended_names_no_timer() -> None:
    store = InMemoryStateStore()
    state = (await World(store, store).start(MindSpec("flow", at=path_of(fails_by_a_deadline)))).state
    whys = [command.why for command in next_commands(await store.find("goal-a"), state)]
    assert "timer" not in " ".join(whys)
    assert any(why.startswith("Run the flow again") for why in whys)
