"""What every route and socket works with, and what many of them take from a request in the same way."""

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, cast

import orjson
from fastapi import Depends, Header, Query, Request
from starlette.requests import HTTPConnection

from perdure.app import Perdure
from perdure.app.serving import Serving
from perdure.interfaces.api.doors import Doors
from perdure.interfaces.api.feed import Feed
from perdure.interfaces.api.lines import Lines
from perdure.interfaces.api.problems import Stale
from perdure.kernel.ports import Once

BASE = "/api/v1"


@dataclass(frozen=True)
class Surface:
    """The home that is served, who runs its goals, who hears of them, and who may come in."""

    p: Perdure
    serving: Serving
    feed: Feed
    doors: Doors
    lines: Lines


async def _surface(connection: HTTPConnection) -> Surface:  # async: else FastAPI asks a thread for it
    return cast("Surface", connection.app.state.surface)


Served = Annotated[Surface, Depends(_surface)]
Limit = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`meta.next_cursor` of the page before.")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[!-~]+$",
        description="Names this one call: the same key with the same body is done once, and answered again.",
    ),
]
IfMatch = Annotated[str | None, Header(alias="If-Match", description="The `ETag` that was seen last, with its quotes.")]

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": about,
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status, about in {
        400: "The body is not JSON.",
        401: "No token, or a wrong one.",
        403: "Not allowed.",
        404: "There is no such thing.",
        409: "It is in the way of something, or not ready.",
        410: "It is over, or gone since; `_links.bot` is what a session has made.",
        412: "It is not what `If-Match` says.",
        413: "Too large.",
        415: "The body is not `application/json`.",
        422: "The body or a parameter does not fit.",
        429: "A limit is used up; `Retry-After` says in how many seconds to try again.",
        503: "Something outside does not answer.",
    }.items()
}
"""What any route may answer with; each has the form of a `Problem`."""


async def _once(request: Request, key: Key = None) -> Once | None:
    if key is None:
        return None
    body = await request.body()
    said = orjson.dumps(orjson.loads(body), option=orjson.OPT_SORT_KEYS) if body else b""  # however it is written
    return Once(key, f"{request.method} {request.url.path}", hashlib.sha256(said).digest())


Called = Annotated[Once | None, Depends(_once)]
"""The call as its key names it, if it has one."""


def wanted_revision(if_match: str | None) -> int | None:
    """Return the revision that an If-Match wants; None when any will do.

    Raises: Stale when it is none that we gave out.
    """
    if if_match is None or if_match.strip() == "*":
        return None
    found = re.fullmatch(r'"([0-9]{1,18})"', if_match.strip())
    if found is None:
        raise Stale(f"If-Match was expected to be an ETag that we gave out, such as '\"3\"'; found {if_match[:40]!r}.")
    return int(found[1])
