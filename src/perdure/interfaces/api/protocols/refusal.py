"""The response to bytes that are not HTTP, and to connections beyond the limit."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

import orjson

from perdure.errors import PerdureError
from perdure.interfaces.api.access_log import log_answer
from perdure.interfaces.api.auth.security_middleware import ON_EVERY_ANSWER
from perdure.interfaces.api.envelope import RequestInfo

log = logging.getLogger(__package__)
log.setLevel(logging.ERROR)  # lower levels log invalid input and queries, which may have secrets


def refusal(error: PerdureError, more: Mapping[bytes, bytes] | None = None) -> bytes:
    """Return a problem as the bytes of a complete HTTP response that closes the connection."""
    info = RequestInfo.now("", b"")
    body = orjson.dumps({**error.problem(), "instance": "", "meta": info.meta()})
    headers = {
        **ON_EVERY_ANSWER,
        **(more or {}),
        b"content-type": b"application/problem+json",
        b"content-length": b"%d" % len(body),
        b"x-request-id": info.request_id.encode(),
        b"connection": b"close",
    }
    status = HTTPStatus(error.http_status)
    log_answer(info, None, status.value)
    first = f"HTTP/1.1 {status.value} {status.phrase}".encode()
    return b"\r\n".join([first, *(b"%s: %s" % pair for pair in headers.items()), b"", body])
