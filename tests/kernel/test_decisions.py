"""Decisions of people: posted to the inbox, taken once, in order, by the goal's owner; refused when they fit none."""

import asyncio
import json
from dataclasses import asdict, replace
from typing import Any

import pytest

from perdure import Conflict, Damaged, Invalid, Unavailable
from perdure.kernel.calls.decisions import admit_decision, choose, events_of
from perdure.kernel.events import (
    Decision,
    GoalBegun,
    Head,
    Limits,
    MindSpec,
    Termination,
    ToolCall,
    content_of,
    decode,
    encode,
    fingerprint,
    seal,
)
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.mind import Proposal
from perdure.kernel.ports import InboxRow
from perdure.kernel.tool import Check
from tests.contracts.histories import Stored
from tests.kernel.test_loop import ASKING, PLAN, Died, die
from tests.kernel.world import FixedPolicy, ScriptedMind, World

CALL = ToolCall("act.1", "act", "exec", {"argv": ["rm", "-r", "x"]}, "once")
END = Proposal(end=Termination("done"))


async def state_of(world: World) -> GoalState:
    return fold(await world.store.load("goal-a"))


async def post(world: World, decision: Decision, key: str = "k") -> None:
    payload = {name: getattr(decision, name) for name in decision.__slots__}
    await world.store.post("goal-a", "decision", payload, key=key)


async def parked(world: World) -> GoalState:
    """A goal of a model that waits for an approval."""
    world.policy = FixedPolicy("ask")
    ran = await world.script(Proposal([CALL]), END)
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "person")
    assert not world.tool.effects
    return ran.state


async def test_an_approval_carries_the_hash_of_what_was_shown_and_runs_it_once(world: World) -> None:
    decision = choose(await parked(world), "approve", None)
    assert decision.shown_sha256 == fingerprint(encode(CALL)[1])
    await post(world, decision)
    world.minds = [scripted_end()]
    ran = await world.resume()
    assert ran.state.status == "done"
    assert world.tool.effects == {"act": 1}
    assert any(decode(event) == decision for event in await world.store.load("goal-a"))


async def test_an_approval_of_other_bytes_is_dropped(world: World) -> None:
    await parked(world)
    await post(world, Decision("act.1", "approve", shown_sha256="0" * 64))
    world.minds = [scripted_end()]
    assert (await world.resume()).state.waiting_for == "person"
    assert await world.store.inbox("goal-a") == []
    assert not world.tool.effects


async def test_an_answer_to_a_goal_that_asked_nothing_gets_the_open_calls(world: World) -> None:
    state = await parked(world)
    with pytest.raises(Conflict, match=r"^goal-a has not asked a question; act takes approve or deny\.$"):
        choose(state, "answer", None, "yes")
    state.open_calls["act.1"] = replace(state.open_calls["act.1"], needs_approval=False)
    with pytest.raises(Conflict, match=r"^goal-a has not asked a question; act is running\.$"):
        choose(state, "answer", None, "yes")


async def test_a_denial_is_an_outcome(world: World) -> None:
    await post(world, choose(await parked(world), "deny", "act.1", "too risky"))
    state = await world.settle()
    outcome = state.calls["act.1"].outcome
    assert outcome is not None
    assert outcome.error is not None
    assert (outcome.error.code, outcome.error.message) == ("denied", "Denied by person: too risky.")
    assert not world.tool.effects


async def test_an_approved_call_that_was_begun_and_not_recorded_is_unknown(world: World) -> None:
    await post(world, choose(await parked(world), "approve", None))
    world.tool.during = lambda _context: die()
    world.minds = [scripted_end()]
    with pytest.raises(Died):
        await world.resume()
    world.minds = [scripted_end()]
    assert (await world.resume()).outcome == "waiting"
    assert (await state_of(world)).calls["act.1"].unknown is not None
    assert world.tool.effects == {"act": 1}


async def test_what_was_not_approved_yet_is_not_unknown_after_a_crash(world: World) -> None:
    await parked(world)
    world.minds = [scripted_end()]
    assert (await world.resume()).state.calls["act.1"].awaits_approval


