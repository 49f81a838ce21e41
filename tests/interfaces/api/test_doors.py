"""Every door, tried on every route and socket: who may not come in is refused before any handler has seen it."""

import asyncio
import os
import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from fastapi.routing import APIRoute, APIWebSocketRoute
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from perdure import Damaged, Denied
from perdure.app import Perdure
from perdure.app.access.login_codes import LASTS_S, login_url, new_code, spend_code
from perdure.app.access.token import TOKEN_FILE, read_token, rotate_token
from perdure.interfaces.api.app import ROUTERS, make_routes
from perdure.interfaces.api.auth.security_middleware import OPEN_PATHS
from perdure.interfaces.api.auth.server_access import ServerAccess
from perdure.interfaces.api.server import Running
from tests.interfaces.api.serving import plain_http

ID = "0190a1b2-c3d4-7e5f-8a6b-0123456789ab"


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """Doors are the same on every database."""
    return str(request.param)


def doors() -> Iterator[tuple[str, str]]:
    """Give method and path of everything that the route table has; a socket is `WS`."""
    described = {
        (method.upper(), path) for path, methods in make_routes().openapi()["paths"].items() for method in methods
    }
    found = {
        (method, prefix + route.path.replace(":path}", "}"))  # as it is described
        for router, prefix in ROUTERS
        for route in router.routes
        for method in ((route.methods or []) if isinstance(route, APIRoute) else ["WS"])
        if isinstance(route, APIRoute | APIWebSocketRoute)
    }
    assert {door for door in found if door[0] != "WS"} == described
    for method, path in sorted(found | {("GET", "/openapi.json")}):
        yield method, _filled(path)


def _filled(path: str) -> str:
    for name in ("session_id", "goal_id", "slug", "name", "record_id", "choice_id"):
        path = path.replace("{" + name + "}", ID)
    assert "{" not in path, path
    return path


async def ask(server: Running, method: str, path: str, headers: list[tuple[str, str]]) -> int:
    """Knock, and return the status of the answer; 101 for a socket that was opened."""
    if method != "WS":
        body = "" if method in ("GET", "HEAD") else "{}"
        more = [f"Content-Type: application/json\r\nContent-Length: {len(body)}"] if body else []
        host = f"Host: 127.0.0.1:{server.surface.access.port}"
        given = [f"{name}: {value}" for name, value in headers]
        return await raw(server, f"{method} {path}", host, *given, *more, body=body)
    kept = [(name, value) for name, value in headers if name.lower() not in ("host", "origin")]
    origin = next((Origin(value) for name, value in headers if name.lower() == "origin"), None)
    try:
        async with connect(
            server.url.replace("http", "ws") + path, additional_headers=kept, origin=origin, proxy=None
        ) as socket:
            assert socket is not None
            return 101
    except InvalidStatus as error:
        return error.response.status_code


async def test_every_route_and_socket_wants_the_token(server: Running, token: str) -> None:
    wrong = [
        [],
        [("Authorization", "Bearer")],
        [("Authorization", "Bearer ")],
        [("Authorization", "Bearer wrong")],
        [("Authorization", f"Bearer {token[:-1]}")],
        [("Authorization", f"Basic {token}")],
        [("Authorization", token)],
        [("Authorization", f"Bearer {token}"), ("Authorization", f"Bearer {token}")],
        [("Cookie", f"{server.surface.access.cookie}=wrong")],
        [("Cookie", f"perdure_1={token}")],
        [("Cookie", f"{server.surface.access.cookie}={token}")],
        [("X-Token", token)],
    ]
    knocked = 0
    for method, path in doors():
        if path in OPEN_PATHS:
            continue
        for headers in wrong:
            assert await ask(server, method, path, headers) == 401, (method, path, headers)
        assert await ask(server, method, f"{path}?token={token}", []) == 401
        knocked += 1
    assert knocked >= 20
    assert await server.surface.p.goals.list() == []
    assert await server.surface.p.forge.drafts() == []


async def test_every_route_and_socket_refuses_pages_of_other_origins(server: Running, token: str) -> None:
    own = server.url
    foreign = ["null", "http://evil.example", own.replace("127.0.0.1", "127.0.0.1.evil.example"), f"{own}.evil.example"]
    foreign += [own.replace("http:", "https:"), own.rsplit(":", 1)[0], own.upper(), f"{own}/", ""]
    bearer = [("Authorization", f"Bearer {token}")]
    for method, path in doors():
        if method == "GET" or path in OPEN_PATHS:
            continue
        for origin in foreign[:-1] if method == "WS" else foreign:
            assert await ask(server, method, path, [*bearer, ("Origin", origin)]) == 403, (method, path, origin)
    assert await server.surface.p.goals.list() == []


