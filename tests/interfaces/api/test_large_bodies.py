"""Large bodies: parsed once, one at a time and beside the event loop, so that others are answered meanwhile."""

import json
import threading
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from perdure.interfaces.api.json_body import MOST_ON_LOOP_BYTES
from perdure.interfaces.api.server import Running
from tests.interfaces.api.test_streams import heard, opened

LARGE = 64
"""Texts that are shorter are not of interest: headers, settings, events."""
UNKNOWN = "01890000-0000-7000-8000-000000000000"


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The size of every text that the json module of Python parses from now on, and the thread that does it."""
    seen: list[tuple[int, str]] = []
    loads = json.loads

    def noted(text: Any, **more: Any) -> Any:
        if len(text) > LARGE:
            seen.append((len(text), threading.current_thread().name))
        return loads(text, **more)

    monkeypatch.setattr(json, "loads", noted)
    return seen


def body_of(size: int) -> bytes:
    head, tail = b'{"command": "true","tags":[', b'"x"]}'
    return head + b" " * (size - len(head) - len(tail)) + tail


@pytest.mark.parametrize("size", [MOST_ON_LOOP_BYTES + 1, 1 << 20])
async def test_a_large_body_is_parsed_once_and_beside_the_event_loop(
    known: httpx.AsyncClient, parsed: list[tuple[int, str]], size: int
) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": "one"}
    answer = await known.post("/api/v1/goals", content=body_of(size), headers=headers)
    assert answer.status_code in (201, 422)
    assert [each for each in parsed if each[0] >= size] == [(size, "perdure-json_0")]


async def test_a_small_body_is_parsed_once_where_it_came(
    known: httpx.AsyncClient, parsed: list[tuple[int, str]]
) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": "one"}
    await known.post("/api/v1/goals", content=body_of(MOST_ON_LOOP_BYTES), headers=headers)
    found = [each for each in parsed if each[0] >= MOST_ON_LOOP_BYTES]
    assert found == [(MOST_ON_LOOP_BYTES, threading.current_thread().name)]


async def test_a_large_frame_is_parsed_beside_the_event_loop(
    server: Running, token: str, parsed: list[tuple[int, str]]
) -> None:
    text = '{"type":"ping"' + " " * MOST_ON_LOOP_BYTES + "}"
    async with opened(server, token, f"/ws/builder/{UNKNOWN}") as socket:
        for frame, reply in ((text, "pong"), (text + "}", "error")):
            await socket.send(frame)
            assert (await heard(socket))["type"] == reply
        with pytest.raises(ConnectionClosed):
            await socket.close()
            await socket.recv()
    assert {thread for size, thread in parsed if size >= len(text)} == {"perdure-json_0"}


async def test_a_key_names_a_call_by_its_value_however_it_is_written(known: httpx.AsyncClient) -> None:
    headers = {"Content-Type": "application/json", "Idempotency-Key": "same"}
    first = await known.post("/api/v1/builder/sessions", content=b'{"description":"a timer"}', headers=headers)
    again = await known.post("/api/v1/builder/sessions", content=b' { "description" : "a timer" } ', headers=headers)
    other = await known.post("/api/v1/builder/sessions", content=b'{"description":"a clock"}', headers=headers)
    assert first.json()["data"]["session_id"] == again.json()["data"]["session_id"]
    assert other.status_code == 422


TAKEN = ["application/json", "application/json; charset=utf-8", 'application/json;charset="UTF-8"']
TAKEN += ["Application/JSON ; Charset=Utf-8", "application/json;", "application/json; charset=utf8; profile=x"]
REFUSED = ["application/json; charset=latin-1", 'application/json; charset="utf-16"', "text/json; charset=utf-8"]
REFUSED += ["application/jsonp", "application/json, text/plain", "application/json; charset=", "charset=utf-8"]


@pytest.mark.parametrize("kind", TAKEN)
async def test_json_may_say_that_it_is_utf_8(known: httpx.AsyncClient, kind: str) -> None:
    answer = await known.post("/api/v1/goals", content=b'{"command": "true"}', headers={"Content-Type": kind})
    assert answer.status_code == 201


@pytest.mark.parametrize("kind", REFUSED)
async def test_what_is_not_json_in_utf_8_is_415(known: httpx.AsyncClient, kind: str) -> None:
    answer = await known.post("/api/v1/goals", content=b'{"command": "true"}', headers={"Content-Type": kind})
    assert answer.status_code == 415
