"""The builder over REST and over its socket: one engine, one draft."""

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import InvalidStatus

from perdure.client import Client
from perdure.interfaces.api.server import Running
from tests.interfaces.api.talks import ready as ready_session
from tests.interfaces.api.test_streams import heard, opened

SESSIONS = "/api/v1/builder/sessions"
NOBODY = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab"
FIRST = {"answer": {"option_index": 0}}


async def begun(known: httpx.AsyncClient, description: str = "a timer for pasta", **headers: str) -> dict[str, Any]:
    answer = await known.post(SESSIONS, json={"description": description}, headers=headers)
    assert answer.status_code == 201
    found: dict[str, Any] = answer.json()["data"]
    return found


async def said(known: httpx.AsyncClient, session_id: str) -> dict[str, Any]:
    """Answer every turn with its first option, until the bot can be built; return that turn."""
    while True:
        turn = (await known.get(f"{SESSIONS}/{session_id}")).json()["data"]["turn"]
        if turn["action"] == "ready_to_assemble":
            found: dict[str, Any] = turn
            return found
        assert turn["action"] == "ask_question"
        assert turn["preview"].keys() >= {"name", "description", "model", "skills", "phase"}
        assert (await known.post(f"{SESSIONS}/{session_id}/answer", json=FIRST)).status_code == 200


async def test_a_bot_is_made_over_rest(known: httpx.AsyncClient) -> None:
    session = await begun(known)
    assert session.keys() == {"session_id", "mode", "turn"}
    here = f"{SESSIONS}/{session['session_id']}"
    shown = (await known.get(here)).json()["data"]
    keys = {"session_id", "mode", "phase", "initial_description", "question_count", "revision", "turn"}
    assert shown.keys() == keys | {"preview", "conversation", "earlier", "engine"}
    assert (shown["conversation"], shown["preview"]) == ([], shown["turn"]["preview"])
    assert shown["turn"] == session["turn"]
    answered = (await known.post(f"{here}/answer", json=FIRST)).json()["data"]
    assert answered.keys() == {"turn", "state_summary"}
    assert answered["state_summary"].keys() == {"phase", "question_count"}
    assert (await known.post(f"{here}/assemble", json={})).status_code == 409
    drafts = (await known.get("/api/v1/builder/drafts")).json()["data"]
    assert session["session_id"] in [draft["session_id"] for draft in drafts]
    ready = await said(known, session["session_id"])
    key = {"Idempotency-Key": str(uuid4())}
    made = await known.post(f"{here}/assemble", json={"config": ready["config"]}, headers=key)
    assert made.status_code == 200
    assert (await known.post(f"{here}/assemble", json={}, headers=key)).status_code == 422
    result = made.json()["data"]["result"]
    gone = await known.get(here)
    assert gone.status_code == 410
    assert gone.json()["_links"]["bot"].endswith(result["bot_slug"])
    again = await known.post(f"{here}/assemble", json={"config": ready["config"]})
    assert (again.status_code, again.json()["data"]["result"]) == (200, result)
    assert (await known.post(f"{here}/answer", json=FIRST)).status_code == 410
    new = f"{SESSIONS}/{uuid4()}"
    changed = await known.post(f"{new}/reconfigure", json={"bot_slug": result["bot_slug"]})
    assert changed.status_code == 201
    assert changed.json()["data"]["mode"] == "reconfigure"
    assert (await known.post(f"{new}/reconfigure", json={"bot_slug": result["bot_slug"]})).status_code == 409
    assert (await known.post(f"{SESSIONS}/x/reconfigure", json={"bot_slug": "x"})).status_code == 404
    deleted = await known.delete(new)
    assert deleted.json()["data"] == {"deleted": True, "session_id": new.rpartition("/")[2]}
    assert (await known.delete(new)).status_code == 404


async def test_a_stale_if_match_is_refused_with_the_present_state(known: httpx.AsyncClient) -> None:
    session = await begun(known)
    here = f"{SESSIONS}/{session['session_id']}"
    etag = (await known.get(here)).headers["etag"]
    first = await known.post(f"{here}/answer", json=FIRST, headers={"If-Match": etag})
    assert first.status_code == 200
    stale = await known.post(f"{here}/answer", json=FIRST, headers={"If-Match": etag})
    assert stale.status_code == 412
    assert stale.json()["current"]["turn"] == first.json()["data"]["turn"]
    for wrong in ('"1"', 'W/"1"', '"x"', '""', '"99999999999999999999"', '"1", "7", W/"1"'):
        assert (await known.post(f"{here}/answer", json=FIRST, headers={"If-Match": wrong})).status_code == 412
    fresh = await known.post(f"{here}/answer", json=FIRST, headers={"If-Match": first.headers["etag"]})
    assert fresh.status_code == 200
    assert (await known.post(f"{here}/answer", json={"answer": 7}, headers={"If-Match": "*"})).status_code == 422