HOSTS = ["evil.example", "127.0.0.1", "localhost", "127.1:{port}", "[::1]", "localhost.:{port}", "127.0.0.1:{port}.x"]
HOSTS += ["0.0.0.0:{port}", "localhost:1", "LOCALHOST:{port}@evil.example", "127.0.0.1:{port},localhost:{port}", ""]


@pytest.mark.parametrize("host", HOSTS)
async def test_a_foreign_host_is_refused_before_anything_else(server: Running, token: str, host: str) -> None:
    said = host.format(port=server.surface.access.port)
    for path in ("/healthz", "/login?code=x", "/api/v1/goals", "/nowhere", "/openapi.json"):
        assert await raw(server, f"GET {path}", f"Host: {said}", f"Authorization: Bearer {token}") in (400, 403)


async def test_the_names_of_this_machine_are_known_in_any_case(server: Running) -> None:
    port = server.surface.access.port
    for host in (f"127.0.0.1:{port}", f"LocalHost:{port}", f"[::1]:{port}"):
        assert await raw(server, "GET /healthz", f"Host: {host}") == 200
    assert await raw(server, "GET /healthz", f"Host: localhost:{port}", f"Host: localhost:{port}") in (400, 403)
    assert await raw(server, "GET /healthz") in (400, 403)


