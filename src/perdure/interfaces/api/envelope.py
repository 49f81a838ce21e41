"""The one form of every answer, and of every problem."""

import base64
import binascii
import time
import zlib
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import orjson
from starlette.responses import Response
from uuid_utils import uuid7

from perdure.errors import Exhausted, Invalid, PerdureError
from perdure.moments import iso

RETRY_AFTER_S = 5
"""After how many seconds a client may repeat a call that was refused because a limit is used up."""


@dataclass(frozen=True)
class Asked:
    """One request, from the moment it came."""

    request_id: str
    path: str
    query: bytes
    begun_s: float

    @classmethod
    def now(cls, path: str, query: bytes) -> "Asked":
        """Begin a request."""
        return cls(str(uuid7()), path, query, time.perf_counter())

    def link(self, **changed: str) -> str:
        """Return where to ask for the same, with some parameters changed."""
        given = parse_qsl(self.query.decode("latin-1"), keep_blank_values=True)
        query = [pair for pair in given if pair[0] not in changed] + list(changed.items())
        return quote(self.path) + (f"?{urlencode(query)}" if query else "")

    def meta(self) -> dict[str, Any]:
        """Say which request an answer is for, when it was given, and how long it took."""
        return {
            "request_id": self.request_id,
            "timestamp": iso(time.time_ns() // 1000),
            "response_time_ms": self.elapsed_ms(),
        }

    def elapsed_ms(self) -> float:
        """Return how long the request has taken so far."""
        return round((time.perf_counter() - self.begun_s) * 1000, 3)


ASKED: ContextVar[Asked] = ContextVar("perdure_asked")


def reply(
    data: Any,
    *,
    links: Mapping[str, str] | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **meta: Any,
) -> Response:
    """Answer with data."""
    body = {"data": data, "meta": {**ASKED.get().meta(), **meta}, "_links": links or {}}
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


def page(items: Sequence[Any], last: str | None, links: Mapping[str, str] | None = None) -> Response:
    """Answer with a part of a list; `last` is the place after which the next part begins, if there may be one."""
    asked, cursor = ASKED.get(), None if last is None else to_cursor(last)
    more = {} if cursor is None else {"next": asked.link(cursor=cursor)}
    return reply(items, links={"self": asked.link(), **more, **(links or {})}, next_cursor=cursor)


def to_cursor(last: str) -> str:
    """Encode a position in the requested list as an opaque cursor."""
    return base64.urlsafe_b64encode(f"{_list()} {last}".encode()).decode().rstrip("=")


def from_cursor(cursor: str | None) -> str | None:
    """Return the place in the list that a cursor stands for.

    Raises: Invalid
    """
    if cursor is None:
        return None
    try:
        of_list, is_ours, last = (
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode().partition(" ")
        )
    except (binascii.Error, ValueError):
        of_list, is_ours, last = "", "", ""
    if not is_ours or of_list != _list() or not last.isprintable():
        raise Invalid("Unknown cursor: it is not from this list. Leave it out to start at the beginning.")
    return last


def _list() -> str:
    return f"{zlib.crc32(ASKED.get().path.encode('utf-8', 'replace')):x}"


def problem(
    error: PerdureError, *, headers: Mapping[str, str] | None = None, links: Mapping[str, str] | None = None
) -> Response:
    """Answer with a problem."""
    asked = ASKED.get()
    if isinstance(error, Exhausted):
        headers = {"Retry-After": str(RETRY_AFTER_S), **(headers or {})}
    body = {**error.problem(), "instance": asked.path, "meta": asked.meta()}
    if links is not None:
        body["_links"] = links
    return Response(
        orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS),
        error.http_status,
        headers,
        media_type="application/problem+json",
    )