@pytest.mark.parametrize("wanted", ['"7", "1"', '"x","1" , "2"', 'W/"1"', ', "1",', '"a,b", W/"1"', "*"])
async def test_an_if_match_with_several_or_weak_tags_matches_when_one_of_them_does(
    known: httpx.AsyncClient, wanted: str
) -> None:
    here = f"{SESSIONS}/{(await begun(known))['session_id']}"
    assert (await known.post(f"{here}/answer", json=FIRST, headers={"If-Match": wanted})).status_code == 200


@pytest.mark.parametrize(
    "broken", ["1", "", '"1', '"1" "2"', "W/1", 'w/"1"', '*, "1"', '"1"; "2"', ",".join(33 * ['"1"'])]
)
async def test_an_if_match_that_cannot_be_read_is_refused_as_such(known: httpx.AsyncClient, broken: str) -> None:
    here = f"{SESSIONS}/{(await begun(known))['session_id']}"
    answer = await known.post(f"{here}/answer", json=FIRST, headers={"If-Match": broken})
    assert answer.status_code == 422
    assert "If-Match" in answer.json()["detail"]
    assert (await known.get(here)).json()["data"]["revision"] == 1


async def test_the_same_key_answers_once(known: httpx.AsyncClient) -> None:
    key = str(uuid4())
    session = await begun(known, **{"Idempotency-Key": key})
    assert (await begun(known, **{"Idempotency-Key": key}))["session_id"] == session["session_id"]
    here = f"{SESSIONS}/{session['session_id']}"
    headers = {"Idempotency-Key": str(uuid4())}
    many = await asyncio.gather(*[known.post(f"{here}/answer", json=FIRST, headers=headers) for _ in range(6)])
    assert {answer.status_code for answer in many} == {200}
    assert len({json.dumps(answer.json()["data"]) for answer in many}) == 1
    assert (await known.get(here)).json()["data"]["revision"] == 2
    other = await known.post(f"{here}/answer", json={"answer": {"option_index": 1}}, headers=headers)
    assert other.status_code == 422
    assert (await known.post(SESSIONS, json={"description": "x"}, headers=headers)).status_code == 422


@pytest.mark.parametrize(
    "body",
    [{}, {"answer": None}, {"answer": 7}, {"answer": {"option_index": 99}}, {"answer": {"confirm": True}}, {"x": 1}],
    ids=str,
)
async def test_an_answer_that_does_not_fit_changes_nothing(known: httpx.AsyncClient, body: dict[str, Any]) -> None:
    here = f"{SESSIONS}/{(await begun(known))['session_id']}"
    before = (await known.get(here)).json()["data"]
    assert (await known.post(f"{here}/answer", json=body)).status_code == 422
    assert (await known.get(here)).json()["data"] == before


async def test_a_session_that_is_not_there_is_not_found(known: httpx.AsyncClient) -> None:
    for name in ("x", str(uuid4()), "%00", "..", "%2e%2e%2f", "a" * 3000):
        assert (await known.get(f"{SESSIONS}/{name}")).status_code in (404, 422), name
        assert (await known.post(f"{SESSIONS}/{name}/answer", json=FIRST)).status_code in (404, 422), name


async def test_the_answers_after_a_step_back_are_kept_over_rest_and_the_socket(
    server: Running, token: str, known: httpx.AsyncClient
) -> None:
    session_id = (await begun(known))["session_id"]
    await said(known, session_id)
    here = f"{SESSIONS}/{session_id}"
    before = (await known.get(here)).json()["data"]["conversation"]
    turn = (await known.post(f"{here}/answer", json={"answer": {"back": "basics"}})).json()["data"]["turn"]
    shown = (await known.get(here)).json()["data"]
    assert (shown["conversation"], shown["earlier"], shown["turn"]) == ([], before, turn)
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        for exchange in before:
            turn = (await heard(socket))["turn"]
            assert turn["earlier"]["answer"] == exchange["answer"]
            ids = [option["id"] for option in turn["options"]]
            answer = {"option_indexes": [ids.index(each) for each in turn["earlier"]["option_ids"]]}
            await socket.send(json.dumps({"type": "answer", "answer": answer}))
        assert (await heard(socket))["turn"]["action"] == "ready_to_assemble"
    shown = (await known.get(here)).json()["data"]
    assert (shown["conversation"], shown["earlier"]) == (before, [])


