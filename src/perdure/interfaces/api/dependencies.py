"""Dependencies that routes and sockets share: the served home, pagination, idempotency keys and If-Match."""

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
from perdure.app.idempotency import IdempotentCall
from perdure.app.workers.server_worker import ServerWorker
from perdure.errors import Invalid
from perdure.interfaces.api.auth.security_middleware import PARSED_BODY
from perdure.interfaces.api.auth.server_access import ServerAccess
from perdure.interfaces.api.connections import LiveConnections
from perdure.interfaces.api.json_body import MOST_ON_LOOP_BYTES
from perdure.interfaces.api.problems import Stale

BASE = "/api/v1"
SURFACE = "perdure_surface"
"""The key in a scope for the surface of the server that received the request."""


@dataclass(frozen=True)
class Surface:
    """The served home, the worker that runs its goals, its access rules and its open connections."""

    p: Perdure
    worker: ServerWorker
    access: ServerAccess
    connections: LiveConnections


async def _surface(connection: HTTPConnection) -> Surface:  # async, so that FastAPI does not run it in a thread
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
        description="Identifies this call. Repeated calls with the same key and body are executed once.",
    ),
]
IfMatch = Annotated[
    str | None,
    Header(alias="If-Match", description="The last known `ETag`, with its quotes; also a list of several, or `*`."),
]
_TAG = re.compile(r'(?:W/)?"([!#-~]*)"')
_TAGS = re.compile(rf"[ \t,]*{_TAG.pattern}(?:[ \t]*,[ \t,]*{_TAG.pattern})*[ \t,]*")
_REVISION = re.compile("[0-9]{1,18}")
_MOST_TAGS = 32


class _ParsedRequest(Request):
    """A request that reuses the body that the middleware parsed, instead of parsing it again on the event loop."""

    async def json(self) -> Any:
        return self.scope[PARSED_BODY]


class JsonRoute(APIRoute):
    """A route that uses the parsed body of the middleware."""

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
    """Return the hash of a body; equal JSON values have equal hashes, whatever their formatting."""
    body = orjson.dumps(scope[PARSED_BODY], option=orjson.OPT_SORT_KEYS) if PARSED_BODY in scope else b""
    return hashlib.sha256(body).digest()


Called = Annotated[IdempotentCall | None, Depends(_once)]
"""The call with its idempotency key; None without a key."""


def entity_tags(if_match: str | None) -> list[str] | None:
    """Return the tags of an If-Match header without their quotes; None for `*` or without the header.

    Weak tags are treated as strong: a tag names a revision, and equal revisions are equal byte for byte.

    Raises: Invalid when it is not a list of tags.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    if not _TAGS.fullmatch(if_match):
        raise Invalid(f'Invalid If-Match: expected quoted ETags such as "3", or *, got {if_match[:80]}.')
    tags = _TAG.findall(if_match)
    if len(tags) > _MOST_TAGS:
        raise Invalid(f"If-Match must have at most {_MOST_TAGS} ETags, got {len(tags)}.")
    return tags


def wanted_revisions(if_match: str | None) -> list[int] | None:
    """Return the revisions that an If-Match header accepts; None if it accepts any.

    Raises: Invalid when it is malformed; Stale when it has no ETag of a session.
    """
    tags = entity_tags(if_match)
    if tags is None:
        return None
    found = [int(tag) for tag in tags if _REVISION.fullmatch(tag)]
    if not found:
        raise Stale(
            f'Invalid If-Match: expected a quoted revision of the session such as "3", got {str(if_match)[:80]}.'
        )
    return found
