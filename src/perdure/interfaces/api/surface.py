"""What every route and socket works with, and what many of them take from a request in the same way."""

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated, cast

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
IfMatch = Annotated[str | None, Header(alias="If-Match", description="The `ETag` that was seen last, with its quotes.")]


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
