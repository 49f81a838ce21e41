"""The answer to what never becomes a request: bytes that are not HTTP, and connections beyond the limit."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

import orjson

from perdure.errors import PerdureError
from perdure.interfaces.api.access_log import log_answer
from perdure.interfaces.api.auth.security_middleware import ON_EVERY_ANSWER
from perdure.interfaces.api.envelope import Asked

log = logging.getLogger(__package__)
log.setLevel(logging.ERROR)  # below that is what strangers send, and every query: nothing that belongs into a log


def refusal(error: PerdureError, more: Mapping[bytes, bytes] | None = None) -> bytes:
    """Write a problem as a whole HTTP response, after which the connection is closed."""
    asked = Asked.now("", b"")
    body = orjson.dumps({**error.problem(), "instance": "", "meta": asked.meta()})
    headers = {
        **ON_EVERY_ANSWER,
        **(more or {}),
        b"content-type": b"application/problem+json",
        b"content-length": b"%d" % len(body),
        b"x-request-id": asked.request_id.encode(),
        b"connection": b"close",
    }
    status = HTTPStatus(error.http_status)
    log_answer(asked, None, status.value)
    first = f"HTTP/1.1 {status.value} {status.phrase}".encode()
    return b"\r\n".join([first, *(b"%s: %s" % pair for pair in headers.items()), b"", body])
