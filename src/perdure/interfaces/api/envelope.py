"""Builds every response: data with metadata and links, pages, and problems."""

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
from perdure.text.moments import iso

RETRY_AFTER_S = 5
"""The value of Retry-After for calls that were rejected because a limit is reached."""


@dataclass(frozen=True)
class RequestInfo:
    """Id, URL and start time of a request."""

    request_id: str
    path: str
    query: bytes
    begun_s: float

    @classmethod
    def now(cls, path: str, query: bytes) -> "RequestInfo":
        """Return the info of a request that starts now."""
        return cls(str(uuid7()), path, query, time.perf_counter())

    def link(self, **changed: str) -> str:
        """Return the URL of the request with some query parameters changed."""
        present = parse_qsl(self.query.decode("latin-1"), keep_blank_values=True)
        query = [pair for pair in present if pair[0] not in changed] + list(changed.items())
        return quote(self.path) + (f"?{urlencode(query)}" if query else "")

    def meta(self) -> dict[str, Any]:
        """Return the id of the request, the time of the response, and its duration."""
        return {
            "request_id": self.request_id,
            "timestamp": iso(time.time_ns() // 1000),
            "response_time_ms": self.elapsed_ms(),
        }

    def elapsed_ms(self) -> float:
        """Return the time since the start of the request."""
        return round((time.perf_counter() - self.begun_s) * 1000, 3)


REQUEST_INFO: ContextVar[RequestInfo] = ContextVar("perdure_request_info")


def reply(
    data: Any,
    *,
    links: Mapping[str, str] | None = None,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
    **meta: Any,
) -> Response:
    """Return a response with data."""
    body = {"data": data, "meta": {**REQUEST_INFO.get().meta(), **meta}, "_links": links or {}}
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


def page(items: Sequence[Any], last: str | None, links: Mapping[str, str] | None = None) -> Response:
    """Return a response with a page of a list; `last` is the position after which the next page starts, or None."""
    info, cursor = REQUEST_INFO.get(), None if last is None else to_cursor(last)
    more = {} if cursor is None else {"next": info.link(cursor=cursor)}
    return reply(items, links={"self": info.link(), **more, **(links or {})}, next_cursor=cursor)


def to_cursor(last: str) -> str:
    """Encode a position in the requested list as an opaque cursor."""
    return base64.urlsafe_b64encode(f"{_list()} {last}".encode()).decode().rstrip("=")


def from_cursor(cursor: str | None) -> str | None:
    """Return the position in the list that a cursor encodes.

    Raises: Invalid
    """
    if cursor is None:
        return None
    try:
        of_list, separator, last = (
            base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode().partition(" ")
        )
    except (binascii.Error, ValueError):
        of_list, separator, last = "", "", ""
    if not separator or of_list != _list() or not last.isprintable():
        raise Invalid("Unknown cursor: it is not from this list. Omit it to start at the beginning.")
    return last


def _list() -> str:
    return f"{zlib.crc32(REQUEST_INFO.get().path.encode('utf-8', 'replace')):x}"


def problem(
    error: PerdureError, *, headers: Mapping[str, str] | None = None, links: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a problem."""
    info = REQUEST_INFO.get()
    if isinstance(error, Exhausted):
        headers = {"Retry-After": str(RETRY_AFTER_S), **(headers or {})}
    body = {**error.problem(), "instance": info.path, "meta": info.meta()}
    if links is not None:
        body["_links"] = links
    return Response(
        orjson.dumps(body, option=orjson.OPT_NON_STR_KEYS),
        error.http_status,
        headers,
        media_type="application/problem+json",
    )
