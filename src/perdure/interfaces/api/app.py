"""The ASGI application: all routes and sockets behind the security middleware, and every error as a problem."""

import functools
import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from perdure import __version__
from perdure.app.builder.sessions import SessionOver
from perdure.errors import InternalError, Invalid, NotFound, PerdureError
from perdure.interfaces.api.access_log import quoted
from perdure.interfaces.api.auth.security_middleware import Gate
from perdure.interfaces.api.dependencies import BASE, SURFACE, Surface
from perdure.interfaces.api.envelope import REQUEST_INFO, problem
from perdure.interfaces.api.openapi import describe
from perdure.interfaces.api.problems import NoSuchMethod
from perdure.interfaces.api.routes import approvals, bots, builder, chat, goals, memory, models, public, skills
from perdure.interfaces.api.sockets import builder as builder_socket
from perdure.interfaces.api.sockets import goals as goal_sockets
from perdure.interfaces.api.sockets.push import refuse

ROUTERS = (
    (public.router, ""),
    (builder_socket.router, ""),
    (goal_sockets.router, ""),
    (builder.router, BASE),
    (bots.router, BASE),
    (skills.router, BASE),
    (goals.router, BASE),
    (chat.router, BASE),
    (approvals.router, BASE),
    (memory.router, BASE),
    (models.router, BASE),
)
"""All routers with the prefixes of their paths."""
_MOST_ERRORS = 20

log = logging.getLogger(__name__)


def make_app(surface: Surface) -> ASGIApp:
    """Return the application, wrapped in the security middleware."""
    return Gate(make_routes(), surface.access, {SURFACE: surface})


@functools.cache
def make_routes() -> FastAPI:
    """Return the FastAPI application without the security middleware, which alone calls it.

    It is the same for every home: a request finds its surface in its scope. The result is cached, because inspecting
    all routes takes FastAPI longer than a server takes to start.
    """
    app = FastAPI(
        title="Perdure",
        version=__version__,
        summary="A home for AI agents that cannot lose their work.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for router, prefix in ROUTERS:
        app.include_router(router, prefix=prefix)
    app.add_exception_handler(PerdureError, _told)
    app.add_exception_handler(SessionOver, _over)
    app.add_exception_handler(RequestValidationError, _unfit)
    app.add_exception_handler(WebSocketRequestValidationError, _unfit_socket)
    app.add_exception_handler(HTTPException, _unrouted)
    app.add_exception_handler(Exception, _unexpected)
    app.router.default = _nowhere
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


async def _told(_request: Request, error: Exception) -> Response:
    assert isinstance(error, PerdureError)  # noqa: S101 (what it is registered for)
    return problem(error)


async def _over(_request: Request, error: Exception) -> Response:
    """Return the problem with a link to the bot that the session built."""
    assert isinstance(error, SessionOver)  # noqa: S101 (what it is registered for)
    return problem(error, links={"bot": f"{BASE}/bots/{error.slug}"})


async def _unfit(_request: Request, error: Exception) -> Response:
    """Return a problem with the invalid parts of a request, without repeating their values."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 (what it is registered for)
    return problem(_misfit(error.errors()))


async def _unfit_socket(socket: WebSocket, error: Exception) -> None:
    """Reject an upgrade with the invalid parts of its request."""
    assert isinstance(error, WebSocketRequestValidationError)  # noqa: S101 (what it is registered for)
    await refuse(socket, _misfit(error.errors()))


def _misfit(errors: Sequence[Any]) -> Invalid:
    found = [f"{_place(each['loc'])}: {each['msg'].removeprefix('Value error, ')}" for each in errors[:_MOST_ERRORS]]
    return Invalid(f"The request is invalid. {found[0]}." if found else "The request is invalid.", errors=found)


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    """Reject a request for an unknown path or socket."""
    error = NotFound("Unknown path.")
    if scope["type"] == "websocket":
        await refuse(WebSocket(scope, receive, send), error)
    else:
        await problem(error)(scope, receive, send)


async def _unrouted(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 (what it is registered for)
    if error.status_code != NoSuchMethod.http_status:
        return problem(Invalid(str(error.detail)))
    return problem(NoSuchMethod("This path does not support the method."), headers={"Allow": _methods(request)})


def _methods(request: Request) -> str:
    """Return the methods that a path supports; each method has its own route."""
    path: str = request.scope["path"]
    found: set[str] = set()
    for router, prefix in ROUTERS:
        for route in router.routes if path.startswith(prefix) else ():
            if isinstance(route, Route) and route.path_regex.match(path[len(prefix) :]):
                found |= set(route.methods or ())
    return ", ".join(sorted(found)) or "GET"  # /openapi.json, which FastAPI itself serves


async def _unexpected(request: Request, error: Exception) -> Response:
    request_id = REQUEST_INFO.get().request_id
    log.error("%s %s failed, request %s", request.method, quoted(request.url.path), request_id, exc_info=error)
    return problem(InternalError("Internal error. The log of the server has the details."))


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc)
