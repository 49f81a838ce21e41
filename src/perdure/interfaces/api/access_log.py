"""The access log: one line for every answer, with its request id."""

import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from perdure.interfaces.api.auth.server_access import SESSION
from perdure.interfaces.api.envelope import Asked

log = logging.getLogger("perdure.access")

_LONGEST_PATH = 500
_LONGEST_METHOD = 20


def log_answer(asked: Asked, scope: Mapping[str, Any] | None, status: int) -> None:
    """Log an answer; without a scope, to bytes that are not a request.

    The query is left out: that of a login is a secret.
    """
    if not log.isEnabledFor(logging.INFO):
        return
    client = (scope or {}).get("client")
    method = "WS" if scope and scope["type"] == "websocket" else (scope or {}).get("method", "-")
    log.info(
        "%s %s %s %d %.1f ms%s request %s",
        client[0] if client else "-",
        method[:_LONGEST_METHOD],
        quoted(asked.path) or "-",
        status,
        asked.elapsed_ms(),
        " session" if SESSION.get() else "",
        asked.request_id,
    )


def quoted(path: str) -> str:
    """Return a path as it may stand in a log: without spaces and control characters, and not too long."""
    return quote(path, safe="/:@!$&'()*+,;=~", errors="replace")[:_LONGEST_PATH]
