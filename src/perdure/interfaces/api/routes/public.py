"""The routes for the health check, login, logout and the start page."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from perdure import __version__
from perdure.app.access.login_codes import spend_code
from perdure.app.access.login_sessions import LASTS_S
from perdure.app.wire.resources.server import Health, LoggedOut
from perdure.errors import NoToken
from perdure.interfaces.api.auth.server_access import SESSION
from perdure.interfaces.api.dependencies import Served
from perdure.interfaces.api.envelope import reply
from perdure.interfaces.api.schemas.envelopes import Envelope
from perdure.interfaces.api.schemas.problems import refusals

router = APIRouter(tags=["server"])

_WELCOME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Perdure</title>
<h1>You are logged in.</h1>
<p>This server has an API at <code>/api/v1</code>, described by <a href="/openapi.json">/openapi.json</a>. There are no
further pages.</p>
"""


@router.get("/healthz", operation_id="check_health", response_model=Envelope[Health])
async def healthz() -> Response:
    """Report that the server is running."""
    return reply({"status": "ok", "version": __version__})


@router.get("/login", operation_id="log_in", status_code=303, response_class=RedirectResponse, responses=refusals(401))
async def login(served: Served, code: Annotated[str, Query(min_length=1, max_length=200)]) -> Response:
    """Exchange a one-time code, which `perdure token url` prints, for a login session in a cookie.

    The session lasts seven days. It replaces an earlier session of the browser.
    """
    access, token = served.access, served.access.token.read()
    if token is None or not spend_code(access.home, code, token):
        raise NoToken(
            "This code is unknown, expired, already used, or was made for another token."
            " `perdure token url` prints a new one."
        )
    response = RedirectResponse("/", 303)
    session = access.sessions.open(replaced=SESSION.get())
    response.set_cookie(access.cookie, session, round(LASTS_S), httponly=True, samesite="strict", path="/")
    return response


@router.post("/logout", operation_id="log_out", response_model=Envelope[LoggedOut], responses=refusals(401, 403))
async def logout(served: Served) -> Response:
    """End the login session of this browser, close its open sockets and streams, and remove its cookie.

    Called with the token instead of a cookie, it changes nothing.
    """
    session = SESSION.get()
    if session is not None:
        served.access.sessions.end(session)
        served.connections.end_sessions(served.access.sessions.is_open)
        served.p.goals.feed.wake_all()
    response = reply({"logged_out": session is not None})
    response.delete_cookie(served.access.cookie, httponly=True, samesite="strict", path="/")
    return response


@router.get("/", operation_id="show_start_page", response_class=HTMLResponse)
async def welcome() -> Response:
    """Return the start page."""
    return HTMLResponse(_WELCOME)
