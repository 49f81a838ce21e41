"""The access log: every answer leaves a line with its request id, and no line holds a secret."""

import asyncio
import logging
from collections.abc import Iterator

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from perdure.interfaces.api.server import Running


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """The log is the same on every database."""
    return str(request.param)


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.LogCaptureFixture]:
    monkeypatch.setattr(logging.getLogger("perdure"), "propagate", True)
    with caplog.at_level(logging.INFO, logger="perdure"):
        yield caplog


def access_lines(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in log.records if record.name == "perdure.access"]


async def test_every_answered_request_id_is_in_the_log(
    log: pytest.LogCaptureFixture, server: Running, http: httpx.AsyncClient, known: httpx.AsyncClient
) -> None:
    answers = [
        await known.get("/api/v1/goals?tag=x"),
        await known.post("/api/v1/goals", json={"command": "echo"}),
        await known.post("/api/v1/goals", content=b"{", headers={"Content-Type": "application/json"}),
        await known.delete("/healthz"),
        await known.get("/nowhere"),
        await http.get("/api/v1/goals"),
        await http.get(server.login_url()),
        await http.get("/healthz%0aGET /forged 200"),
    ]
    lines = access_lines(log)
    for answer in answers:
        request, (line,) = answer.request, [line for line in lines if answer.headers["x-request-id"] in line]
        assert f"127.0.0.1 {request.method} " in line
        assert f" {answer.status_code} " in line
    assert len(lines) == len(answers)
    assert not any("\n" in line or "tag=x" in line for line in lines)


async def test_sockets_and_refused_upgrades_are_logged(
    log: pytest.LogCaptureFixture, server: Running, token: str
) -> None:
    url = server.url.replace("http", "ws") + "/ws/events"
    async with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as socket:
        assert socket.response is not None
        request_id = socket.response.headers["x-request-id"]
    [line] = [line for line in access_lines(log) if request_id in line]
    assert " WS /ws/events 101 " in line
    for headers, path, status in (
        ({}, "/ws/events", 401),
        ({"Authorization": f"Bearer {token}"}, "/ws/builder/x", 404),
    ):
        with pytest.raises(InvalidStatus) as refused:
            await connect(url.replace("/ws/events", path), additional_headers=headers, proxy=None)
        assert refused.value.response.status_code == status
        [line] = [line for line in access_lines(log) if refused.value.response.headers["x-request-id"] in line]
        assert f" {path} {status} " in line


@pytest.mark.parametrize(
    "sent", [b"BROKEN \x1b[31m\r\n\r\n", b"GET / HTTP/1.1\r\nBROKEN: " + b"a" * 200_000 + b"\r\n\r\n"]
)
async def test_bytes_that_are_not_a_request_are_logged_with_the_id_of_their_answer(
    log: pytest.LogCaptureFixture, server: Running, sent: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.surface.access.port)
    writer.write(sent)
    answer = (await reader.read(4096)).decode()
    writer.close()
    request_id = answer.partition("x-request-id: ")[2].partition("\r\n")[0]
    [line] = [line for line in access_lines(log) if request_id in line]
    assert " 400 " in line
    assert "BROKEN" not in line


async def test_no_line_holds_the_token_a_code_or_a_session(
    log: pytest.LogCaptureFixture, server: Running, http: httpx.AsyncClient, token: str
) -> None:
    url = server.login_url()
    await http.get(url)
    await http.get("/api/v1/goals")
    said = "\n".join(record.getMessage() for record in log.records)
    assert " session request " in said
    for secret in (token, url.partition("code=")[2], http.cookies[server.surface.access.cookie]):
        assert secret not in said


async def test_a_mistake_of_ours_is_logged_with_the_request_id(
    log: pytest.LogCaptureFixture, server: Running, known: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(server.surface.p.goals, "list", fail)
    answer = await known.get("/api/v1/goals")
    assert answer.status_code == 500
    [record] = [record for record in log.records if record.name == "perdure.interfaces.api.app"]
    assert answer.headers["x-request-id"] in record.getMessage()


async def test_a_server_logs_where_it_listens(log: pytest.LogCaptureFixture, server: Running) -> None:
    assert any(f"at {server.url}" in record.getMessage() for record in log.get_records("setup"))
