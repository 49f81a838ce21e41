"""An approval names what was shown of the call: over HTTP, on both databases."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from perdure import Conflict, Invalid
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer, ScriptedCall
from tests.interfaces.api.serving import Served
from tests.interfaces.api.test_approvals import asking_thrice

MODEL = "openai:scripted"


@pytest.fixture(autouse=True)
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer(Script(order="turns")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "key-of-a-test")
        yield server


async def asked(there: Served, model_server: ModelServer, *argv: str) -> dict[str, Any]:
    """Return the approval that a new conversation waits for."""
    call = ScriptedCall("exec", {"argv": [*argv]})
    model_server.script.add(ScriptedAnswer(calls=(call,)), ScriptedAnswer("Done."))
    goal = await there.client.conversations.start("Run it.", model=MODEL)
    while (await there.client.goals.get(goal["id"]))["waiting_for"] != "person":
        await there.p.goals.pause()
    (found,) = (each for each in await there.client.goals.approvals() if each["goal_id"] == goal["id"])
    return dict(found)


async def test_an_approval_shows_the_call_with_the_hash_of_its_canonical_json(
    there: Served, model_server: ModelServer
) -> None:
    found = await asked(there, model_server, "echo", "grüße")
    goal = await there.client.goals.get(found["goal_id"])
    assert found["shown"] == {
        "tool": "exec",
        "arguments": {"argv": ["echo", "grüße"]},
        "effect": "once",
        "workdir": goal["workdir"],
        "network": None,
        "sandbox": None,
        "secrets": [],
    }
    canonical = json.dumps(found["shown"], sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert found["shown_sha256"] == hashlib.sha256(canonical).hexdigest()


async def test_an_approval_without_the_hash_or_with_another_one_is_not_recorded(
    there: Served, model_server: ModelServer
) -> None:
    first = await asked(there, model_server, "echo", "1")
    second = await asked(there, model_server, "echo", "2")
    goal_id, call_id = first["goal_id"], first["call_id"]
    decide = there.client.goals.decide
    with pytest.raises(Invalid, match="`shown_sha256` is missing"):
        await decide(goal_id, "approve", call_id=call_id)
    with pytest.raises(Conflict, match="`shown_sha256` does not match call"):
        await decide(goal_id, "approve", call_id=call_id, shown_sha256=second["shown_sha256"])
    with pytest.raises(Invalid, match="pattern"):
        await decide(goal_id, "approve", call_id=call_id, shown_sha256="0")
    wide = {"decision": "approve", "call_id": call_id, "shown_sha256": first["shown_sha256"], "scope": "goal"}
    assert (await there.http.post(f"/goals/{goal_id}/decisions", json=wide)).status_code == 422
    assert (await there.client.goals.get(goal_id))["waiting_for"] == "person"
    for _ in range(2):
        goal = await decide(goal_id, "approve", call_id=call_id, shown_sha256=first["shown_sha256"], key="once")
        assert goal["id"] == goal_id
    while (await there.client.goals.get(goal_id))["waiting_for"] != "message":
        await there.p.goals.pause()


async def test_a_denial_needs_no_hash_and_is_checked_against_one(there: Served, model_server: ModelServer) -> None:
    found = await asked(there, model_server, "true")
    with pytest.raises(Conflict, match="`shown_sha256` does not match call"):
        await there.client.goals.decide(found["goal_id"], "deny", shown_sha256="0" * 64)
    assert await there.client.goals.decide(found["goal_id"], "deny")


async def test_a_question_shows_nothing_to_approve(there: Served) -> None:
    await asking_thrice(there.client)
    found = await there.client.goals.approvals()
    assert [(each["shown"], each["shown_sha256"]) for each in found] == [(None, None)] * len(found)
    assert found