async def test_a_chat_drops_and_reconnects_to_the_same_turn_and_rest_sees_the_same(
    server: Running, token: str, known: httpx.AsyncClient
) -> None:
    session_id = str(uuid4())
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        await socket.send(json.dumps({"type": "start", "description": "a timer for pasta", "id": "a"}))
        first = await heard(socket)
        assert (first["type"], first["revision"], first["reply_to"]) == ("turn", 1, "a")
        await socket.send(json.dumps({"type": "answer", "answer": {"option_index": 0}}))
        second = await heard(socket)
        socket.transport.abort()
    shown = (await known.get(f"{SESSIONS}/{session_id}")).json()["data"]
    assert (shown["turn"], shown["revision"]) == (second["turn"], 2)
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        again = await heard(socket)
        assert {key: again[key] for key in second} == second
        assert (again["conversation"], again["preview"]) == (shown["conversation"], shown["preview"])
        assert [each["answer"] for each in again["conversation"]] == [first["turn"]["options"][0]["label"]]
        await socket.send(json.dumps({"type": "resume"}))
        assert await heard(socket) == again
        await socket.send(json.dumps({"type": "start", "description": "another", "id": "b"}))
        refused = await heard(socket)
        assert (refused["type"], refused["code"], refused["turn"]) == ("error", "conflict", second["turn"])


async def test_an_answer_over_rest_makes_the_sockets_next_answer_a_conflict_with_the_current_turn(
    server: Running, token: str, known: httpx.AsyncClient
) -> None:
    session_id = (await begun(known))["session_id"]
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        await heard(socket)
        answered = await known.post(f"{SESSIONS}/{session_id}/answer", json=FIRST)
        await socket.send(json.dumps({"type": "answer", "answer": {"option_index": 0}, "id": "x"}))
        conflict = await heard(socket)
        assert (conflict["type"], conflict["code"], conflict["revision"]) == ("error", "conflict", 2)
        assert conflict["turn"] == answered.json()["data"]["turn"]
        await socket.send(json.dumps({"type": "answer", "answer": {"option_index": 0}, "id": "x"}))
        assert await heard(socket) == conflict
        await socket.send(json.dumps({"type": "answer", "answer": {"confirm": True}, "id": "y"}))
        assert (await heard(socket))["type"] in ("turn", "error")


async def test_a_frame_that_is_sent_again_on_a_new_socket_is_done_once(server: Running, token: str) -> None:
    session_id = str(uuid4())
    start = json.dumps({"type": "start", "description": "a timer for pasta", "id": "1"})
    answer = json.dumps({"type": "answer", "answer": {"option_index": 0}, "id": "2"})
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        await socket.send(start)
        await heard(socket)
        await socket.send(answer)
        second = await heard(socket)
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        await heard(socket)
        for frame in (answer, start):
            await socket.send(frame)
            again = await heard(socket)
            assert (again["turn"], again["revision"]) == (second["turn"], 2)


@pytest.mark.parametrize(
    "frame",
    [
        *(
            "",
            "{",
            "[]",
            "null",
            '"x"',
            "{}",
            '{"type": "fly"}',
            '{"type": "start"}',
            '{"type": "ping", "x": 1}',
            "NaN",
        ),
        *('{"type": "answer", "answer": 1e999}', '{"type": "start", "description": "\\u0000"}', "[" * 200),
        *('{"type": "start", "description": "\\ud800"}', '{"type": "ping", "id": ""}', b"\0\xff", "[" * 100_000),
    ],
    ids=lambda frame: repr(frame)[:40],
)
async def test_a_frame_that_is_invalid_leaves_the_socket_usable(
    server: Running, token: str, frame: str | bytes
) -> None:
    async with opened(server, token, f"/ws/builder/{uuid4()}") as socket:
        await socket.send(frame)
        refused = await heard(socket)
        assert refused["type"] == "error"
        assert refused["code"] in ("invalid", "broken_json")
        await socket.send(json.dumps({"type": "ping", "id": "p"}))
        assert await heard(socket) == {"type": "pong", "reply_to": "p"}