async def test_settling_records_and_gives_back_and_runs_nothing(world: World) -> None:
    await world.start(ASKING)
    await post(world, choose(await state_of(world), "answer", None, "yes"))
    state = await world.settle()
    assert not state.open_calls
    assert not world.tool.effects
    summary = await world.store.find("goal-a")
    assert (summary.status, summary.worker) == ("open", None)
    assert (await world.resume()).state.status == "done"


@pytest.mark.parametrize(
    ("verdict", "call_id", "value", "kind"),
    [
        ("approve", None, None, Conflict),
        ("answer", "other.1", "yes", Conflict),
        ("retry", "sure.1", None, Conflict),
        ("answer", None, "perhaps", Invalid),
        ("shrug", None, None, Invalid),
        ("elapsed", "sure.1", None, Invalid),
    ],
)
async def test_a_decision_that_fits_nothing_is_refused(
    world: World, verdict: str, call_id: str | None, value: object, kind: type[Exception]
) -> None:
    await world.start(ASKING)
    state = await state_of(world)
    with pytest.raises(kind):
        choose(state, verdict, call_id, value)


async def test_a_decision_is_admitted_by_what_has_happened_since_it_was_chosen(world: World) -> None:
    await world.start(ASKING)
    state = await state_of(world)
    yes, no = choose(state, "answer", None, "yes"), choose(state, "answer", None, "no")
    admit = admit_decision(state, no)
    admit([], [])
    await post(world, yes, "k1")
    with pytest.raises(Conflict, match=r"^sure\.1 was already decided: answer 'yes'\.$"):
        admit([], await world.store.inbox("goal-a"))
    before = state.head.seq
    await world.settle()
    newer = await world.store.load("goal-a", after=before)
    for _ in range(2):  # a store may repeat its transaction
        with pytest.raises(Conflict, match=r"^sure\.1 was already decided: answer 'yes'\.$"):
            admit(newer, [])


async def test_a_decision_on_another_call_is_not_an_obstacle(world: World) -> None:
    await world.start(ASKING)
    state = await state_of(world)
    other = InboxRow("i", "decision", {"call_id": "other.1", "decision": "retry"}, "k", 0)
    admit_decision(state, choose(state, "answer", None, "yes"))([], [other])


async def test_a_call_that_has_ended_meanwhile_says_how(world: World) -> None:
    state = await parked(world)
    decision = choose(state, "approve", None)
    await post(world, decision)
    world.minds = [scripted_end()]
    await world.resume()
    ended = await state_of(world)
    with pytest.raises(Conflict, match=r"^act\.1 was already decided: approve\.$"):
        choose(ended, "deny", "act.1")
    unasked = replace(ended.calls["act.1"], decision=None)
    ended.calls["act.1"] = unasked
    with pytest.raises(Conflict, match=r"^act\.1 has already ended: ok\.$"):
        choose(ended, "deny", "act.1")


