"""Events: what is written is read back, and whatever was changed afterwards is found."""

import json
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Conflict, Damaged, Invalid
from perdure.kernel.conversation.parts import Opaque, Part, TextPart, ThinkingPart, TokenUsage, ToolCallPart
from perdure.kernel.events import (
    NO_HASH,
    SCHEMA_VERSION,
    Ask,
    Body,
    Cancel,
    Decision,
    Effect,
    Event,
    ForkedFrom,
    GoalBegun,
    Head,
    Hold,
    LimitRaised,
    LimitReached,
    Limits,
    Message,
    MindSpec,
    ModelFailure,
    ModelTurn,
    OutcomeUnknown,
    ParentCall,
    PolicySpec,
    Prompt,
    Released,
    Reopened,
    Signal,
    Termination,
    ToolCall,
    ToolError,
    ToolOutput,
    TranscriptSummary,
    Wait,
    decode,
    encode,
    expected_hash,
    is_same_content,
    seal,
)
from perdure.text.moments import iso

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
steps = text | st.sampled_from(["/a#0", "a.1", "", "x.02", "."])
attempts = st.integers(1, 12)
errors = st.none() | st.builds(
    ToolError,
    text,
    text,
    type=st.none() | text,
    args=values,
    traceback=st.none() | text,
    retryable=st.none() | st.booleans(),
)
effects: st.SearchStrategy[Effect] = st.sampled_from(["pure", "idempotent", "once"])
several = st.lists(text, max_size=3).map(tuple)


@st.composite
def call_ids(draw: st.DrawFn, step: str, attempt: int) -> str:
    """Ids of calls: mostly as flows and plans name them, and others that look like it."""
    return draw(st.sampled_from([f"{step}.{attempt}", f"{step}.0{attempt}", f"{step}.", step, "c1", f"{step}.1"]))


@st.composite
def tool_calls(draw: st.DrawFn) -> ToolCall:
    step, attempt = draw(steps), draw(attempts)
    arguments = draw(st.dictionaries(text, values, max_size=3))
    until = draw(st.none() | text)
    return ToolCall(draw(call_ids(step, attempt)), step, draw(text), arguments, draw(effects), attempt, until)


@st.composite
def waits(draw: st.DrawFn) -> Ask | Wait:
    step = draw(steps)
    call_id, until = draw(call_ids(step, draw(attempts))), draw(st.none() | text)
    if draw(st.booleans()):
        return Wait(call_id, step, until, draw(st.none() | text))
    return Ask(call_id, step, draw(text), draw(st.none() | several), until)


@st.composite
def outputs(draw: st.DrawFn) -> ToolOutput:
    """Outcomes; only those of pure steps, which have no intent, say step, digest and effect."""
    step = draw(steps)
    plain = ToolOutput(
        draw(call_ids(step, draw(attempts))),
        draw(st.booleans()),
        draw(values),
        draw(errors),
        draw(st.integers(0, 9)),
        draw(st.none() | st.dictionaries(text, values, max_size=2)),
        meta=draw(st.none() | st.dictionaries(text, values, max_size=2)),
        happened=draw(st.sampled_from([None, "yes", "no", "unknown"])),
    )
    is_pure = draw(st.booleans())
    digest, effect = draw(st.none() | text), draw(st.none() | effects)
    return replace(plain, step=step, digest=digest, effect=effect) if is_pure else plain


rules = st.fixed_dictionaries(
    {"tool": text, "verdict": st.sampled_from(["allow", "ask", "deny"])},
    optional={"arguments": st.dictionaries(text, text, max_size=2)},
)
policies = st.builds(
    PolicySpec,
    preset=text,
    rules=st.lists(rules, max_size=2).map(tuple),
    yes=st.booleans(),
)

