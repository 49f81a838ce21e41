"""Login sessions of browsers: what the cookie holds, where it is valid, and how it ends."""

import asyncio
import os
import stat
import time
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin

from perdure import Denied
from perdure.app import Perdure
from perdure.app.access.login_codes import new_code
from perdure.app.access.login_sessions import LASTS_S, MOST
from perdure.app.access.tickets import LOGIN_SESSIONS
from perdure.app.access.token import read_token, rotate_token
from perdure.interfaces.api.auth.server_access import ServerAccess
from perdure.interfaces.api.server import Address, Running, running
from tests.interfaces.api.serving import plain_http


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """Sessions are the same on every database."""
    return str(request.param)


@pytest.fixture
def access(tmp_path: Path) -> ServerAccess:
    read_token(tmp_path)
    return ServerAccess(tmp_path, 8733)


def with_cookie(server: Running, session: str) -> dict[str, str]:
    return {
        "Cookie": f"{server.surface.access.cookie}={session}",
        "Origin": server.url,
        "X-Perdure": "1",
        "Sec-Fetch-Site": "same-origin",
    }


async def test_the_cookie_is_a_session_and_not_the_token(server: Running, http: httpx.AsyncClient, token: str) -> None:
    answer = await http.get(server.login_url())
    session = answer.cookies[server.surface.access.cookie]
    assert token not in answer.headers["set-cookie"]
    assert (await http.get("/api/v1/goals")).status_code == 200
    http.cookies.clear()
    bearer = {"Authorization": f"Bearer {session}"}
    assert (await http.get("/api/v1/goals", headers=bearer)).status_code == 401
    assert (await http.get("/api/v1/goals", headers=with_cookie(server, token))).status_code == 401


def test_a_session_is_stored_as_a_hash_in_a_private_file(access: ServerAccess) -> None:
    session = access.sessions.open()
    [file] = (access.home / LOGIN_SESSIONS).iterdir()
    assert session not in file.name
    assert file.read_bytes() == b""
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert access.sessions.is_open(session)
    assert not access.sessions.is_open(file.name)
    assert len({access.sessions.open() for _ in range(20)}) == 20


def test_a_session_of_another_port_or_home_is_not_accepted(access: ServerAccess, tmp_path: Path) -> None:
    session = access.sessions.open()
    assert ServerAccess(access.home, 8733).sessions.is_open(session)  # the server was restarted
    assert not ServerAccess(access.home, 8734).sessions.is_open(session)
    other = tmp_path / "other"
    other.mkdir()
    read_token(other)
    assert not ServerAccess(other, 8733).sessions.is_open(session)
    assert len({each.cookie for each in (access, ServerAccess(access.home, 8734), ServerAccess(other, 8733))}) == 3


@pytest.mark.parametrize("given", ["", ".", "..", "../token", "/", "x" * 43, "x" * 10_000, "ü\ud800", "\0"])
def test_what_is_not_a_session_is_not_accepted(access: ServerAccess, given: str) -> None:
    access.sessions.open()
    assert not access.sessions.is_open(given)


def test_a_session_lasts_seven_days(access: ServerAccess) -> None:
    session = access.sessions.open()
    [file] = (access.home / LOGIN_SESSIONS).iterdir()
    for age_s, is_open in ((LASTS_S - 60, True), (LASTS_S, False), (-LASTS_S, False)):
        at_s = time.time() - age_s
        os.utime(file, (at_s, at_s))
        assert access.sessions.is_open(session) is is_open, age_s
    os.utime(file, (1, 1))
    access.sessions.open()
    assert not file.exists()


def test_sessions_do_not_pile_up(access: ServerAccess) -> None:
    sessions = [access.sessions.open() for _ in range(MOST + 5)]
    assert len(list((access.home / LOGIN_SESSIONS).iterdir())) == MOST
    assert access.sessions.is_open(sessions[-1])


def test_a_new_token_ends_every_session_even_if_the_old_one_comes_back(access: ServerAccess) -> None:
    old, session = read_token(access.home), access.sessions.open()
    rotate_token(access.home)
    assert not access.sessions.is_open(session)
    (access.home / "token").write_text(old)
    assert not access.sessions.is_open(session)


