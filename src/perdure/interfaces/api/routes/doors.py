"""What can be asked for without a token: whether we live, and the trade of a one-time code for a cookie."""

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from perdure import __version__
from perdure.interfaces.api.codes import spend_code
from perdure.interfaces.api.envelope import reply
from perdure.interfaces.api.problems import NoToken
from perdure.interfaces.api.schemas.envelopes import Envelope
from perdure.interfaces.api.schemas.problems import refusals
from perdure.interfaces.api.schemas.server import Health
from perdure.interfaces.api.surface import Served

router = APIRouter(tags=["server"])

_WELCOME = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Perdure</title>
<h1>You are in.</h1>
<p>The pages come later; the API is at <code>/api/v1</code>, described by <a href="/openapi.json">/openapi.json</a>.</p>
"""


@router.get("/healthz", operation_id="check_health", response_model=Envelope[Health])
async def healthz() -> Response:
    """Report that the server answers."""
    return reply({"status": "ok", "version": __version__})


@router.get("/login", operation_id="log_in", status_code=303, response_class=RedirectResponse, responses=refusals(401))
async def login(served: Served, code: Annotated[str, Query(min_length=1, max_length=200)]) -> Response:
    """Exchange a one-time code, which `perdure serve` prints, for a cookie."""
    token = served.doors.token()
    if token is None or not spend_code(served.doors.home, code, token):
        raise NoToken(
            "This code was used before, is too old, is older than the token, or is none."
            " `perdure token url` prints another."
        )
    response = RedirectResponse("/", 303)
    response.set_cookie(served.doors.cookie, token, httponly=True, samesite="strict", path="/")
    return response


@router.get("/", operation_id="show_start_page", response_class=HTMLResponse)
async def welcome() -> Response:
    """Return the start page."""
    return HTMLResponse(_WELCOME)
