"""The access log: one line for every response, with its request id."""

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from perdure.interfaces.api.auth.server_access import SESSION
from perdure.interfaces.api.envelope import RequestInfo

log = logging.getLogger("perdure.access")

_LONGEST_PATH = 500
_LONGEST_METHOD = 20


def log_answer(info: RequestInfo, scope: Mapping[str, Any] | None, status: int) -> None:
    """Log a response; without a scope, the response to bytes that are not a request.

    The query is not logged: that of a login has a secret.
    """
    if not log.isEnabledFor(logging.INFO):
        return
    client = (scope or {}).get("client")
    method = "WS" if scope and scope["type"] == "websocket" else (scope or {}).get("method", "-")
    host = client[0] if client else "-"
    session = " session" if SESSION.get() else ""
    log.info(
        "%s %s %s %d %.1f ms%s request %s",
        host,
        method[:_LONGEST_METHOD],
        quoted(info.path) or "-",
        status,
        info.elapsed_ms(),
        session,
        info.request_id,
    )


def quoted(path: str) -> str:
    """Return a path for a log: without spaces and control characters, truncated."""
    return quote(path, safe="/:@!$&'()*+,;=~", errors="replace")[:_LONGEST_PATH]
