"""Documentation of the failures of routes, by status."""

from typing import Any

_DESCRIPTIONS = {
    400: "The request is not valid HTTP, or its body is not JSON.",
    401: "The token is missing or wrong.",
    403: "The request is not allowed.",
    404: "The resource does not exist.",
    409: "The resource is not in the required state, or another change came first.",
    410: "The session is finished or the record was removed. `_links.bot` is the bot that the session built.",
    412: "The resource is not at the version that `If-Match` names.",
    413: "The body or the query is too large.",
    415: "The body is not `application/json`.",
    422: "The body or a parameter is invalid, or the idempotency key was used for another call.",
    429: "A limit is reached. Retry after the number of seconds in `Retry-After`.",
    500: "Stored data is damaged, or the server failed.",
    503: "The database or another service does not answer. Retry later.",
}

_HEADERS = {429: {"headers": {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}}}


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the documentation of failures, by status."""
    content = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": _DESCRIPTIONS[status], "content": content, **_HEADERS.get(status, {})}
        for status in statuses
    }
