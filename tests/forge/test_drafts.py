"""Drafts: what is kept of a state, what an older one becomes, and what is refused."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from perdure import Conflict, Damaged
from perdure.forge.drafts import UPGRADES, decode_draft, encode_draft
from perdure.forge.interview.interview import resume_interview, start_reconfiguration
from perdure.forge.ports import DRAFT_VERSION, BuilderDraft
from perdure.forge.state import BuilderState, Target
from perdure.forge.turns import ReadyToAssemble
from tests.forge.test_interview import DESCRIPTIONS, HERE, begun, run


def as_version_0(state: BuilderState) -> BuilderDraft:
    """Write a state as version 0 did: of what is asked only the texts, and `about` instead of `slot`."""
    content = orjson.loads(state.text())
    turn = content.pop("pending_turn")
    del content["pending_slot"]
    content |= {"question": turn.get("question"), "options": [each["label"] for each in turn.get("options", [])]}
    for exchange in content["conversation"]:
        exchange["about"] = exchange.pop("slot")
    return replace(encode_draft(state), state_json=orjson.dumps(content).decode(), schema_version=0)


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_every_state_of_an_interview_comes_back_from_its_draft(description: str) -> None:
    for state in run(begun(description)):
        draft = encode_draft(state)
        assert decode_draft(draft) == state
        assert (draft.session_id, draft.phase, draft.mode) == (state.session_id, state.phase, state.mode)
        assert draft.question_count == len(state.conversation)


@pytest.mark.parametrize("description", DESCRIPTIONS)
def test_a_draft_of_version_0_becomes_todays_and_asks_the_same_again(description: str) -> None:
    for state in run(begun(description)):
        brought_up = decode_draft(as_version_0(state))
        assert brought_up.conversation == state.conversation
        assert resume_interview(brought_up) == state


def test_a_reconfiguration_of_version_0_is_taken_up_too() -> None:
    end = run(begun("I want a coding assistant"))[-1]
    assert isinstance(end.pending_turn, ReadyToAssemble)
    target = Target(bot_id="b", slug="ada", config=end.pending_turn.config.wire(), version=1)
    for state in run(start_reconfiguration("s", "", HERE, target)):
        assert resume_interview(decode_draft(as_version_0(state))) == state


def test_there_is_a_step_from_every_earlier_version() -> None:
    assert sorted(UPGRADES) == list(range(DRAFT_VERSION))


def test_a_newer_draft_is_refused_by_name() -> None:
    newer = replace(encode_draft(begun("timer")), session_id="the-one", schema_version=DRAFT_VERSION + 1)
    with pytest.raises(Conflict, match=f"the-one has version {DRAFT_VERSION + 1}.*not changed"):
        decode_draft(newer)


def changed(**changes: Any) -> str:
    return orjson.dumps(orjson.loads(begun("timer").text()) | changes).decode()


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "[]", '"text"', "{}", "\ud800", "[" * 100_000),
        changed(session_id="another"),
        changed(phase="nowhere"),
        changed(conversation=[{"question": "?"}]),
        changed(conversation=7),
        changed(unknown=1),
        changed(pending_turn={"action": "explode"}, question="?", options=[1]),
    ],
)
def test_a_damaged_draft_is_named(text: str, version: int) -> None:
    broken = replace(encode_draft(begun("timer")), state_json=text, schema_version=version)
    with pytest.raises(Damaged, match="The draft s is damaged and was not changed"):
        decode_draft(broken)


def test_a_version_that_never_was_is_damaged() -> None:
    with pytest.raises(Damaged, match="version -1"):
        decode_draft(replace(encode_draft(begun("timer")), schema_version=-1))