async def raw(server: Running, line: str, *headers: str, body: str = "") -> int:
    """Send a request as it stands, and return the status of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.surface.access.port)
    writer.write("\r\n".join([f"{line} HTTP/1.1", *headers, "Connection: close", "", body]).encode())
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


async def let_in(server: Running) -> httpx.Cookies:
    async with plain_http() as browser:
        answer = await browser.get(server.login_url())
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        return browser.cookies


async def test_a_browser_without_a_cookie_learns_how_to_come_in(http: httpx.AsyncClient) -> None:
    refused = await http.get("/")
    assert refused.status_code == 401
    assert "a browser logs in with the URL that `perdure token url` prints" in refused.json()["detail"]


async def test_a_code_lets_a_browser_in_once(server: Running, http: httpx.AsyncClient) -> None:
    url = server.login_url()
    assert (await http.get(url)).status_code == 303
    assert (await http.get("/api/v1/goals")).status_code == 200
    http.cookies.clear()
    assert (await http.get(url)).status_code == 401
    assert (await http.get("/login?code=guess")).status_code == 401
    assert (await http.get("/login")).status_code == 422


async def test_with_the_cookie_a_change_needs_our_origin_our_header_and_the_same_site(server: Running) -> None:
    right = {"Origin": server.url, "X-Perdure": "1", "Sec-Fetch-Site": "same-origin"}
    async with plain_http(base_url=server.url, cookies=await let_in(server)) as browser:
        for missing in right:
            headers = {name: value for name, value in right.items() if name != missing}
            assert (await browser.post("/api/v1/goals", json={"command": "echo"}, headers=headers)).status_code == 403
        for site in ("cross-site", "same-site", "none"):
            wrong = {**right, "Sec-Fetch-Site": site}
            assert (await browser.post("/api/v1/goals", json={"command": "echo"}, headers=wrong)).status_code == 403
        assert await server.surface.p.goals.list() == []
        assert (await browser.post("/api/v1/goals", json={"command": "echo"}, headers=right)).status_code == 201
        events = "/api/v1/goals/x/events"
        stream = {"Accept": "text/event-stream"}
        assert (await browser.get(events, headers=stream)).status_code == 403
        assert (await browser.get(events, headers={**stream, **right})).status_code == 404
        assert (await browser.get("/")).status_code == 200


@pytest.mark.parametrize(
    "cookies",
    [
        'theme={"dark": true}; {own}',
        "a b=c; {own}",
        "x=\xff; {own}",
        "{own}; bad[]=1",
        "{name}=evil; {own}",
        "{own}; {name}=evil",
    ],
)
async def test_cookies_of_other_servers_of_this_machine_do_not_hide_ours(server: Running, cookies: str) -> None:
    access = server.surface.access
    own = f"{access.cookie}={access.sessions.open()}"
    said = cookies.replace("{own}", own).replace("{name}", access.cookie)
    assert await ask(server, "GET", "/api/v1/goals", [("Cookie", said)]) == 200
    assert await ask(server, "GET", "/api/v1/goals", [("Cookie", said.replace(own, f"{own}x"))]) == 401


async def test_with_the_cookie_a_socket_needs_our_origin(server: Running) -> None:
    cookie = [("Cookie", f"{server.surface.access.cookie}={server.surface.access.sessions.open()}")]
    assert await ask(server, "WS", "/ws/events", cookie) == 403
    assert await ask(server, "WS", "/ws/events", [*cookie, ("Origin", "http://evil.example")]) == 403
    assert await ask(server, "WS", "/ws/events", [*cookie, ("Origin", server.url)]) == 101


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", "", "*/*"])
async def test_a_form_of_another_site_changes_nothing(
    server: Running, known: httpx.AsyncClient, http: httpx.AsyncClient, kind: str
) -> None:
    form = {"Content-Type": kind, "Origin": "http://evil.example"}
    assert (await http.post("/api/v1/goals", content=b'{"command": "echo"}', headers=form)).status_code == 401
    with_cookie = {**form, "Cookie": f"{server.surface.access.cookie}={server.surface.access.sessions.open()}"}
    assert (await http.post("/api/v1/goals", content=b'{"command": "echo"}', headers=with_cookie)).status_code == 403
    own = {"Content-Type": kind}
    assert (await known.post("/api/v1/goals", content=b'{"command": "echo"}', headers=own)).status_code == 415
    assert await server.surface.p.goals.list() == []


async def test_nothing_is_read_from_a_client_without_credentials(server: Running) -> None:
    for path in sorted(OPEN_PATHS):
        assert await ask(server, "POST", path, []) == 401


async def test_a_socket_that_is_not_there_or_does_not_fit_is_refused_with_a_problem(
    server: Running, token: str
) -> None:
    bearer = [("Authorization", f"Bearer {token}")]
    for path in ("/ws/nowhere", "/healthz", "/api/v1/goals", "/ws/events/"):
        assert await ask(server, "WS", path, bearer) == 404
    assert await ask(server, "WS", f"/ws/goals/{ID}?after_seq=-1", bearer) == 422


async def test_no_answer_allows_another_origin_to_read_it(known: httpx.AsyncClient) -> None:
    for method, path in doors():
        if method == "WS":
            continue
        answer = await known.request(method, path, headers={"Origin": "http://evil.example"})
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    answer = await known.options("/api/v1/goals", headers={"Access-Control-Request-Method": "POST"})
    assert answer.status_code == 405


async def test_a_rotated_token_is_worth_nothing_and_ends_what_is_open(
    server: Running, home: Perdure, token: str, known: httpx.AsyncClient
) -> None:
    url = server.url.replace("http", "ws") + "/ws/events"
    async with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, proxy=None) as socket:
        await socket.recv()
        rotate_token(home.settings.home)
        assert (await known.get("/api/v1/goals")).status_code == 401
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(socket.recv(), 5)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4401


def test_a_token_is_private_and_the_same_until_it_is_rotated(tmp_path: Path) -> None:
    first = read_token(tmp_path)
    assert len(first) == 64
    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    assert read_token(tmp_path) == first
    second = rotate_token(tmp_path)
    assert read_token(tmp_path) == second != first
    assert stat.S_IMODE((tmp_path / TOKEN_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [TOKEN_FILE]


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 64, b"x" * 65, b"../../" + b"a" * 58])
def test_a_file_that_holds_no_token_opens_no_door(tmp_path: Path, content: bytes) -> None:
    (tmp_path / TOKEN_FILE).write_bytes(content)
    with pytest.raises(Damaged, match="rotate"):
        read_token(tmp_path)
    assert not ServerAccess(tmp_path, 1).token.matches(content.decode("latin-1"))
    assert not ServerAccess(tmp_path, 1).token.matches("")


def test_a_token_that_cannot_be_read_is_denied(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).mkdir()
    with pytest.raises(Denied):
        read_token(tmp_path)


def test_a_link_that_leads_nowhere_opens_no_door_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).symlink_to(tmp_path / "gone")
    with pytest.raises(Damaged, match="rotate"):
        read_token(tmp_path)
    assert ServerAccess(tmp_path, 1).token.read() is None
    assert rotate_token(tmp_path) == read_token(tmp_path)


def test_a_pipe_in_the_place_of_the_token_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / TOKEN_FILE)
    with pytest.raises(Damaged):
        read_token(tmp_path)


async def test_a_login_code_from_before_a_new_token_is_rejected(server: Running, http: httpx.AsyncClient) -> None:
    url = server.login_url()
    rotate_token(server.surface.p.settings.home)
    assert (await http.get(url)).status_code == 401
    assert (await http.get(server.login_url())).status_code == 303


def test_a_code_is_good_for_ten_minutes(tmp_path: Path) -> None:
    code, late = new_code(tmp_path), new_code(tmp_path)
    assert spend_code(tmp_path, code, read_token(tmp_path))
    [left] = (tmp_path / "login-codes").iterdir()
    before_s = time.time() - LASTS_S
    os.utime(left, (before_s, before_s))
    assert not spend_code(tmp_path, late, read_token(tmp_path))
    assert not spend_code(tmp_path, "ü\ud800", read_token(tmp_path))


async def test_who_forgets_the_word_bearer_is_reported(http: httpx.AsyncClient, token: str) -> None:
    for scheme in ("", "token ", "Basic "):
        answer = await http.get("/api/v1/goals", headers={"Authorization": f"{scheme}{token}"})
        assert answer.status_code == 401
        assert "Bearer TOKEN" in answer.json()["detail"]


def test_of_two_uses_of_a_login_code_one_is_accepted(tmp_path: Path) -> None:
    code = new_code(tmp_path)
    with ThreadPoolExecutor(8) as many:
        assert sum(many.map(lambda _: spend_code(tmp_path, code, read_token(tmp_path)), range(8))) == 1
    assert not any(
        spend_code(tmp_path, wrong, read_token(tmp_path)) for wrong in ("", ".", "..", "../token", "/", "x" * 10_000)
    )
    assert read_token(tmp_path)


def test_unused_login_codes_are_removed_and_reveal_nothing(tmp_path: Path) -> None:
    codes = [new_code(tmp_path) for _ in range(40)]
    files = list((tmp_path / "login-codes").iterdir())
    assert len(files) == 16
    assert spend_code(tmp_path, codes[-1], read_token(tmp_path))
    assert not any(code in file.name or file.read_bytes() for code in codes for file in files if file.exists())


def test_what_else_lies_beside_the_codes_is_left_alone(tmp_path: Path) -> None:
    new_code(tmp_path)
    folder = tmp_path / "login-codes"
    (folder / "README").write_text("mine")
    (folder / ("a" * 64)).mkdir()
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    assert spend_code(tmp_path, new_code(tmp_path), read_token(tmp_path))
    assert {path.name for path in folder.iterdir()} == {"README", "a" * 64}


def test_many_make_codes_at_once(tmp_path: Path) -> None:
    read_token(tmp_path)
    with ThreadPoolExecutor(8) as many:
        assert len(set(many.map(lambda _: new_code(tmp_path), range(200)))) == 200


def test_codes_are_not_kept_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "login-codes").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Denied, match="link"):
        new_code(tmp_path)


async def test_head_uses_up_no_code(server: Running, http: httpx.AsyncClient) -> None:
    url = server.login_url()
    assert (await http.head(url)).status_code == 405
    assert (await http.get(url)).status_code == 303


async def test_a_home_that_was_moved_away_is_not_created_again(server: Running, known: httpx.AsyncClient) -> None:
    home = server.surface.p.settings.home
    home.rename(home.with_name("moved"))
    assert (await known.get("/api/v1/goals")).status_code == 401
    await asyncio.sleep(0.6)  # the watch over the token looks twice a second
    assert not home.exists()
    home.with_name("moved").rename(home)
    assert (await known.get("/api/v1/goals")).status_code == 200


async def test_another_url_for_a_browser_is_made_beside_the_server(
    server: Running, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    url = login_url(server.url, server.surface.p.settings.home)
    assert (await http.get(url)).status_code == 303
    assert (await http.get(url)).status_code == 401
    assert (await http.get(login_url(server.url, tmp_path / "elsewhere"))).status_code == 401


@pytest.mark.parametrize("path", ["/healthz%0a", "/api/v1/goals%0A", "/api/v1/goals/x%00", "/%1b"])
async def test_a_path_with_a_control_character_leads_nowhere(http: httpx.AsyncClient, path: str) -> None:
    assert (await http.get(path)).status_code == 404


def test_the_port_of_http_may_be_left_out_and_no_other(tmp_path: Path) -> None:
    assert ServerAccess(tmp_path, 80, ["localhost"]).hosts == {"localhost", "localhost:80"}
    assert ServerAccess(tmp_path, 80, ["localhost"]).origins == {"http://localhost", "http://localhost:80"}
    assert ServerAccess(tmp_path, 8733, ["localhost"]).hosts == {"localhost:8733"}
