"""Whatever is sent, no response is a 5xx, hangs or differs from the document: described calls, and any bytes."""

import asyncio
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from perdure.app import Perdure
from perdure.app.access.token import read_token
from perdure.interfaces.api.app import make_routes
from perdure.interfaces.api.server import Address, Running, running
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer
from tests.conftest import BACKENDS
from tests.postgres import PostgresServer

CONFORMANCE = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
EXAMPLES = int(os.environ.get("PERDURE_TORTURE", "3"))
LONGEST_S = 2.0


@dataclass
class Reached:
    """A server in a thread of its own."""

    url: str
    port: int
    headers: dict[str, str]
    described: dict[str, Any]


@pytest.fixture(scope="module", params=BACKENDS)
def reached(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    """Serve a home with a goal, a session and a record in it; goals that are made up are not run."""
    folder = tmp_path_factory.mktemp("fuzz")
    url = None
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.new_database(f"fuzz_{secrets.token_hex(6)}")
    ready: list[Reached] = []
    has_come, is_over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with Perdure.open(folder / "home", database_url=url) as p, running(p, Address(port=0)) as server:
            await p.goals.run(["true"])
            await p.forge.start("a timer")
            await p.memory.add({"type": "lesson", "title": "fuzz"})
            await p.models.test()  # the first request imports packages, which takes longer than a call may
            server.surface.worker.most = 0
            ready.append(_reached(server, p.settings.home))
            has_come.set()
            await asyncio.to_thread(is_over.wait)

    # The default model always answers: a model that does not is a 503, which would say nothing about us.
    with (
        ModelServer(Script([ScriptedAnswer("ready")] * 2, order="turns")) as models,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PERDURE_MODEL", f"openai-compatible:m@{models.url}/v1")
        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        assert has_come.wait(30)
        yield ready[0]
        is_over.set()
        thread.join(30)


def _reached(server: Running, home: Path) -> Reached:
    headers = {"Authorization": f"Bearer {read_token(home)}"}
    return Reached(server.url, server.surface.access.port, headers, make_routes().openapi())


@pytest.fixture
def described(reached: Reached) -> Any:
    return schemathesis.openapi.from_dict(reached.described)


def require_sense(answer: Any, took_s: float) -> None:
    assert answer.status_code < 500, answer.text
    assert took_s < LONGEST_S
    if answer.status_code >= 400:
        assert answer.headers["content-type"] == ["application/problem+json"]
        assert [answer.json()["meta"]["request_id"]] == answer.headers["x-request-id"]


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fitting", "unfitting"])
def test_no_described_call_fails_us(described: Any, reached: Reached, mode: GenerationMode) -> None:
    asked = 0
    for found in described.get_all_operations():
        try:
            calls = found.ok().as_strategy(generation_mode=mode)
            _try(calls, reached)
        except Unsatisfiable:
            continue  # nothing can be wrong with a call that takes nothing
        asked += 1
    assert asked > 10


def _try(calls: Any, reached: Reached) -> None:
    @given(case=calls)
    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    def call(case: Any) -> None:
        begun = time.monotonic()
        answer = case.call(base_url=reached.url, headers=reached.headers)
        require_sense(answer, time.monotonic() - begun)
        case.validate_response(answer, checks=CONFORMANCE)

    call()


def test_no_sequence_of_calls_fails_us(described: Any, reached: Reached) -> None:
    class Calls(described.as_state_machine()):  # type: ignore[misc]
        def get_call_kwargs(self, _case: Any) -> dict[str, Any]:
            return {"base_url": reached.url, "headers": reached.headers}

        def validate_response(self, response: Any, _case: Any, **_more: Any) -> None:
            assert response.status_code < 500

    Calls.run(settings=settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck)))


DEEP = b'{"text": ' + b"[" * 10_000 + b"]" * 10_000 + b"}"
BODIES = {
    "nothing": b"",
    "half": b'{"command": "echo',
    "no UTF-8": b'{"text": "\xff\xfe"}',
    "NUL": b'{"text": "a\\u0000b"}',
    "raw NUL": b'{"text": "a\0b"}',
    "NaN": b'{"text": NaN}',
    "infinite": b'{"text": "x", "limits": {"usd": 1e999}}',
    "2^63": b'{"text": "x", "limits": {"iterations": 9223372036854775808}}',
    "5,000 digits": b'{"text": "x", "limits": {"iterations": ' + b"9" * 5000 + b"}}",
    "surrogate": b'{"text": "\\ud800"}',
    "deep": DEEP,
    "deep in a key": b'{"args": {"a' + b'": {"a' * 5000,
    "a list": b"[]",
    "a text": b'"echo"',
    "null": b"null",
    "BOM": b'\xef\xbb\xbf{"command": "echo"}',
    "UTF-16": '{"command": "echo"}'.encode("utf-16"),
    "2 MiB": b'{"text": "' + b"x" * (2 << 20) + b'"}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("path", ["/api/v1/goals", "/api/v1/builder/sessions", "/api/v1/memory/records"])
def test_a_body_that_is_no_value_of_ours_is_refused(reached: Reached, path: str, body: bytes) -> None:
    status = knock(reached, f"POST {path}", body, "Content-Type: application/json")
    assert 400 <= status < 500, status


@pytest.mark.parametrize(
    "query",
    [
        *("&".join(f"a{n}={n}" for n in range(100_000)), "limit=%00", "limit=\xff", "cursor=" + "A" * 10_000),
        *("limit=9223372036854775808", "limit=-1", "limit=1e3", "cursor=%f0%28%8c%bc", "limit=1&limit=2"),
    ],
    ids=lambda query: query[:30],
)
def test_a_query_that_is_invalid_is_refused_or_left_alone(reached: Reached, query: str) -> None:
    assert knock(reached, f"GET /api/v1/goals?{query}", b"") < 500


RAW = {
    "no request": b"\x00\x01\x02\x03\r\n\r\n",
    "no end": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "no version": b"GET /\r\n\r\n",
    "wrong version": b"GET / HTTP/9.9\r\n\r\n",
    "wrong length": b"POST /api/v1/goals HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST /api/v1/goals HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
    "length and chunks": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "broken chunk": b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "long header": b"GET / HTTP/1.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "broken path": b"GET /\xff\xfe%zz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.mark.parametrize("content", RAW.values(), ids=RAW)
def test_bytes_that_are_no_request_leave_the_server_usable(reached: Reached, content: bytes) -> None:
    assert sent(reached, content, is_all=True) < 500
    assert knock(reached, "GET /healthz", b"") == 200


def knock(reached: Reached, line: str, body: bytes, *headers: str) -> int:
    head = [f"{line} HTTP/1.1", f"Host: 127.0.0.1:{reached.port}", f"Content-Length: {len(body)}", "Connection: close"]
    head += [*headers, *(f"{name}: {value}" for name, value in reached.headers.items()), "", ""]
    return sent(reached, "\r\n".join(head).encode("latin-1") + body)


def sent(reached: Reached, content: bytes, *, is_all: bool = False) -> int:
    """Send bytes, and return the status of the answer; 0 when the connection was closed, or nothing came of it."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", reached.port), timeout=LONGEST_S) as connection:
        try:
            connection.sendall(content)
            if is_all:
                connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(65536)
        except TimeoutError:
            raise
        except OSError:  # it was closed meanwhile, as it may be
            return 0
    assert time.monotonic() - begun < LONGEST_S
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0
