"""Each call is judged by who decided it, in whichever goal; its effect is that of its tool if a model decided it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from perdure.kernel.deciding.transcript import Begun, Settled, Spoken, TranscriptEntry, transcript
from perdure.kernel.events import (
    Decision,
    Effect,
    Event,
    GoalBegun,
    Head,
    Message,
    MindKind,
    MindSpec,
    Signal,
    Termination,
    ToolCall,
    ToolOutput,
    Wait,
    seal,
)
from perdure.kernel.fold import fold
from perdure.kernel.mind import Proposal
from perdure.kernel.tool import ToolSpec
from tests.kernel.world import CountingTool, FixedPolicy, ScriptedMind, World

END = Proposal(end=Termination("done"))
OWN: ToolSpec = ToolSpec("exec", "Counts.", {"type": "object"}, "idempotent")


def call(step: str, *, by: str | None = None, effect: Effect = "once", **arguments: Any) -> ToolCall:
    return ToolCall(f"{step}.1", step, "exec", {"argv": [step], **arguments}, effect, by=by)


def history(*bodies: Any) -> Sequence[Event]:
    head, events = Head("g"), []
    for number, body in enumerate(bodies):
        events.append(seal(body, head, event_id=str(number), iteration=number, timestamp_us=number))
        head = Head("g", number + 1, events[-1].hash)
    return events


@pytest.mark.parametrize(
    ("kind", "by", "decider"),
    [
        ("command", None, "person"),
        ("plan", None, "plan"),
        ("flow", None, "flow"),
        ("model", None, "model:assistant"),
        ("flow", "model:ada", "model:ada"),
        ("model", "person", "person"),
    ],
)
def test_who_decided_a_call_follows_from_the_mind_unless_the_call_says_it(
    kind: MindKind, by: str | None, decider: str
) -> None:
    asked = call("a", by=by)
    state = fold(history(GoalBegun("g", MindSpec(kind)), asked))
    assert state.decider_of(asked) == decider
    assert state.calls["a.1"].needs_approval is state.is_governed(asked) is decider.startswith("model:")
    assert state.governed == (["a.1"] if decider.startswith("model:") else [])


@pytest.mark.parametrize("kind", ["command", "plan", "flow", "model"])
async def test_the_policy_judges_a_call_of_a_model_in_a_goal_of_any_kind(world: World, kind: MindKind) -> None:
    world.policy = FixedPolicy("ask")
    world.minds.append(ScriptedMind([Proposal([call("own", by="person"), call("its", by="model:ada")]), END]))
    ran = await world.start(MindSpec(kind))
    assert ran.state.waiting_for == "person"
    assert list(ran.state.open_calls) == ["its.1"]
    assert world.tool.effects == {"own": 1}
    world.policy = FixedPolicy("deny")
    world.minds.append(ScriptedMind([END]))
    ran = await world.resume()
    assert ran.state.status == "done"
    assert world.tool.effects == {"own": 1}
    assert ran.state.calls["its.1"].decision == Decision("its.1", "deny", by="policy")


@pytest.mark.parametrize(("by", "reason"), [(None, "done"), ("model:ada", "no_progress")])
async def test_guards_look_at_the_calls_of_a_model_alone(world: World, by: str | None, reason: str) -> None:
    same = [replace(call("x", by=by), call_id=f"x.{n}", attempt=n) for n in range(1, 5)]
    world.minds.append(ScriptedMind([*(Proposal([each]) for each in same), END]))
    ran = await world.start(MindSpec("flow"))
    assert ran.state.termination is not None
    assert ran.state.termination.reason == reason


@pytest.mark.parametrize(
    ("own", "declares", "by", "declared", "recorded"),
    [
        ("idempotent", False, "model:ada", "once", "idempotent"),
        ("idempotent", False, "model:ada", "pure", "idempotent"),
        ("once", True, "model:ada", "pure", "once"),
        ("idempotent", False, None, "pure", "idempotent"),
        ("idempotent", False, None, "once", "once"),
        ("pure", False, None, "idempotent", "idempotent"),
        ("once", True, None, "idempotent", "idempotent"),
        ("once", True, None, "pure", "pure"),
    ],
)
async def test_a_model_is_not_asked_for_the_effect_of_its_call_and_an_author_may_make_it_stricter(
    world: World, own: Effect, declares: bool, by: str | None, declared: Effect, recorded: Effect
) -> None:
    world.tool = CountingTool(spec=replace(OWN, effect=own, declares_effect=declares))
    world.minds.append(ScriptedMind([Proposal([call("a", by=by, effect=declared)]), END]))
    ran = await world.start(MindSpec("plan"))
    settled = ran.state.calls["a.1"].call
    assert isinstance(settled, ToolCall)
    assert settled.effect == recorded


def _text(said: object) -> str:
    assert isinstance(said, Message)
    return said.text


def said(entries: Sequence[TranscriptEntry]) -> list[tuple[str, int, str]]:
    return [
        (type(each).__name__, each.seq, _text(each.entry) if isinstance(each, Spoken) else each.call.call.call_id)
        for each in entries
    ]


def test_a_transcript_has_messages_calls_and_results_in_the_order_of_their_events() -> None:
    state = fold(
        history(
            GoalBegun("g", MindSpec("model")),
            *(Message("first"), call("a"), call("b"), Decision("a.1", "approve", by="policy")),
            *(ToolOutput("b.1", ok=False), Message("second"), ToolOutput("a.1"), Signal("go")),
            *(Wait("w.1", "w", signal="go"), ToolOutput("p#0.1", step="p#0", digest="d", effect="pure")),
        )
    )
    whole = [
        *(("Spoken", 2, "first"), ("Begun", 3, "a.1"), ("Begun", 4, "b.1"), ("Settled", 6, "b.1")),
        ("Spoken", 7, "second"),
        *(("Settled", 8, "a.1"), ("Begun", 10, "w.1"), ("Settled", 10, "w.1")),
        *(("Begun", 11, "p#0.1"), ("Settled", 11, "p#0.1")),
    ]
    assert said(transcript(state)) == whole
    assert [said(transcript(state, after)) for after in range(12)] == [
        [each for each in whole if each[1] > after] for after in range(12)
    ]
    assert {type(each) for each in transcript(state)} == {Spoken, Begun, Settled}
