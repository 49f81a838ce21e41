"""Timers of a flow that have fired, as the surfaces show them."""

import asyncio

from perdure import Goal
from perdure.app.wire.calls import call_wire
from perdure.app.wire.next_commands import next_commands
from perdure.kernel.events import MindSpec
from perdure.store.goals.memory_state_store import InMemoryStateStore
from tests.kernel.world import World
from tests.minds.timed_flows import deadline, forever, once, polls
from tests.registered_flows import path_of


async def fails_by_a_deadline(goal: Goal) -> None:
    await once(goal, 1)
    async with asyncio.timeout(0.02):
        await goal.options(effect="pure").step(forever)


async def test_a_fired_timer_is_shown_in_words() -> None:
    shown = {}
    for fn in (deadline, polls):
        store = InMemoryStateStore()
        state = (await World(store, store).start(MindSpec("flow", at=path_of(fn)))).state
        call = call_wire(state, state.calls["/timer:1.1"])
        shown[fn] = call["tool"], call["state"]
    assert shown == {
        deadline: ("timer", "deadline of 0.02 s has passed"),
        polls: ("timer", "slept 0.001 s, 30 times"),
    }


async def test_the_command_that_retries_a_flow_that_a_deadline_ended_names_no_timer() -> None:
    store = InMemoryStateStore()
    state = (await World(store, store).start(MindSpec("flow", at=path_of(fails_by_a_deadline)))).state
    whys = [command.why for command in next_commands(await store.find("goal-a"), state)]
    assert "timer" not in " ".join(whys)
    assert any(why.startswith("Run the flow again") for why in whys)
