"""A fork starts children again, so what they have done is never repeated without notice, on each kind of store."""

from typing import Any

import pytest

from perdure import Conflict, Goal, GoalCancelled, GoalFailed, GoalWaiting, flow
from perdure.app.goals.arguments.run_options import Reopening
from perdure.app.goals.goals import Goals
from perdure.app.goals.updates.child_effects import read_child_effects
from perdure.kernel.history.repetition import done_after
from perdure.minds.flow.flow import Flow

CALLS: list[str] = []


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


def act(word: str) -> str:
    CALLS.append(word)
    return word


def send() -> Any:
    """Send a parcel; the first time, nothing can be stored of that."""
    CALLS.append("send")
    return "sent" if CALLS.count("send") > 1 else object()


def break_off(word: str) -> str:
    CALLS.append(word)
    raise ValueError(f"{word} is broken")


@flow
async def ship(goal: Goal) -> str:
    return str(await goal.step(send))


@flow
async def order(goal: Goal) -> str:
    await goal.options(effect="pure", name="price").step(act, "price")
    return await goal.child(ship)


@flow
async def wholesale(goal: Goal) -> str:
    return await goal.child(order)


@flow
async def approve(goal: Goal) -> str:
    await goal.options(name="note").step(act, "note")
    return str(await goal.ask("Ship it?"))


@flow
async def approved_order(goal: Goal) -> str:
    return await goal.child(approve)


@flow
async def packing(goal: Goal) -> str:
    await goal.options(name="pack").step(act, "pack")
    return await goal.options(name="label").step(break_off, "label")


@flow
async def parcel(goal: Goal) -> str:
    await goal.options(effect="pure", name="price").step(act, "price")
    return await goal.child(packing)


async def unresolved(goals: Goals, what: Flow[[], str]) -> tuple[str, str]:
    """Return a goal, and the child of it whose step `send` waits for a decision."""
    with pytest.raises(GoalWaiting):
        await goals.run(what)
    [goal_id] = [goal.id for goal in await goals.list(flow=what.name)]
    [child] = [goal.id for goal in await goals.list(flow="ship")]
    assert (await goals.get(child)).summary.waiting_for == "person"
    return goal_id, child


@pytest.mark.parametrize("before", ["ship", "price"])
async def test_a_fork_does_not_repeat_a_step_of_a_child_that_may_have_happened(goals: Goals, before: str) -> None:
    goal_id, child = await unresolved(goals, order)
    said = rf"would repeat /ship#0 \(its child {child}: /send#0\), .* perdure goal show {child}\. .*--repeat ship\."
    with pytest.raises(Conflict, match=said):
        await goals.fork(goal_id, before=before)
    assert len(await goals.list()) == 2
    fork = await goals.fork(goal_id, before=before, repeat=["ship"])
    assert (await goals.resume(fork.id)).value == "sent"
    assert CALLS.count("send") == 2

    await goals.decide(child, "skip", value="sent")
    assert (await goals.resume(child)).value == "sent"
    assert (await goals.resume(goal_id)).value == "sent"
    assert (await goals.resume((await goals.fork(goal_id, before=before)).id)).value == "sent"
    state = await goals.state(goal_id)
    effects = await read_child_effects(goals.history, state.calls.values())
    assert done_after(state, 1, effects) == [f"/ship#0 (its child {child}: /send#0)"]


async def test_a_child_of_a_child_counts_too(goals: Goals) -> None:
    goal_id, child = await unresolved(goals, wholesale)
    [between] = [goal.id for goal in await goals.list(flow="order")]
    inside = rf"/order#0 \(its child {between}: /ship#0 \(its child {child}: /send#0\)\)"
    with pytest.raises(Conflict, match=f"would repeat {inside}, which is `once`"):
        await goals.fork(goal_id, before="order")


async def test_a_fork_where_a_child_is_open_does_not_repeat_what_it_has_done(goals: Goals) -> None:
    with pytest.raises(GoalWaiting):
        await goals.run(approved_order)
    [goal_id] = [goal.id for goal in await goals.list(flow="approved_order")]
    with pytest.raises(Conflict, match=r"lies between the intent and the outcome of /approve#0 \(its child .*/note#0"):
        await goals.fork(goal_id, at=2)
    fork = await goals.fork(goal_id, at=2, repeat=["approve"])
    assert (await goals.fork(goal_id, before="approve")).summary.forked_from is not None, "what is done is done again"
    with pytest.raises(GoalWaiting):
        await goals.resume(fork.id)
    assert CALLS == ["note", "note"]


async def test_a_child_whose_history_was_deleted_may_have_done_anything(goals: Goals) -> None:
    with pytest.raises(GoalFailed) as failed:
        await goals.run(parcel)
    goal_id = failed.value.id
    [child] = await goals.children_of(goal_id)
    await goals.delete(child.id)
    with pytest.raises(Conflict, match="it has no history: it was deleted, or never created"):
        await goals.fork(goal_id, before="packing")
    await goals.fork(goal_id, before="packing", repeat=["packing"])


async def test_the_fork_that_a_cancel_offers_names_what_a_child_may_have_done(goals: Goals) -> None:
    goal_id, child = await unresolved(goals, order)
    assert (await goals.cancel(goal_id)).status == "cancelled"
    with pytest.raises(GoalCancelled) as cancelled:
        await goals.resume(goal_id)
    [offered] = cancelled.value.next
    assert offered.command.startswith(f"perdure goal fork {goal_id} --before '/ship#0' --repeat '/ship#0'")
    assert f"(its child {child}: /send#0), whose effect may exist" in offered.why
    seen = await goals.look_into(await goals.get(goal_id))
    assert [each.why for each in seen.next] == [offered.why]
    assert CALLS.count("send") == 1


async def test_the_retry_of_a_fork_does_not_repeat_what_a_child_of_the_original_has_done(goals: Goals) -> None:
    with pytest.raises(GoalFailed) as failed:
        await goals.run(parcel)
    goal_id = failed.value.id
    fork = await goals.fork(goal_id, after="packing")
    with pytest.raises(GoalFailed, match="label is broken"):
        await goals.resume(fork.id)
    with pytest.raises(Conflict, match=rf"would start another child, which repeats /pack#0.*fork {fork.id} --before"):
        await goals.retry(fork.id)
    assert (await goals.get(fork.id)).status == "failed"
    assert CALLS.count("pack") == 1
    with pytest.raises(GoalFailed):
        await goals.retry(goal_id)
    assert (CALLS.count("pack"), CALLS.count("label")) == (1, 2)


async def test_a_fork_of_a_goal_that_is_about_to_retry_its_child_repeats_it_only_on_purpose(goals: Goals) -> None:
    with pytest.raises(GoalFailed) as failed:
        await goals.run(parcel)
    goal_id = failed.value.id

    await goals.retries.enqueue(goal_id, Reopening())
    events = await goals.history(goal_id)
    assert events[-1].type == "reopened"
    with pytest.raises(Conflict, match=r"/packing#0 \(its child .*/pack#0"):
        await goals.fork(goal_id, at=len(events))
    await goals.fork(goal_id, at=len(events), repeat=["packing"])
