"""Names of steps that do not depend on the order of the code: `goal.options(id=…)`."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from perdure import Conflict, Invalid
from perdure.kernel.events import MindSpec
from perdure.kernel.fold import fold
from perdure.kernel.history.step_names import named_step, short_name
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from tests.kernel.world import World
from tests.registered_flows import path_of

Code = Callable[[Goal], Coroutine[Any, Any, Any]]


def echo(value: Any) -> Any:
    return value


def step(goal: Goal, name: str, value: Any = None) -> Any:
    return goal.options(id=name, effect="idempotent").step(echo, value)


async def charge_then_mail(goal: Goal) -> Any:
    done = [await step(goal, "charge", 5), await step(goal, "mail", "bob")]
    return [*done, await goal.ask("Done?")]


async def mail_then_charge(goal: Goal) -> Any:
    mailed, charged = await step(goal, "mail", "bob"), await step(goal, "charge", 5)
    return [charged, mailed, await goal.ask("Done?")]


async def unnamed_first(goal: Goal) -> Any:
    first = await goal.options(effect="idempotent").step(echo, 1)
    return [first, await step(goal, "charge", 5), await step(goal, "mail", "bob"), await goal.ask("Done?")]


async def unnamed_between(goal: Goal) -> Any:
    charged, first = await step(goal, "charge", 5), await goal.options(effect="idempotent").step(echo, 1)
    return [first, charged, await step(goal, "mail", "bob"), await goal.ask("Done?")]


async def other_arguments(goal: Goal) -> Any:
    await step(goal, "charge", 6)
    await step(goal, "mail", "bob")
    await goal.ask("Done?")


async def parked(world: World, code: Code) -> Flow[[], Any]:
    made = Flow(code)
    assert (await world.start(MindSpec("flow", at=made.path))).state.waiting_for == "person"
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (charge_then_mail, mail_then_charge),
        (mail_then_charge, charge_then_mail),
        (unnamed_first, unnamed_between),
        (unnamed_between, unnamed_first),
    ],
)
async def test_steps_with_ids_may_change_their_order(world: World, before: Code, after: Code) -> None:
    made = await parked(world, before)
    recorded = (await world.store.find("goal-a")).last_seq
    made.fn = after
    ran = await world.resume()
    assert (ran.state.waiting_for, ran.state.head.seq) == ("person", recorded)
    await world.store.post("goal-a", "decision", {"call_id": "/ask#0.1", "decision": "answer", "value": "yes"}, key="k")
    ended = (await world.resume()).state.termination
    assert ended is not None
    assert ended.value[-1] == "yes"
    assert 5 in ended.value
    assert "bob" in ended.value


async def test_a_step_with_an_id_that_gets_other_arguments_is_a_changed_flow(world: World) -> None:
    made = await parked(world, charge_then_mail)
    made.fn = other_arguments
    with pytest.raises(Conflict, match=r"step /@charge; .* other arguments.*--before charge$"):
        await world.resume()


async def test_a_step_with_an_id_that_is_gone_is_a_changed_flow(world: World) -> None:
    async def without_mail(goal: Goal) -> None:
        await step(goal, "charge", 5)
        await goal.ask("Done?")

    made = await parked(world, charge_then_mail)
    made.fn = without_mail
    with pytest.raises(Conflict, match="is step /@mail; "):
        await world.resume()


async def test_a_step_with_an_id_that_is_never_asked_for_is_found_at_the_end_at_the_latest(world: World) -> None:
    async def only_mail(goal: Goal) -> None:
        await step(goal, "post", "bob")

    made = await parked(world, charge_then_mail)
    charged = named_step(fold(await world.store.load("goal-a")), "charge").calls[0].ended_seq
    assert charged is not None
    await world.fork(charged)
    made.fn = only_mail
    for recorded in ("post", "end"):
        with pytest.raises(Conflict, match="is step /@charge; "):
            await world.resume("goal-f")
        state = fold(await world.store.load("goal-f"))
        assert state.termination is None, recorded
        assert state.calls["/@post.1"].outcome is not None


async def test_an_id_is_unique_in_a_goal(world: World) -> None:
    async def twice(goal: Goal) -> None:
        await step(goal, "charge")
        with pytest.raises(Invalid, match="'charge' was used twice"):
            await step(goal, "charge")
        await goal.gather(step(goal, "charge"), step(goal, "mail"))

    ran = await world.start(MindSpec("flow", at=path_of(twice)))
    assert ran.state.termination is not None
    assert ran.state.termination.reason == "fatal_error", "an id is unique in the goal, not only in its branch"
    assert "'charge' was used twice" in (ran.state.termination.detail or "")


async def test_attempts_of_a_step_with_an_id_are_numbered(world: World) -> None:
    tries = []

    def fails_once() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("no luck")
        return "fine"

    async def retries(goal: Goal) -> str:
        return await goal.options(id="charge", effect="idempotent", retry=2).step(fails_once)

    ran = await world.start(MindSpec("flow", at=path_of(retries)))
    assert [*ran.state.calls] == ["/@charge.1", "/@charge.2"]
    assert ran.state.termination is not None
    assert ran.state.termination.value == "fine"


async def test_a_step_with_an_id_is_known_by_it(world: World) -> None:
    made = await parked(world, charge_then_mail)
    state = fold(await world.store.load("goal-a"))
    assert short_name(state, "/@charge") == "charge"
    for name in ("charge", "@charge", "/@charge"):
        assert named_step(state, name).step == "/@charge"
    first = named_step(state, "mail").calls[0].seq
    await world.fork(first - 1)
    made.fn = mail_then_charge
    ran = await world.resume("goal-f")
    assert sorted(call.call.step for call in ran.state.calls.values()) == ["/@charge", "/@mail", "/ask#0"]


@pytest.mark.parametrize("name", ["", "a/b", "a#1", "@x", 5])
async def test_what_cannot_be_an_id_is_invalid(world: World, name: Any) -> None:
    async def asks(goal: Goal) -> None:
        with pytest.raises(Invalid):
            await step(goal, name)

    assert (await world.start(MindSpec("flow", at=path_of(asks)))).state.status == "done"