def test_without_a_token_no_session_is_opened_or_accepted(access: ServerAccess) -> None:
    session = access.sessions.open()
    (access.home / "token").write_text("damaged")
    assert not access.sessions.is_open(session)
    with pytest.raises(Denied):
        access.sessions.open()


async def test_a_second_login_of_a_browser_ends_its_first_session(server: Running, http: httpx.AsyncClient) -> None:
    await http.get(server.login_url())
    first = http.cookies[server.surface.access.cookie]
    await http.get(server.login_url())
    second = http.cookies[server.surface.access.cookie]
    assert first != second
    assert not server.surface.access.sessions.is_open(first)
    assert server.surface.access.sessions.is_open(second)


async def test_a_logout_ends_the_session_its_socket_and_no_other(server: Running, http: httpx.AsyncClient) -> None:
    access = server.surface.access
    session, other = access.sessions.open(), access.sessions.open()
    url = server.url.replace("http", "ws") + "/ws/events"

    def socket(session: str) -> connect:
        cookie = {"Cookie": f"{access.cookie}={session}"}
        return connect(url, additional_headers=cookie, origin=Origin(server.url), proxy=None)

    async with socket(session) as ours, socket(other) as theirs:
        await ours.recv()
        await theirs.recv()
        answer = await http.post("/logout", headers=with_cookie(server, session))
        assert answer.json()["data"] == {"logged_out": True}
        assert f'{access.cookie}=""' in answer.headers["set-cookie"]
        with pytest.raises(ConnectionClosed) as closed:
            await asyncio.wait_for(ours.recv(), 5)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
        assert (await http.get("/api/v1/goals", headers=with_cookie(server, session))).status_code == 401
        assert (await http.get("/api/v1/goals", headers=with_cookie(server, other))).status_code == 200
        await (await theirs.ping())


async def test_a_socket_is_closed_when_its_session_expires(server: Running, home: Perdure) -> None:
    access = server.surface.access
    cookie = {"Cookie": f"{access.cookie}={access.sessions.open()}"}
    url = server.url.replace("http", "ws") + "/ws/events"
    async with connect(url, additional_headers=cookie, origin=Origin(server.url), proxy=None) as socket:
        await socket.recv()
        [file] = (home.settings.home / LOGIN_SESSIONS).iterdir()
        os.utime(file, (1, 1))
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(socket.recv(), 5)


async def test_a_page_of_another_origin_cannot_log_out(server: Running, http: httpx.AsyncClient) -> None:
    session = server.surface.access.sessions.open()
    for name, value in (("Origin", "http://evil.example"), ("X-Perdure", "0"), ("Sec-Fetch-Site", "cross-site")):
        headers = {**with_cookie(server, session), name: value}
        assert (await http.post("/logout", headers=headers)).status_code == 403
    assert (await http.get("/logout", headers=with_cookie(server, session))).status_code == 405
    assert server.surface.access.sessions.is_open(session)


async def test_a_logout_with_the_token_changes_nothing(server: Running, known: httpx.AsyncClient) -> None:
    session = server.surface.access.sessions.open()
    assert (await known.post("/logout")).json()["data"] == {"logged_out": False}
    assert server.surface.access.sessions.is_open(session)


async def test_two_servers_of_a_home_have_sessions_of_their_own(server: Running, home: Perdure) -> None:
    async with running(home, Address(port=0)) as second:
        async with plain_http() as browser:
            for each in (server, second):  # one browser: it sends both cookies to both ports
                code = new_code(home.settings.home)
                assert (await browser.get(f"{each.url}/login", params={"code": code})).status_code == 303
            for each in (server, second):
                assert (await browser.get(f"{each.url}/api/v1/goals")).status_code == 200
        session = server.surface.access.sessions.open()
        async with plain_http() as thief:
            answer = await thief.get(f"{second.url}/api/v1/goals", headers=with_cookie(second, session))
            assert answer.status_code == 401


async def test_the_start_page_promises_no_other_page(known: httpx.AsyncClient) -> None:
    page = (await known.get("/")).text
    assert "later" not in page
    assert "There are no\nfurther pages" in page
    assert "/openapi.json" in page
