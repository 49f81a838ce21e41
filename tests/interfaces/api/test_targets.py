"""Forms of a request that few clients use: HTTP/1.0, and targets with a scheme and a host."""

import pytest

from perdure.interfaces.api.server import Running
from tests.interfaces.api.test_framing import CHUNKED
from tests.interfaces.api.test_wire import UPGRADE, connected, request, rest


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


def older(sent: bytes) -> bytes:
    return sent.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1)


async def test_a_transfer_encoding_in_http_1_0_is_rejected_and_the_connection_closed(server: Running) -> None:
    headers = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    sent = older(request(server, "POST /api/v1/goals", *headers, body=CHUNKED))
    answer = await rest(await connected(server, sent + request(server, "GET /healthz")))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert await server.surface.p.goals.list() == []


async def test_an_upgrade_in_http_1_0_is_rejected(server: Running) -> None:
    answer = await rest(await connected(server, older(request(server, "GET /ws/events", UPGRADE.strip()))))
    assert answer.startswith(b"HTTP/1.1 400 ")


async def test_a_plain_request_in_http_1_0_is_answered(server: Running) -> None:
    answer = await rest(await connected(server, older(request(server, "GET /api/v1/goals"))))
    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/goals?limit=1", "/api/v1/g%6fals"])
@pytest.mark.parametrize("scheme", ["http", "HTTP"])
async def test_a_target_with_our_host_is_the_path_behind_it(server: Running, scheme: str, path: str) -> None:
    target = f"{scheme}://127.0.0.1:{server.surface.access.port}{path}"
    answer = await rest(await connected(server, request(server, f"GET {target}", "Connection: close")))
    assert answer.startswith(b"HTTP/1.1 200 ")


async def test_a_target_with_our_host_needs_the_token_like_any_other(server: Running) -> None:
    target = f"http://127.0.0.1:{server.surface.access.port}/api/v1/goals"
    sent = request(server, f"GET {target}", "Connection: close", is_known=False)
    assert (await rest(await connected(server, sent))).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("authority", ["evil.example:{port}", "me@127.0.0.1:{port}", "127.0.0.1:1", ""])
async def test_a_target_with_another_host_is_refused(server: Running, authority: str) -> None:
    target = f"http://{authority.format(port=server.surface.access.port)}/healthz"
    answer = await rest(await connected(server, request(server, f"GET {target}", "Connection: close")))
    assert answer.startswith(b"HTTP/1.1 403 ")