@pytest.mark.parametrize(
    ("frame", "reply_to"),
    [
        ({"type": "fly", "id": "a"}, "a"),
        ({"type": "start", "id": "b"}, "b"),
        ({"type": "ping", "id": 3}, 3),
        ({"type": "ping", "id": "x" * 101}, None),
        ({"type": "ping", "id": ["c"]}, None),
        ({"type": "answer", "answer": {"free_text": "a\0b"}, "id": "d"}, "d"),
        ({"type": "answer", "answer": {"free_text": "\ud800"}, "id": "e"}, "e"),
        ({"type": "answer", "answer": {"option_index": 2**63}, "id": "f"}, "f"),
    ],
)
async def test_the_refusal_of_a_frame_is_a_reply_to_its_id(
    server: Running, token: str, frame: dict[str, Any], reply_to: str | int | None
) -> None:
    async with opened(server, token, f"/ws/builder/{uuid4()}") as socket:
        await socket.send(json.dumps(frame))
        refused = await heard(socket)
        assert (refused["code"], refused.get("reply_to")) == ("invalid", reply_to)
        await socket.send("{")
        assert (await heard(socket))["message"].startswith("The frame is not JSON")


async def test_a_socket_of_something_that_is_no_uuid_is_refused(server: Running, token: str) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with opened(server, token, "/ws/builder/not-a-uuid"):
            pass
    assert refused.value.response.status_code == 404


async def test_a_session_that_has_begun_cannot_begin_again(
    server: Running, token: str, known: httpx.AsyncClient
) -> None:
    session_id = (await begun(known))["session_id"]
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        pending = await heard(socket)
        await socket.send(json.dumps({"type": "start", "description": "another"}))
        refused = await heard(socket)
    assert (refused["code"], refused["turn"]) == ("conflict", pending["turn"])
    assert refused["message"].startswith(f"The draft {session_id} exists.")


async def test_a_bot_is_made_over_the_socket(server: Running, token: str, known: httpx.AsyncClient) -> None:
    session_id = (await begun(known))["session_id"]
    ready = await said(known, session_id)
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        assert (await heard(socket))["turn"]["action"] == "ready_to_assemble"
        await socket.send(json.dumps({"type": "assemble", "config": ready["config"], "id": "go"}))
        made = await heard(socket)
        assert (made["type"], made["reply_to"]) == ("assembled", "go")
        await socket.send(json.dumps({"type": "resume"}))
        assert (await heard(socket))["code"] == "over"
        await socket.send(json.dumps({"type": "Reconfigure", "description": "another tone", "id": "change"}))
        change = await heard(socket)
        assert change["session_id"] != session_id
        assert change["turn"]["question"] == "How should it speak?"
        await socket.send(json.dumps({"type": "answer", "answer": {"free_text": "warm"}}))
        ready = await heard(socket)
        assert ready["turn"]["config"]["personality"]["tone"] == "warm"
        assert ready["turn"]["preview"]["personality_summary"].startswith("warm")
        await socket.send(json.dumps({"type": "assemble"}))
        assert (await heard(socket))["result"]["version"] == 2
    own = await known.post(f"{SESSIONS}/{session_id}/reconfigure", json={})
    assert (own.status_code, own.json()["data"]["mode"]) == (201, "reconfigure")
    nobody = await known.post(f"{SESSIONS}/{uuid4()}/reconfigure", json={})
    assert nobody.status_code == 422


@pytest.mark.parametrize("start", ["start", "Start", "start_bot", "StartBot"])
async def test_frames_are_read_in_snake_case_and_pascal_case(server: Running, token: str, start: str) -> None:
    is_pascal = start[0].isupper()
    async with opened(server, token, f"/ws/builder/{uuid4()}") as socket:
        for sent, type_ in (
            ({"type": start, "description": "a timer for pasta"}, "turn"),
            ({"type": "Answer" if is_pascal else "answer", "answer": {"FreeText": "Ada"}}, "turn"),
            ({"type": "Resume" if is_pascal else "resume"}, "turn"),
            ({"type": "Ping" if is_pascal else "ping"}, "pong"),
            ({"type": "Assemble" if is_pascal else "assemble"}, "error"),
        ):
            await socket.send(json.dumps(sent))
            reply = await heard(socket)
            assert reply["type"] == type_
        assert reply["code"] == "conflict"
        await socket.send(json.dumps({"type": "STARTBOT", "description": "x"}))
        assert (await heard(socket))["code"] == "invalid"


