"""Requests whose client closes its connection before the answer: what has not begun by then is not done later."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from starlette.responses import Response

from perdure.errors import Unavailable
from perdure.interfaces.api.auth.security_middleware import CLIENT_LEFT
from perdure.interfaces.api.dependencies import JsonRoute
from perdure.tasks import end_tasks

_GRACE_S = 1.0
"""A client may close its side of the connection after the request and still read the answer."""


class CancellableRoute(JsonRoute):
    """A route whose request is cancelled a second after its client has closed its connection."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See APIRoute.get_route_handler."""
        handle = super().get_route_handler()

        async def handle_for_client(request: Request) -> Response:
            left: asyncio.Event | None = request.scope.get("state", {}).get(CLIENT_LEFT)
            return await (handle(request) if left is None else _unless_left(handle(request), left))

        return handle_for_client


async def _unless_left(handling: Coroutine[Any, Any, Response], left: asyncio.Event) -> Response:
    """Return the answer of a request.

    Raises: Unavailable when it was cancelled; what the request raises.
    """
    work, leaving = asyncio.ensure_future(handling), asyncio.ensure_future(left.wait())
    try:
        await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([work], timeout=_GRACE_S)
        if work.done():
            return work.result()
    finally:
        await end_tasks([work, leaving])
    raise Unavailable(
        "The client closed its connection while the request waited; a write that had not begun is not done."
        " Send the request again."
    )
