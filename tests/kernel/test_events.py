"""Events: what is written is read back, and whatever was changed afterwards is found."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Conflict, Damaged, Invalid
from perdure.kernel.events import (
    NO_HASH,
    SCHEMA_VERSION,
    Ask,
    Body,
    Decision,
    Event,
    ForkedFrom,
    GoalBegun,
    LimitRaised,
    Limits,
    Message,
    MindSpec,
    OutcomeUnknown,
    Signal,
    Termination,
    Tip,
    ToolCall,
    ToolError,
    ToolOutput,
    Wait,
    decode,
    encode,
    expected_hash,
    iso,
    seal,
)

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
bodies: st.SearchStrategy[Body] = st.one_of(
    st.builds(
        GoalBegun,
        text=text,
        mind=st.builds(MindSpec, kind=st.sampled_from(["command", "plan", "flow", "model"]), plan=st.none() | text),
        limits=st.builds(Limits, iterations=st.none() | st.integers(1, 99), usd=st.none() | st.floats(0, 9)),
        forked_from=st.none() | st.builds(ForkedFrom, goal_id=text, seq=st.integers(1, 9)),
        voided=st.lists(text, max_size=3).map(tuple),
    ),
    st.builds(Message, text=text),
    st.builds(
        ToolCall,
        call_id=text,
        step=text,
        tool=text,
        arguments=st.dictionaries(text, values, max_size=3),
        effect=st.sampled_from(["pure", "idempotent", "once"]),
        attempt=st.integers(1, 9),
    ),
    st.builds(Ask, call_id=text, step=text, question=text, options=st.none() | st.lists(text).map(tuple)),
    st.builds(Wait, call_id=text, step=text, until=st.none() | text, signal=st.none() | text),
    st.builds(
        ToolOutput, call_id=text, ok=st.booleans(), output=values, error=st.none() | st.builds(ToolError, text, text)
    ),
    st.builds(OutcomeUnknown, call_id=text, why=text),
    st.builds(Decision, call_id=text, decision=st.sampled_from(["approve", "retry", "skip"]), value=values, by=text),
    st.builds(Signal, name=text, payload=values),
    st.builds(LimitRaised, name=st.sampled_from(["iterations", "usd"]), value=st.none() | st.integers(1, 9)),
    st.builds(Termination, reason=st.sampled_from(["done", "failed"]), detail=st.none() | text, value=values),
)


def sealed(body: Body, tip: Tip | None = None) -> Event:
    return seal(body, tip or Tip("g"), event_id="0192", iteration=1, timestamp_us=1_700_000_000_123_456)


@given(bodies)
def test_a_body_is_read_back_as_it_was_written(body: Body) -> None:
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
    second = sealed(Message("two"), Tip("g", 1, first.hash))
    other_first = sealed(Message("1"))
    assert expected_hash(second, first.hash) == second.hash
    assert expected_hash(second, other_first.hash) != second.hash
    assert second.seq == 2


def test_the_wire_form_is_the_one_of_the_specification() -> None:
    assert sealed(ToolCall("c1", "fetch", "exec", {"argv": ["true"]}, "once")).wire() | {"hash": ""} == {
        "v": 2,
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
            "attempt": 1,
        },
        "hash": "",
    }


def test_the_goal_event_carries_only_what_its_mind_was_given() -> None:
    _, payload = encode(GoalBegun("echo hello", MindSpec("command", shell=True), workdir="/w"))
    assert json.loads(payload) == {
        "text": "echo hello",
        "mind": {"kind": "command", "shell": True},
        "bot": None,
        "limits": {"iterations": None, "tokens": None, "usd": None, "seconds": None},
        "workdir": "/w",
        "forked_from": None,
        "parent": None,
        "voided": [],
        "tags": [],
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
        ("action", '{"kind": "dance"}'),
        ("nonsense", "{}"),
        ("termination", '{"why": 1}'),
        ("goal", '{"text": "x"}'),
        ("goal", '{"text": "x", "mind": 3}'),
    ],
)
def test_an_event_that_cannot_be_read_is_named_by_its_seq(name: str, payload: str) -> None:
    event = Event("g", 7, "id", name, 1, 1, payload, NO_HASH)
    with pytest.raises(Damaged, match="Event 7 of g"):
        decode(event)


def test_an_event_of_a_newer_version_is_refused() -> None:
    event = replace(seal(Message("x"), Tip("g"), event_id="e", iteration=0, timestamp_us=0), v=SCHEMA_VERSION + 1)
    with pytest.raises(Conflict, match="newer Perdure"):
        decode(event)


@pytest.mark.parametrize("moment", [9 * 10**18, -(10**18), 2**63])
def test_a_moment_that_no_calendar_has_is_written_anyway(moment: int) -> None:
    assert iso(moment).endswith("Z")