async def test_the_frames_about_what_exists_are_read_in_snake_case_and_pascal_case(server: Running, token: str) -> None:
    async with opened(server, token, f"/ws/builder/{uuid4()}") as socket:
        for type_, more in (("Reconfigure", {"bot_slug": "none"}), ("CreateSkill", {"skill_request": {"name": "x"}})):
            snake = {"Reconfigure": "reconfigure", "CreateSkill": "create_skill"}[type_]
            replies = []
            for spelled in (type_, snake):
                await socket.send(json.dumps({"type": spelled, **more}))
                replies.append(await heard(socket))
            assert replies[0] == replies[1]
            assert "type" not in replies[0]["message"], "the frame was read, and refused for what it says"


@pytest.mark.parametrize("type_", ["start_skill", "StartSkill"])
async def test_a_skill_is_made_over_the_socket_without_a_session(server: Running, token: str, type_: str) -> None:
    name = f"tea-{uuid4().hex[:8]}"
    async with opened(server, token, f"/ws/builder/{uuid4()}") as socket:
        frame = {"type": type_, "description": "Knows how long each tea takes", "name": name, "id": "s"}
        await socket.send(json.dumps(frame))
        made = await heard(socket)
        assert (made["type"], made["result"]["name"], made["reply_to"]) == ("skill_created", name, "s")


async def test_a_draft_is_deleted_only_as_it_was_seen(known: httpx.AsyncClient) -> None:
    session = await begun(known)
    here = f"{SESSIONS}/{session['session_id']}"
    await known.post(f"{here}/answer", json=FIRST)
    refused = await known.delete(here, headers={"If-Match": '"1"'})
    assert (refused.status_code, refused.json()["current"]["revision"]) == (412, 2)
    assert (await known.delete(here, headers={"If-Match": '"2"'})).status_code == 200
    assert (await known.delete(here, headers={"If-Match": '"2"'})).status_code == 404


async def test_a_page_of_drafts_continues_after_its_last_one_was_changed_or_deleted(known: httpx.AsyncClient) -> None:
    ids = [(await begun(known))["session_id"] for _ in range(4)][::-1]
    for change in ("answer", "delete"):
        page = (await known.get("/api/v1/builder/drafts?limit=2")).json()
        last = page["data"][-1]["session_id"]
        if change == "answer":
            await known.post(f"{SESSIONS}/{last}/answer", json=FIRST)
        else:
            await known.delete(f"{SESSIONS}/{last}")
        rest = (await known.get(page["_links"]["next"].replace("limit=2", "limit=500"))).json()
        assert not {each["session_id"] for each in rest["data"]} & {each["session_id"] for each in page["data"]}
        assert {each["session_id"] for each in rest["data"]} >= set(ids[2:]) - {last}


async def test_a_session_that_has_made_its_bot_reports_so_to_a_client_that_deletes_or_builds_it_again(
    known: httpx.AsyncClient,
) -> None:
    session = await begun(known)
    here = f"{SESSIONS}/{session['session_id']}"
    while (await known.get(here)).json()["data"]["turn"]["action"] != "ready_to_assemble":
        action = (await known.get(here)).json()["data"]["turn"]["action"]
        await known.post(f"{here}/answer", json=FIRST if action == "ask_question" else {"answer": {"confirm": True}})
    made = (await known.post(f"{here}/assemble", json={})).json()["data"]["result"]
    again = await known.post(f"{here}/assemble", json={"config": {}})
    assert (again.status_code, again.json()["data"]["result"]) == (200, made)
    gone = await known.delete(here)
    assert gone.status_code == 410
    assert gone.json()["_links"]["bot"] == f"/api/v1/bots/{made['bot_slug']}"
    await known.delete(f"/api/v1/bots/{made['bot_slug']}")


async def test_a_socket_on_a_session_that_has_made_its_bot_is_notified_on_connect(
    known: httpx.AsyncClient, client: Client, server: Running, token: str
) -> None:
    session_id = await ready_session(client)
    made = await client.builder.assemble(session_id)
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        told = await heard(socket)
        assert (told["type"], told["result"]) == ("assembled", made)
        await socket.send(json.dumps({"type": "start", "description": "another"}))
        refused = await heard(socket)
        assert (refused["type"], refused["code"]) == ("error", "conflict")
        assert made["bot_slug"] in refused["message"]
    await known.delete(f"/api/v1/bots/{made['bot_slug']}")