opaques = st.none() | st.builds(
    Opaque,
    provider=text,
    id=st.none() | text,
    signature=st.none() | text,
    details=st.none() | st.dictionaries(text, values, max_size=2),
)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, text=text, opaque=opaques),
    st.builds(ThinkingPart, text=text, opaque=opaques),
    st.builds(
        ToolCallPart,
        call_id=text,
        tool=text,
        arguments=st.none() | st.dictionaries(text, values, max_size=2),
        arguments_text=st.none() | text,
        opaque=opaques,
    ),
)
numbers = st.integers(0, 99)
usages = st.builds(TokenUsage, numbers, numbers, numbers, numbers, numbers, estimated=st.booleans())
bodies: st.SearchStrategy[Body] = st.one_of(
    st.builds(
        GoalBegun,
        text=text,
        mind=st.builds(
            MindSpec,
            kind=st.sampled_from(["command", "plan", "flow", "model"]),
            plan=st.none() | text,
            args=values,
            shell=st.none() | st.booleans(),
            cleanup=st.none() | st.booleans(),
        ),
        policy=st.none() | policies,
        bot=st.none() | text,
        limits=st.builds(Limits, iterations=st.none() | st.integers(1, 99), usd=st.none() | st.floats(0, 9)),
        workdir=st.none() | text,
        forked_from=st.none() | st.builds(ForkedFrom, goal_id=text, seq=st.integers(1, 9)),
        parent=st.none() | st.builds(ParentCall, goal_id=text, call_id=text),
        voided=several,
        tags=several,
    ),
    st.builds(Message, text=text, role=st.sampled_from(["user", "context"]), by=text, refs=several),
    st.builds(
        Prompt,
        sha256=text,
        model=text,
        system=text,
        tools=st.lists(
            st.fixed_dictionaries(
                {
                    "name": text,
                    "description": text,
                    "effect": effects,
                    "source": text,
                    "parameters": st.dictionaries(text, values, max_size=2),
                }
            ),
            max_size=2,
        ).map(tuple),
        settings=st.dictionaries(text, values, max_size=2),
    ),
    st.builds(
        ModelTurn,
        turn=st.integers(1, 9),
        model=text,
        provider=text,
        parts=st.lists(parts, max_size=4).map(tuple),
        finish_reason=st.sampled_from(["stop", "tool_calls", "empty"]),
        usage=usages,
        cost_usd=st.none() | st.floats(0, 9),
        duration_ms=st.integers(0, 9),
        first_token_ms=st.none() | st.integers(0, 9),
        attempts=st.integers(1, 4),
        response_id=st.none() | text,
        request_sha256=st.none() | text,
        truncated=st.booleans(),
    ),
    st.builds(
        TranscriptSummary,
        from_seq=st.integers(1, 9),
        to_seq=st.integers(1, 9),
        text=text,
        model=text,
        usage=usages,
        cost_usd=st.none() | st.floats(0, 9),
    ),
    st.builds(
        ModelFailure,
        model=text,
        provider=text,
        code=st.sampled_from(["auth", "timeout"]),
        message=text,
        attempts=st.integers(1, 4),
        retry_at=st.none() | text,
        next=st.none() | text,
    ),
    st.builds(LimitReached, name=st.sampled_from(["tokens", "usd"]), left=st.floats(0, 9), needed=st.floats(0, 9)),
    tool_calls(),
    waits(),
    outputs(),
    st.builds(OutcomeUnknown, call_id=text, why=text),
    st.builds(
        Decision,
        call_id=text,
        decision=st.sampled_from(["approve", "retry", "skip", "cancel"]),
        value=values,
        by=text | st.just("person"),
        shown_sha256=st.none() | text,
    ),
    st.builds(Signal, name=text, payload=values),
    st.builds(Cancel, by=text | st.just("person"), reason=st.none() | text),
    st.builds(LimitRaised, name=st.sampled_from(["iterations", "usd"]), value=st.none() | st.integers(1, 9)),
    st.builds(
        Termination,
        reason=st.sampled_from(["done", "failed"]),
        detail=st.none() | text,
        value=values,
        error=errors,
        steps=st.none() | several,
    ),
    st.builds(
        Reopened,
        by=text,
        reason=st.none() | text,
        ended_seq=st.integers(1, 9),
        again=several,
        unknown=several,
        policy=st.none() | policies,
    ),
    st.builds(Hold, reason=st.just("crash_loop"), deaths=st.integers(0, 9), steps=several),
    st.builds(Released, by=text | st.just("person")),
)


_LEFT_OUT_AT_FIRST = ("meta", "happened", "until", "by", "after", "child", "turn", "model", "chat", "bot_version")
_FAILED = {"call_id": "a.1", "ok": False, "error": {"code": "exit", "message": "2"}}


def sealed(body: Body, head: Head | None = None) -> Event:
    return seal(body, head or Head("g"), event_id="0192", iteration=1, timestamp_us=1_700_000_000_123_456)


@given(bodies)
def test_a_body_is_read_back_as_it_was_written(body: Body) -> None:
    assert decode(sealed(body)) == body


