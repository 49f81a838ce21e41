"""The server itself: where it listens, how long it waits for whom, and that what the docs say about it works."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from websockets.exceptions import ConnectionClosed

from bench.raw_socket import RawSocket
from perdure import Invalid, Unavailable
from perdure.app import Perdure
from perdure.app.access.token import read_token
from perdure.client import Client
from perdure.interfaces.api.app import make_routes
from perdure.interfaces.api.server import Address, Running, bind, keep_up, running
from tests.interfaces.api.serving import plain_http
from tests.interfaces.api.test_goals import ended
from tests.interfaces.api.test_streams import opened, plan_of

HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "serve-over-http.md"
ALL_ROUTES = HOW_TO.with_name("every-route-with-curl.md")


def has_ipv6() -> bool:
    try:
        bind(Address("::1", 0)).close()
    except Unavailable:
        return False
    return True


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_an_address_that_others_can_reach_has_to_be_asked_for(host: str) -> None:
    with pytest.raises(Invalid, match="--expose"):
        bind(Address(host, 0))


@pytest.mark.parametrize("name", ["http://foo", "foo:80", "", "a b", "föö", "x" * 254])
def test_a_name_that_no_machine_has_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match="Invalid host name"):
        bind(Address(port=0, names=[name]))


def test_an_address_that_is_taken_or_is_invalid_is_reported() -> None:
    with contextlib.closing(bind(Address(port=0))) as taken, pytest.raises(Unavailable, match="--port 0"):
        bind(Address(port=taken.getsockname()[1]))
    for elsewhere in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(Unavailable, match="an address of this machine"):
            bind(Address(elsewhere, 0, is_exposed=True))


def test_an_exposed_server_answers_to_its_address_and_its_names() -> None:
    names = Address("192.0.2.1", is_exposed=True, names=["perdure.example"]).all_names()
    assert names == ("127.0.0.1", "localhost", "[::1]", "192.0.2.1", "perdure.example")
    assert Address("0.0.0.0", is_exposed=True).all_names() == ("127.0.0.1", "localhost", "[::1]")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (Address(), "127.0.0.1"),
        (Address("localhost"), "127.0.0.1"),
        (Address("::1"), "[::1]"),
        (Address("0.0.0.0", is_exposed=True), "127.0.0.1"),
        (Address("::", is_exposed=True), "[::1]"),
        (Address("192.0.2.1", is_exposed=True), "192.0.2.1"),
        (Address("0.0.0.0", is_exposed=True, names=["a.example", "b.example"]), "b.example"),
    ],
)
def test_the_url_that_is_printed_leads_to_where_the_server_listens(address: Address, shown: str) -> None:
    assert address.shown == shown
    assert shown in address.all_names()


@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")
async def test_a_server_at_the_address_of_ipv6_can_be_called_as_it_says(home: Perdure) -> None:
    async with running(home, Address("::1", 0)) as server, plain_http() as http:
        assert (await http.get(f"{server.url}/healthz")).status_code == 200


async def test_a_frame_that_is_too_large_ends_the_socket(server: Running, token: str) -> None:
    async with opened(server, token, f"/ws/builder/{uuid4()}") as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.send(json.dumps({"type": "start", "description": "x" * 300_000}))
            await asyncio.wait_for(socket.recv(), 10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


async def test_a_peer_that_answers_no_ping_is_closed(home: Perdure) -> None:
    async with running(home, Address(port=0, heartbeat_s=0.2)) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.surface.access.port)
        writer.write(
            f"GET /ws/events HTTP/1.1\r\nHost: 127.0.0.1:{server.surface.access.port}\r\nConnection: Upgrade\r\n"
            f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n"
            f"Authorization: Bearer {server.surface.access.token.read()}\r\n\r\n".encode()
        )
        assert b"101" in await reader.readline()
        async with asyncio.timeout(10):
            assert (await reader.read()).endswith(b"keepalive ping timeout")
        writer.close()


async def test_clients_that_stop_reading_do_not_delay_others(client: Client, server: Running, token: str) -> None:
    text = "x" * 20_000
    steps = "".join(f"  - id: s{n}\n    exec: [echo, '{text}']\n" for n in range(20))
    goal = await client.goals.create(plan=f"goal: much\nsteps:\n{steps}")
    deaf = [await RawSocket.open(server.surface.access.port, f"/ws/goals/{goal['id']}", token) for _ in range(20)]
    for each in deaf:
        each.stop_reading()
    events = [event async for event in client.goals.follow(goal["id"])]
    assert events[-1]["type"] == "termination"
    other = await client.goals.create(plan=plan_of(3))
    assert (await ended(client, other["id"]))["status"] == "done"
    for each in deaf:
        each.close()


async def test_a_mistake_in_a_chore_is_logged_and_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    tries = 0

    async def chore() -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise KeyError("ours")

    await keep_up(chore, pause_s=0)
    assert tries == 3
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


async def test_what_the_how_to_says_works(server: Running, token: str, tmp_path: Path) -> None:
    blocks = re.findall(r"```(sh|python)\n(.*?)```", HOW_TO.read_text(), re.DOTALL)
    shell = "\n".join(text for kind, text in blocks if kind == "sh" and "curl" in text)
    (program,) = [text for kind, text in blocks if kind == "python" and "perdure.client" in text]
    environment = {
        **os.environ,
        "TOKEN": token,
        "API": f"{server.url}/api/v1",
        "PERDURE_URL": server.url,
        "PERDURE_TOKEN": token,
    }
    assert shell.count("curl") == 6
    if shutil.which("curl"):
        told = await run(
            environment, tmp_path, "sh", "-ec", shell.replace("curl -s", "curl -sS --fail-with-body -w '\\n'")
        )
        answers = [json.loads(line) for line in told.splitlines() if line]
        assert len(answers) == 5
        assert all(answer.keys() == {"data", "meta", "_links"} for answer in answers)
        assert json.loads((tmp_path / "openapi.json").read_text())["openapi"] == "3.1.0"
    told = await run(environment, tmp_path, sys.executable, "-c", program)
    assert told.splitlines() == ["1 goal", "2 action", "3 tool_output", "4 termination", "hello"]


def test_no_route_is_missing_in_the_page_of_all_routes() -> None:
    shell = _shell(ALL_ROUTES)
    for path, methods in make_routes().openapi()["paths"].items():
        place = re.sub(r"\\{[^/]*\\}", r"[^/\\s]+", re.escape(path.removeprefix("/api/v1")))
        for method in methods:
            named = rf"-X {method.upper()} " if method != "get" else r"(?<!POST )(?<!DELETE )"
            assert re.search(rf'{named}"?\$(API|SERVER){place}[?"\s\n]', shell), f"{method} {path}"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_every_route_answers_curl_as_its_page_says(server: Running, tmp_path: Path) -> None:
    home = server.surface.p.settings.home
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PERDURE_HOME": str(home), "SERVER": server.url}
    told = await run(environment, tmp_path, "sh", "-euc", _shell(ALL_ROUTES))
    assert [line for line in told.splitlines() if re.fullmatch("[0-9]{3}", line)] == ["401", "401", "410", "503"]
    assert "problem" not in told
    answers = [json.loads(line) for line in told.splitlines() if line.startswith('{"data"')]
    assert len(answers) == 47
    goals = {each["text"]: each async for each in _goals(server)}
    assert goals["a question"]["status"] == "done"
    assert goals["sleep 600"]["reason"] == "cancelled"


async def _goals(server: Running) -> AsyncIterator[dict[str, Any]]:
    for goal in await server.surface.p.goals.list():
        async with Client(server.url, read_token(server.surface.p.settings.home)) as client:
            yield dict(await ended(client, goal.id))


def _shell(page: Path) -> str:
    return "\n".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL))


async def run(environment: dict[str, str], folder: Path, *command: str) -> str:
    done = await asyncio.to_thread(
        subprocess.run, command, env=environment, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
