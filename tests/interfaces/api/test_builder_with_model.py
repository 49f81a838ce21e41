"""Interviews that a model leads, over REST and over the socket of the builder."""

from typing import Any

import httpx
import pytest

from perdure.client import Client
from perdure.interfaces.api.server import Running
from perdure.testing.model_server import ModelServer, ScriptedAnswer
from perdure.testing.model_server.script import Order
from tests.interfaces.api.test_streams import heard, opened

SESSIONS = "/api/v1/builder/sessions"
WISH = "A coding assistant for my team"
FIRST = {"answer": {"option_index": 0}}
SESSION = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab"


def proposes(question: str, *labels: str) -> ScriptedAnswer:
    options = [{"id": None, "label": label, "description": "it fits"} for label in labels]
    data = {"stated": [], "slot": "coding.task", "question": question, "options": options}
    return ScriptedAnswer(data={**data, "suggested": None, "reason": ""})


@pytest.fixture
def answer_order() -> Order:
    return "requests"


@pytest.fixture
async def builder(default_model: ModelServer, known: httpx.AsyncClient) -> httpx.AsyncClient:
    """A client of a server whose home has a model."""
    assert default_model.url
    return known


async def test_the_model_leads_unless_the_engine_is_named(
    model_server: ModelServer, builder: httpx.AsyncClient
) -> None:
    model_server.script.add(proposes("What will it do most?", "Review", "Test"))
    led = await builder.post(SESSIONS, json={"description": WISH})
    assert led.status_code == 201
    turn = led.json()["data"]["turn"]
    assert (turn["question"], turn["engine"]) == ("What will it do most?", "model")
    assert [each["label"] for each in turn["options"]] == ["Review", "Test"]
    plain = await builder.post(SESSIONS, json={"description": WISH, "engine": "builtin"})
    assert plain.json()["data"]["turn"]["engine"] == "builtin"
    assert len(model_server.requests) == 1


async def test_an_answer_can_hand_a_session_to_the_other_engine(
    model_server: ModelServer, builder: httpx.AsyncClient
) -> None:
    model_server.script.add(proposes("What will it do most?", "Review"), proposes("And then?", "Rest"))
    here = f"{SESSIONS}/{(await builder.post(SESSIONS, json={'description': WISH})).json()['data']['session_id']}"
    assert (await builder.post(f"{here}/answer", json={**FIRST, "engine": "builtin"})).status_code == 200
    shown = (await builder.get(here)).json()["data"]
    assert (shown["engine"], shown["turn"]["engine"], shown["conversation"][0]["answer"]) == (
        "builtin",
        "builtin",
        "Review",
    )
    assert len(model_server.requests) == 1
    assert (await builder.post(f"{here}/answer", json={**FIRST, "engine": "model"})).status_code == 200
    assert (await builder.get(here)).json()["data"]["engine"] == "model"


async def test_a_model_that_fails_leaves_the_session_and_the_same_answer_is_sent_again(
    model_server: ModelServer, builder: httpx.AsyncClient
) -> None:
    model_server.script.add(proposes("What will it do most?", "Review"), ScriptedAnswer(status=401, message="bad key"))
    here = f"{SESSIONS}/{(await builder.post(SESSIONS, json={'description': WISH})).json()['data']['session_id']}"
    before = (await builder.get(here)).json()["data"]
    failed = await builder.post(f"{here}/answer", json=FIRST)
    assert failed.status_code == 503
    assert "perdure model login openai" in failed.json()["detail"]
    assert "builtin" in failed.json()["detail"]
    assert (await builder.get(here)).json()["data"] == before
    model_server.script.add(ScriptedAnswer(text="nonsense"), ScriptedAnswer(text="nonsense"))
    assert (await builder.post(f"{here}/answer", json=FIRST)).status_code == 200
    after = (await builder.get(here)).json()["data"]
    assert (after["turn"]["engine"], after["question_count"]) == ("builtin", 1)
    assert after["turn"]["note"]


async def test_a_session_that_cannot_begin_is_not_stored(model_server: ModelServer, builder: httpx.AsyncClient) -> None:
    model_server.script.add(ScriptedAnswer(status=401, message="bad key"))
    before = (await builder.get("/api/v1/builder/drafts")).json()["data"]
    assert (await builder.post(SESSIONS, json={"description": WISH})).status_code == 503
    assert (await builder.get("/api/v1/builder/drafts")).json()["data"] == before


async def test_an_unknown_engine_is_invalid(builder: httpx.AsyncClient) -> None:
    assert (await builder.post(SESSIONS, json={"description": WISH, "engine": "oracle"})).status_code == 422


async def test_without_a_model_its_engine_is_unavailable(known: httpx.AsyncClient) -> None:
    refused = await known.post(SESSIONS, json={"description": WISH, "engine": "model"})
    assert refused.status_code == 503
    assert "perdure model default" in refused.json()["detail"]
    plain = await known.post(SESSIONS, json={"description": WISH})
    assert plain.json()["data"]["turn"]["engine"] == "builtin"


async def test_the_socket_speaks_with_the_model(default_model: ModelServer, server: Running, token: str) -> None:
    default_model.script.add(proposes("What will it do most?", "Review"), proposes("And then?", "Rest"))
    async with opened(server, token, f"/ws/builder/{SESSION}") as socket:
        await socket.send('{"type": "start", "description": "A coding assistant for my team"}')
        turn = (await heard(socket))["turn"]
        assert (turn["question"], turn["engine"]) == ("What will it do most?", "model")
        await socket.send('{"type": "answer", "answer": {"option_index": 0}, "engine": "builtin"}')
        assert (await heard(socket))["turn"]["engine"] == "builtin"
        await socket.send('{"type": "answer", "answer": {"option_index": 0}, "engine": "oracle"}')
        assert (await heard(socket))["code"] == "invalid"


async def test_the_client_names_the_engine(default_model: ModelServer, client: Client) -> None:
    default_model.script.add(proposes("What will it do most?", "Review"))
    led: Any = await client.builder.start(WISH, engine="model")
    assert led["turn"]["engine"] == "model"
    plain: Any = await client.builder.start(WISH, engine="builtin")
    assert plain["turn"]["engine"] == "builtin"