@given(bodies)
def test_a_payload_with_every_field_is_read_as_the_same_body(body: Body) -> None:
    """Events of version 2 were first written with every field, and are in databases."""
    event = sealed(body)
    whole = {name: each for name, each in asdict(body).items() if name not in _LEFT_OUT_AT_FIRST or each is not None}
    if isinstance(body, ToolOutput) and body.step is None:
        del whole["step"], whole["digest"], whole["effect"]
    if event.type == "action":
        whole["kind"] = event.content()["kind"]
    if isinstance(body, ModelTurn):
        kinds = [each["kind"] for each in event.content().get("parts", [])]
        whole["parts"] = [{"kind": kind, **part} for kind, part in zip(kinds, whole["parts"], strict=True)]
    assert decode(replace(event, payload=json.dumps(whole))) == body


@given(bodies)
def test_a_payload_has_no_field_that_is_null_where_null_is_the_default(body: Body) -> None:
    content = sealed(body).content()
    nullable = {each.name for each in fields(body) if each.default is None}
    assert not [name for name in nullable if name in content and content[name] is None]


def test_two_payloads_are_the_same_with_and_without_their_defaults() -> None:
    assert is_same_content("decision", {"call_id": "a", "decision": "skip"}, asdict(Decision("a", "skip")))
    assert is_same_content("signal", {"name": "paid"}, {"name": "paid", "payload": None})
    assert not is_same_content("signal", {"name": "paid"}, {"name": "paid", "payload": 0})
    assert not is_same_content("limit", {"name": "usd", "value": 1}, {"name": "usd", "value": 1, "by": "policy"})


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        (
            ToolCall("/fetch#0.1", "/fetch#0", "step", {"args": [7]}, "idempotent"),
            {
                "kind": "tool_call",
                "call_id": "/fetch#0.1",
                "tool": "step",
                "arguments": {"args": [7]},
                "effect": "idempotent",
            },
        ),
        (
            ToolCall("a.3", "a", "exec", {}, "once", 3),
            {"kind": "tool_call", "call_id": "a.3", "tool": "exec", "arguments": {}, "effect": "once"},
        ),
        (
            ToolCall("a.3", "a", "exec", {}, "once"),
            {"kind": "tool_call", "call_id": "a.3", "step": "a", "tool": "exec", "arguments": {}, "effect": "once"},
        ),
        (Ask("ok.1", "ok", "Sure?"), {"kind": "ask", "call_id": "ok.1", "question": "Sure?"}),
        (ToolOutput("a.1", output=5), {"call_id": "a.1", "output": 5}),
        (ToolOutput("a.1", ok=False, error=ToolError("exit", "2")), _FAILED),
        (ToolOutput("/f#0.1", step="/f#0", digest="d", effect="pure"), {"call_id": "/f#0.1", "digest": "d"}),
        (Termination("done"), {"reason": "done"}),
        (Termination("failed", steps=None), {"reason": "failed", "steps": None}),
        (Decision("a.1", "approve"), {"call_id": "a.1", "decision": "approve"}),
    ],
)
def test_what_is_a_default_or_follows_from_the_id_of_a_call_is_left_out(body: Body, stored: dict[str, Any]) -> None:
    assert sealed(body).content() == stored
    assert decode(sealed(body)) == body


@given(bodies)
def test_the_payload_is_json_that_any_reader_understands(body: Body) -> None:
    name, payload = encode(body)
    content = json.loads(payload)
    assert isinstance(content, dict)
    assert ("kind" in content) == (name == "action")


@given(bodies, st.sampled_from(["goal_id", "seq", "id", "type", "iteration", "timestamp_us", "payload", "v"]))
def test_a_change_of_anything_in_an_event_changes_its_hash(body: Body, name: str) -> None:
    event = sealed(body)
    assert expected_hash(event, NO_HASH) == event.hash
    before: Any = getattr(event, name)
    change: dict[str, Any] = {name: before + 1 if isinstance(before, int) else before + "x"}
    changed = replace(event, **change)
    assert expected_hash(changed, NO_HASH) != event.hash


def test_each_hash_covers_all_events_before_it() -> None:
    first = sealed(Message("one"))
    second = sealed(Message("two"), Head("g", 1, first.hash))
    other_first = sealed(Message("1"))
    assert expected_hash(second, first.hash) == second.hash
    assert expected_hash(second, other_first.hash) != second.hash
    assert second.seq == 2


def test_the_wire_form_is_the_one_of_the_specification() -> None:
    assert sealed(ToolCall("c1", "fetch", "exec", {"argv": ["true"]}, "once")).wire() | {"hash": ""} == {
        "v": 3,
        "goal_id": "g",
        "seq": 1,
        "id": "0192",
        "type": "action",
        "iteration": 1,
        "timestamp": "2023-11-14T22:13:20.123456Z",
        "payload": {
            "kind": "tool_call",
            "call_id": "c1",
            "step": "fetch",
            "tool": "exec",
            "arguments": {"argv": ["true"]},
            "effect": "once",
        },
        "hash": "",
    }


