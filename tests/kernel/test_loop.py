"""The loop: what runs, what is recorded, and what a death at any point leaves behind."""

from contextlib import suppress
from dataclasses import replace

import pytest

from perdure import Conflict, Damaged, failpoints
from perdure.kernel.events import OutcomeUnknown, Termination, ToolCall, decode
from perdure.kernel.history.replay import replay
from tests.kernel.world import World

PLAN = """
goal: three steps
steps:
  - {id: fetch, exec: [fetch], effect: idempotent}
  - {id: build, exec: [build], needs: [fetch]}
  - {id: send, exec: [send], needs: [build]}
"""
ASKING = """
goal: ask first
steps:
  - {id: sure, ask: {question: "Publish?", options: ["yes", "no"]}}
  - {id: send, exec: [send], needs: [sure]}
"""


class Died(BaseException):
    """What a process feels when it is killed."""


def die() -> None:
    raise Died


async def types(world: World, goal_id: str = "goal-a") -> list[str]:
    return [event.type for event in await world.store.load(goal_id)]


async def test_a_plan_runs_each_step_once_and_is_done(world: World) -> None:
    ran = await world.start(PLAN)
    assert (ran.outcome, ran.state.status) == ("ended", "done")
    assert world.tool.effects == {"fetch": 1, "build": 1, "send": 1}
    assert await types(world) == ["goal", *["action", "tool_output"] * 3, "termination"]


async def test_three_steps_cost_four_appends(world: World) -> None:
    appends = 0

    def count() -> None:
        nonlocal appends
        appends += 1

    with failpoints.armed("kernel.append.after", count):
        await world.start(PLAN)
    assert appends == 4


async def test_a_failed_step_ends_the_goal_and_starts_nothing_new(world: World) -> None:
    world.tool.fails["build"] = 1
    ran = await world.start(PLAN)
    assert ran.state.termination is not None
    assert ran.state.termination.reason == "failed"
    assert world.tool.effects == {"fetch": 1, "build": 1}


async def test_a_retry_waits_and_is_a_new_call_of_the_same_step(world: World) -> None:
    world.tool.fails["fetch"] = 2
    retrying = PLAN.replace("effect: idempotent", "effect: idempotent, retry: {attempts: 4, initial: 10s}")
    ran = await world.start(retrying)
    assert ran.state.status == "done"
    calls = [body for event in await world.store.load("goal-a") if isinstance(body := decode(event), ToolCall)]
    assert [call.call_id for call in calls if call.step == "fetch"] == ["fetch.1", "fetch.2", "fetch.3"]


async def test_a_question_parks_the_goal_and_an_answer_lets_it_continue(world: World) -> None:
    assert (await world.start(ASKING)).outcome == "waiting"
    assert (await world.store.find("goal-a")).waiting_for == "person"
    assert not world.tool.effects
    await world.store.post("goal-a", "decision", {"call_id": "sure.1", "decision": "answer", "value": "yes"}, key="k")
    assert (await world.resume()).state.status == "done"
    assert world.tool.effects == {"send": 1}
    assert await world.store.inbox("goal-a") == []


async def test_a_cancelled_goal_ends_at_once(world: World) -> None:
    await world.start(ASKING)
    await world.store.post("goal-a", "cancel", {}, key="k")
    ran = await world.resume()
    assert ran.state.termination == Termination("cancelled")
    assert not world.tool.effects


async def test_a_finished_goal_cannot_be_claimed(world: World) -> None:
    await world.start(PLAN)
    before = await types(world)
    with pytest.raises(Conflict):
        await world.resume()
    assert await types(world) == before


async def test_a_call_of_once_that_was_begun_and_not_recorded_is_unknown_until_a_person_decides(world: World) -> None:
    world.tool.during = lambda context: die() if context.call.step == "send" else None
    with pytest.raises(Died):
        await world.start(PLAN)
    world.tool.during = lambda _context: None
    assert (await world.resume()).outcome == "waiting"
    assert world.tool.effects["send"] == 1
    assert world.tool.reaped == ["send.1"]
    bodies = [decode(event) for event in await world.store.load("goal-a")]
    assert any(isinstance(body, OutcomeUnknown) for body in bodies)
    await world.store.post("goal-a", "decision", {"call_id": "send.1", "decision": "retry"}, key="k")
    assert (await world.resume()).state.status == "done"
    assert world.tool.effects["send"] == 2