@pytest.mark.parametrize("session_id", ["x", NOBODY, NOBODY.replace("-", ""), f"{{{NOBODY}}}", f"urn:uuid:{NOBODY}"])
async def test_a_session_that_does_not_exist_is_404_whatever_is_sent(
    known: httpx.AsyncClient, server: Running, token: str, session_id: str
) -> None:
    here = f"{SESSIONS}/{session_id}"
    calls = [known.get(here), known.post(f"{here}/answer", json={"answer": 5}), known.delete(here)]
    calls.append(known.post(f"{here}/assemble", json={"config": {}}))
    assert {answer.status_code for answer in await asyncio.gather(*calls)} == {404}
    if session_id != NOBODY:
        assert (await known.post(f"{here}/reconfigure", json={"bot_slug": "x"})).status_code == 404
        with pytest.raises(InvalidStatus):
            async with opened(server, token, f"/ws/builder/{session_id}"):
                pass


async def test_a_turn_that_is_sent_again_is_what_the_next_answer_is_about(server: Running, token: str) -> None:
    async with opened(server, token, f"/ws/builder/{uuid4()}") as socket:
        for frame in (
            {"type": "start", "description": "a timer for pasta"},
            {"type": "resume", "id": "x1"},
            {"type": "answer", "answer": {"free_text": "Ada"}},
            {"type": "resume", "id": "x1"},
        ):
            await socket.send(json.dumps(frame))
            told = await heard(socket)
        assert told["revision"] == 1
        await socket.send(json.dumps({"type": "answer", "answer": {"confirm": True}}))
        conflict = await heard(socket)
        assert (conflict["code"], conflict["revision"]) == ("conflict", 2)


async def test_an_id_that_was_used_for_another_frame_is_refused_on_the_same_socket(server: Running, token: str) -> None:
    async with opened(server, token, f"/ws/builder/{uuid4()}") as socket:
        for frame, answered in (
            ({"type": "start", "description": "a timer for pasta", "id": "1"}, "turn"),
            ({"type": "answer", "answer": {"free_text": "Ada"}, "id": "1"}, "key_taken"),
            ({"type": "answer", "answer": {"free_text": "Ada"}, "id": "2"}, "turn"),
            ({"type": "answer", "answer": {"free_text": "Bob"}, "id": "2"}, "key_taken"),
            ({"type": "answer", "answer": {"free_text": "Ada"}, "id": "2"}, "turn"),
        ):
            await socket.send(json.dumps(frame))
            told = await heard(socket)
            assert (told.get("code", told["type"]), told["reply_to"]) == (answered, frame["id"])
        assert told["revision"] == 2


async def test_a_rejected_answer_that_is_sent_again_does_not_answer_the_turn_that_its_rejection_names(
    server: Running, token: str, known: httpx.AsyncClient
) -> None:
    session_id = (await begun(known))["session_id"]
    async with opened(server, token, f"/ws/builder/{session_id}") as socket:
        await heard(socket)
        await known.post(f"{SESSIONS}/{session_id}/answer", json=FIRST)
        for _ in range(2):
            await socket.send(json.dumps({"type": "answer", "answer": {"free_text": "Ada"}, "id": "late"}))
            told = await heard(socket)
            assert (told["code"], told["revision"], told["reply_to"]) == ("conflict", 2, "late")
    assert (await known.get(f"{SESSIONS}/{session_id}")).json()["data"]["revision"] == 2


async def test_choices_are_listed_page_by_page_and_removed(known: httpx.AsyncClient) -> None:
    for _ in range(2):
        session_id = (await begun(known))["session_id"]
        await said(known, session_id)
        assert (await known.post(f"{SESSIONS}/{session_id}/assemble", json={})).status_code == 200
    choices = "/api/v1/builder/choices"
    first = (await known.get(choices, params={"limit": 1})).json()
    [newest] = first["data"]
    assert newest.keys() >= {"id", "category", "tone", "model", "skills", "bot_slug", "created_at"}
    rest = (await known.get(choices, params={"limit": 1, "cursor": first["meta"]["next_cursor"]})).json()["data"]
    assert rest[0]["id"] < newest["id"]
    assert (await known.delete(f"{choices}/{newest['id']}")).json()["data"] == {"removed": 1}
    assert (await known.delete(f"{choices}/{newest['id']}")).status_code == 404
    assert (await known.delete(choices)).json()["data"]["removed"] >= 1
    assert (await known.get(choices)).json()["data"] == []