async def test_a_decision_that_was_posted_unchecked_and_fits_nothing_is_reported(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.start(ASKING)
    await post(world, Decision("sure.1", "retry"))
    await world.settle()
    assert "because no open call accepts it: retry on sure.1" in caplog.text


async def test_of_two_answers_the_first_counts(world: World) -> None:
    await world.start(ASKING)
    state = await state_of(world)
    await post(world, choose(state, "answer", None, "yes"), "k1")
    await post(world, choose(state, "answer", None, "no"), "k2")
    assert (await world.resume()).state.status == "done"
    decisions = [body for event in await world.store.load("goal-a") if isinstance(body := decode(event), Decision)]
    assert [decision.value for decision in decisions] == ["yes"]


async def test_an_answer_that_came_while_the_goal_was_parking_is_taken_before_it_is_released(world: World) -> None:
    """Who posts sees a live owner and leaves it to that one, so the owner must not go without it."""
    answer = Decision("sure.1", "answer", "yes")
    world.tool.then = lambda context: post(world, answer) if context.call.step == "work" else asyncio.sleep(0)
    ran = await world.start(ASKING + "  - {id: work, exec: [work]}\n")
    assert ran.state.status == "done"
    assert world.tool.effects == {"work": 1, "send": 1}


async def test_cancelling_a_goal_that_no_worker_runs_leaves_nothing_running(world: World) -> None:
    world.tool.during = lambda context: die() if context.call.step == "send" else None
    with pytest.raises(Died):
        await world.start(PLAN)
    await world.store.post("goal-a", "cancel", {}, key="k")
    state = await world.settle()
    assert state.termination == Termination("cancelled")
    assert world.tool.reaped == ["send.1"]
    assert state.calls["send.1"].unknown is not None


async def test_a_limit_parks_the_goal_and_a_higher_one_lets_it_continue_across_resumes(world: World) -> None:
    ran = await world.start(PLAN, limits=Limits(iterations=2))
    assert (ran.outcome, ran.state.waiting_for) == ("waiting", "limit")
    assert (await world.store.find("goal-a")).waiting_for == "limit"
    assert (await world.resume()).state.waiting_for == "limit"
    await world.store.post("goal-a", "limit", {"name": "iterations", "value": 3}, key="k1")
    assert (await world.resume()).state.waiting_for == "limit"
    await world.store.post("goal-a", "limit", {"name": "iterations", "value": 9}, key="k2")
    assert (await world.resume()).state.status == "done"
    assert world.tool.effects == {"fetch": 1, "build": 1, "send": 1}


def scripted_end() -> ScriptedMind:
    return ScriptedMind([END])


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("decision", {}),
        ("decision", {"call_id": "sure.1", "decision": "answer", "other": 1}),
        ("limit", {"name": "bogus", "value": 1}),
        ("limit", {}),
        ("signal", {"nome": "x"}),
        ("wish", {}),
    ],
)
async def test_a_post_that_cannot_be_read_is_named_and_stays(world: World, kind: str, payload: dict[str, Any]) -> None:
    await world.start(ASKING)
    await world.store.post("goal-a", kind, payload, key="k")
    (row,) = await world.store.inbox("goal-a")
    with pytest.raises(Damaged, match=row.id):
        await world.resume()
    assert len(await world.store.inbox("goal-a")) == 1


class AskedChecks(dict[str, Check]):
    """Notes who asks."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def get(self, step: str, default: Any = None) -> Any:
        self.steps.append(step)
        return super().get(step, default)


async def test_cancelling_asks_no_check(world: World) -> None:
    world.tool.during = lambda context: die() if context.call.step == "send" else None
    with pytest.raises(Died):
        await world.start(PLAN)

    asked = world.tool.checks = AskedChecks()
    await world.store.post("goal-a", "cancel", {}, key="k")
    assert (await world.settle()).termination == Termination("cancelled")
    assert not asked.steps


async def test_a_worker_that_is_not_sure_of_its_lease_begins_nothing(world: World) -> None:
    world.may_start_calls = lambda: world.tool.effects["fetch"] == 0
    with pytest.raises(Unavailable, match="lease"):
        await world.start(PLAN)
    assert world.tool.effects == {"fetch": 1}
    world.may_start_calls = lambda: True
    world.tool.checks["build"] = "not_happened"
    assert (await world.resume()).state.status == "done"
    assert world.tool.effects == {"fetch": 1, "build": 1, "send": 1}


async def test_an_inbox_that_is_counted_full_and_is_empty_is_named_and_not_waited_for(stored: Stored) -> None:
    if stored.database is None:
        pytest.skip("memory counts what it has")
    world = World(stored.store, stored.leases, dead=stored.dead)
    await world.start(ASKING)
    await stored.database.write_raw(lambda raw: raw.execute("UPDATE goals SET inbox_count = 1").rowcount)
    for verb in (world.resume, world.settle):
        with pytest.raises(Damaged, match="must have rows, found none"):
            await verb()


def test_an_approval_is_of_the_payload_as_it_is_stored() -> None:
    """An event that was written with every field would be written without its defaults now."""
    begun = seal(GoalBegun("x", MindSpec("model")), Head("g"), event_id="1", iteration=0, timestamp_us=1)
    asked = seal(CALL, Head("g", 1, begun.hash), event_id="2", iteration=1, timestamp_us=2)
    stored = json.dumps({"kind": "tool_call", **asdict(CALL)})
    state = fold([begun, replace(asked, payload=stored)])
    decision = choose(state, "approve", None)
    assert decision.shown_sha256 == fingerprint(stored) != fingerprint(asked.payload)
    assert events_of(state, content_of(decision)) == [decision]
