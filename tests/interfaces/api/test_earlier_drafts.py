"""Drafts that an earlier version wrote, over HTTP and the socket: shown, answered and built."""

import json

import pytest

from tests.forge.test_earlier_drafts import EARLIER, NEW_BOTS, kept
from tests.interfaces.api.serving import Served
from tests.interfaces.api.test_streams import heard, opened


@pytest.mark.parametrize("name", EARLIER)
async def test_an_earlier_draft_is_shown_whole_by_get_and_by_resume(there: Served, name: str) -> None:
    session_id, written = (await kept(there.p, name)).session_id, EARLIER[name]
    answer = await there.http.get(f"/builder/sessions/{session_id}")
    shown = answer.json()["data"]
    assert (answer.status_code, answer.headers["etag"], shown["revision"]) == (200, '"1"', 1)
    for key in ("action", "question", "options"):
        assert shown["turn"].get(key) == written["pending_turn"].get(key)
    assert [each["answer"] for each in shown["conversation"]] == [each["answer"] for each in written["conversation"]]
    assert shown["preview"]["description"]
    assert session_id in [each["session_id"] async for each in there.client.builder.drafts()]
    token = there.http.headers["authorization"].removeprefix("Bearer ")
    async with opened(there.server, token, f"/ws/builder/{session_id}") as socket:
        await socket.send(json.dumps({"type": "resume"}))
        again = await heard(socket)
    assert {key: again[key] for key in ("turn", "conversation", "preview")} == {
        key: shown[key] for key in ("turn", "conversation", "preview")
    }


@pytest.mark.parametrize("says_yes", [True, False])
async def test_an_earlier_preview_is_answered_by_yes_or_no_and_leads_to_a_bot(there: Served, *, says_yes: bool) -> None:
    here = f"/builder/sessions/{(await kept(there.p, 'preview')).session_id}"
    refused = await there.http.post(f"{here}/answer", json={"answer": {"option_index": 0}})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    unchanged = (await there.http.get(here)).json()["data"]
    assert (unchanged["turn"]["action"], unchanged["revision"]) == ("show_preview", 1)
    answer = await there.http.post(
        f"{here}/answer", json={"answer": {"confirm": says_yes}}, headers={"If-Match": '"1"'}
    )
    turn = answer.json()["data"]["turn"]
    assert turn["action"] == "ask_question"
    assert turn["question"] == ("How should it speak?" if says_yes else "What should it be called?")
    while turn["action"] == "ask_question":
        turn = (await there.http.post(f"{here}/answer", json={"answer": {"option_index": 0}})).json()["data"]["turn"]
    made = await there.http.post(f"{here}/assemble", json={"config": turn["config"]})
    assert made.json()["data"]["result"]["bot_slug"] == ("ada" if says_yes else "coding-assistant")


@pytest.mark.parametrize("name", NEW_BOTS)
async def test_an_earlier_draft_is_deleted(there: Served, name: str) -> None:
    here = f"/builder/sessions/{(await kept(there.p, name)).session_id}"
    assert (await there.http.delete(here)).status_code == 200
    assert (await there.http.get(here)).status_code == 404
