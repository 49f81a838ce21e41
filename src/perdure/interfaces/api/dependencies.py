"""What every route and socket works with, and what many of them take from a request in the same way."""

import asyncio
import hashlib
import re
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

import orjson
from fastapi import Depends, Header, Query, Request
from fastapi.routing import APIRoute
from starlette.requests import HTTPConnection
from starlette.responses import Response

from perdure.app import Perdure
from perdure.app.workers.server_worker import ServerWorker
from perdure.errors import Invalid
from perdure.interfaces.api.auth.security_middleware import PARSED_BODY
from perdure.interfaces.api.auth.server_access import ServerAccess
from perdure.interfaces.api.connections import Lines
from perdure.interfaces.api.json_body import MOST_ON_LOOP_BYTES
from perdure.interfaces.api.problems import Stale
from perdure.kernel.ports import IdempotentCall

BASE = "/api/v1"
SURFACE = "perdure_surface"
"""In a scope: the surface of the server that received the request."""


@dataclass(frozen=True)
class Surface:
    """The home that is served, who runs its goals, and who may come in."""

    p: Perdure
    worker: ServerWorker
    access: ServerAccess
    lines: Lines


async def _surface(connection: HTTPConnection) -> Surface:  # async: else FastAPI asks a thread for it
    return cast("Surface", connection.scope[SURFACE])


Served = Annotated[Surface, Depends(_surface)]
Limit = Annotated[int, Query(ge=1, le=500, description="Maximum number of items.")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`meta.next_cursor` of the previous page.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Identifies this call. A repetition with the same key and body is executed once.",
    ),
]
IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", description="The `ETag` that was seen last, with its quotes; a list of several, or `*`."),
]
_TAG = re.compile(r'(?:W/)?"([!#-~]*)"')
_TAGS = re.compile(rf"[ \t,]*{_TAG.pattern}(?:[ \t]*,[ \t,]*{_TAG.pattern})*[ \t,]*")
_REVISION = re.compile("[0-9]{1,18}")
_MOST_TAGS = 32


class _ParsedRequest(Request):
    """A request whose body is the value that the gate has parsed; it would be parsed again, on the event loop."""

    async def json(self) -> Any:
        return self.scope[PARSED_BODY]


class JsonRoute(APIRoute):
    """A route that gets its body from the gate."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See APIRoute.get_route_handler."""
        handle = super().get_route_handler()

        async def handle_parsed(request: Request) -> Response:
            return await handle(_ParsedRequest(request.scope, request.receive))

        return handle_parsed


async def _once(request: Request, key: Key = None) -> IdempotentCall | None:
    if key is None:
        return None
    is_large = len(await request.body()) > MOST_ON_LOOP_BYTES
    digest = await asyncio.to_thread(_digest, request.scope) if is_large else _digest(request.scope)
    return IdempotentCall(key, f"{request.method} {request.url.path}", digest)


def _digest(scope: Mapping[str, Any]) -> bytes:
    """Return the hash of a body, which is the same however the same value is written."""
    body = orjson.dumps(scope[PARSED_BODY], option=orjson.OPT_SORT_KEYS) if PARSED_BODY in scope else b""
    return hashlib.sha256(body).digest()


Called = Annotated[IdempotentCall | None, Depends(_once)]
"""The call as its key names it, if it has one."""


def entity_tags(if_match: str | None) -> list[str] | None:
    """Return the tags that an If-Match lists, without their quotes; None when anything will do.

    A weak tag counts like a strong one: ours name a revision, and equal revisions are equal byte for byte.

    Raises: Invalid when it is not a list of tags.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    if not _TAGS.fullmatch(if_match):
        raise Invalid(f"If-Match must be a list of ETags in quotes, such as '\"3\"', or *; found {if_match[:40]!r}.")
    tags = _TAG.findall(if_match)
    if len(tags) > _MOST_TAGS:
        raise Invalid(f"If-Match lists {len(tags)} ETags; at most {_MOST_TAGS} are read.")
    return tags


def wanted_revisions(if_match: str | None) -> list[int] | None:
    """Return the revisions that an If-Match wants one of; None when any will do.

    Raises: Invalid when it cannot be read; Stale when it lists none that we gave out.
    """
    tags = entity_tags(if_match)
    if tags is None:
        return None
    found = [int(tag) for tag in tags if _REVISION.fullmatch(tag)]
    if not found:
        raise Stale("If-Match lists no ETag that we gave out; that of a session is its revision, such as '\"3\"'.")
    return found