@pytest.mark.parametrize(("check", "effects"), [("happened", 1), ("not_happened", 2)])
async def test_a_check_settles_an_outcome_that_was_not_recorded(world: World, check: str, effects: int) -> None:
    world.tool.during = lambda context: die() if context.call.step == "send" else None
    with pytest.raises(Died):
        await world.start(PLAN)
    world.tool.during = lambda _context: None
    world.tool.checks["send"] = check  # type: ignore[assignment]
    ran = await world.resume()
    assert ran.state.status == "done"
    assert world.tool.effects["send"] == effects
    assert ran.state.calls["send.1"].times_again == effects - 1
    assert any(isinstance(decode(event), OutcomeUnknown) for event in await world.store.load("goal-a"))


@pytest.mark.parametrize(
    "point", ["kernel.append.before", "kernel.append.after", "kernel.effect.before", "kernel.effect.after"]
)
@pytest.mark.parametrize("hit", [1, 2, 3, 4])
async def test_a_goal_that_died_at_any_point_ends_as_if_it_had_not(world: World, point: str, hit: int) -> None:
    """What was a `once` call in doubt is settled by its check, which knows what really happened."""
    hits = 0

    def die_at() -> None:
        nonlocal hits
        hits += 1
        if hits == hit:
            raise Died

    with failpoints.armed(point, die_at), suppress(Died):
        await world.start(PLAN)
    for step in ("build", "send"):
        world.tool.checks[step] = "happened" if world.tool.effects[step] else "not_happened"
    if not await world.store.list_goals():
        await world.start(PLAN)  # it died before anything of it was stored
    elif (await world.store.find("goal-a")).status != "done":
        assert (await world.resume()).state.status == "done"
    assert world.tool.effects["build"] == world.tool.effects["send"] == 1
    events = await world.store.load("goal-a")
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert replay(events, await world.store.find("goal-a")).state.status == "done"


async def test_a_worker_that_lost_the_goal_can_record_nothing(world: World) -> None:
    await world.start(ASKING)
    first = await world.leases.claim("goal-a", world.new_worker())
    second = await world.leases.claim("goal-a", world.new_worker())
    assert second > first
    summary = await world.store.find("goal-a")
    last = (await world.store.load("goal-a"))[-1]
    with pytest.raises(Conflict):
        await world.store.append_event(
            "goal-a", [], expected_seq=last.seq, expected_hash=last.hash, epoch=first, summary=summary, release=True
        )


async def test_replay_names_the_event_that_was_changed(world: World) -> None:
    await world.start(PLAN)
    events, summary = await world.store.load("goal-a"), await world.store.find("goal-a")
    assert replay(events, summary).state_hash == replay(events, summary).state_hash
    events[2] = replace(events[2], payload=events[2].payload.replace("fetch", "forge"))
    with pytest.raises(Damaged, match="Event 3"):
        replay(events, summary)
    with pytest.raises(Damaged, match=f"Event {summary.last_seq} "):
        replay((await world.store.load("goal-a"))[:-1], summary)


async def test_replay_names_what_the_row_says_otherwise(world: World) -> None:
    await world.start(ASKING)
    events, summary = await world.store.load("goal-a"), await world.store.find("goal-a")
    with pytest.raises(Damaged, match="status 'done'"):
        replay(events, replace(summary, status="done"))


async def test_a_value_nested_as_deep_as_json_allows_is_replayed(world: World) -> None:
    await world.start(ASKING.replace('options: ["yes", "no"]', ""))
    value: object = "yes"
    for _ in range(245):
        value = [value]
    payload = {"call_id": "sure.1", "decision": "answer", "value": value}
    await world.store.post("goal-a", "decision", payload, key="k")
    await world.resume()
    assert replay(await world.store.load("goal-a"), await world.store.find("goal-a")).state.status == "done"