def test_the_goal_event_carries_only_what_its_mind_was_given() -> None:
    _, payload = encode(GoalBegun("echo hello", MindSpec("command", shell=True), workdir="/w"))
    assert json.loads(payload) == {
        "text": "echo hello",
        "mind": {"kind": "command", "shell": True},
        "workdir": "/w",
    }


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), [1, {"a": float("-inf")}], "\ud800", {"\udfff": 1}, {1: 2}, object(), b"bytes", 2**64],
    ids=["nan", "infinity", "deep", "surrogate", "surrogate key", "number key", "object", "bytes", "too large"],
)
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(Invalid):
        encode(ToolOutput("c", ok=True, output=value))


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("action", "{"),
        ("action", "[]"),
        ("action", "{}"),
        ("action", '{"kind": 3}'),
        ("termination", "{}"),
        ("goal", '{"text": "x"}'),
        ("goal", '{"text": "x", "mind": 3}'),
    ],
)
def test_an_event_that_cannot_be_read_is_named_by_its_seq(name: str, payload: str) -> None:
    event = Event("g", 7, "id", name, 1, 1, payload, NO_HASH)
    with pytest.raises(Damaged, match="Event 7 of g"):
        decode(event)


@pytest.mark.parametrize(
    ("name", "payload", "what"),
    [
        ("action", '{"kind": "dance"}', "action 'dance'"),
        ("rewind", '{"text": "hello"}', "type 'rewind'"),
        ("message", '{"text": "hello", "mood": 1}', "field 'mood'"),
        (
            "model_turn",
            '{"turn": 1, "model": "a:b", "provider": "a", "parts": [{"kind": "image"}]}',
            r"field \"parts\.kind 'image'\"",
        ),
        (
            "model_turn",
            '{"turn": 1, "model": "a:b", "provider": "a", "parts": [{"kind": "text", "text": "", "tone": 1}]}',
            r"field 'parts\.tone'",
        ),
        ("termination", '{"reason": "done", "mood": 1}', "field 'mood'"),
        ("goal", '{"text": "x", "mind": {"kind": "plan", "speed": 1}}', r"field 'mind\.speed'"),
        (
            "tool_output",
            '{"call_id": "a.1", "error": {"code": "x", "message": "", "hint": 1}}',
            r"field 'error\.hint'",
        ),
    ],
)
def test_what_this_version_does_not_know_of_an_event_was_written_by_a_newer_one(
    name: str, payload: str, what: str
) -> None:
    with pytest.raises(Conflict, match=f"Event 7 of g was written by a newer Perdure .{what}"):
        decode(Event("g", 7, "id", name, 1, 1, payload, NO_HASH))


@pytest.mark.parametrize(
    ("call", "written"),
    [
        (ToolCall("a.1", "a", "exec", {}, "once"), {}),
        (ToolCall("a.1", "a", "exec", {}, "once", by="model:ada"), {"by": "model:ada"}),
        (ToolCall("a.1", "a", "exec", {}, "once", after="b.1"), {"after": "b.1"}),
        (ToolCall("a.1", "a", "child", {"goal_id": "k"}, "idempotent", child="k"), {}),
        (ToolCall("a.1", "a", "delegate", {"bot": "ada"}, "idempotent", child="k"), {"child": "k"}),
    ],
)
def test_who_decided_and_what_a_call_starts_is_written_only_where_it_does_not_follow(
    call: ToolCall, written: dict[str, str]
) -> None:
    event = sealed(call)
    assert {name: each for name, each in event.content().items() if name in ("by", "after", "child")} == written
    assert decode(event) == call


def test_the_options_of_a_mind_are_any_json_object() -> None:
    spec = MindSpec("model", options={"model": "provider:name", "temperature": 0.5})
    assert decode(sealed(GoalBegun("think", spec))) == GoalBegun("think", spec)


def test_an_event_of_a_newer_version_is_refused() -> None:
    event = replace(seal(Message("x"), Head("g"), event_id="e", iteration=0, timestamp_us=0), v=SCHEMA_VERSION + 1)
    with pytest.raises(Conflict, match="newer Perdure"):
        decode(event)


@pytest.mark.parametrize("moment", [9 * 10**18, -(10**18), 2**63])
def test_a_moment_that_no_calendar_has_is_written_anyway(moment: int) -> None:
    assert iso(moment).endswith("Z")
