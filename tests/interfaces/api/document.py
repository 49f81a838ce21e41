"""Checks whatever a server sends to a test against the OpenAPI document, so that no route can differ from it."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote

import httpx
import jsonschema_rs

from perdure.client import Client
from perdure.interfaces.api.app import make_routes


def document() -> dict[str, Any]:
    """Return the document; it is the same for every home."""
    return make_routes().openapi()


async def require_documented(response: httpx.Response) -> None:
    """Raise if a response is not one that the document has; for the `event_hooks` of an httpx client."""
    operation = operation_of(response.request)
    if operation is None:
        return  # a path or a method that does not exist, or HEAD
    answers = operation["responses"]
    assert str(response.status_code) in answers, f"{operation['operationId']}: {response.status_code} is not documented"
    content: Mapping[str, Any] = answers[str(response.status_code)].get("content", {})
    kind = response.headers.get("content-type", "").partition(";")[0]
    assert kind in (content or {"": None}), f"{operation['operationId']}: {kind!r} is not among {list(content)}"
    if kind.endswith("json"):
        await response.aread()
        _validator(operation["operationId"], response.status_code, kind).validate(response.json())


def operation_of(request: httpx.Request) -> dict[str, Any] | None:
    """Return the operation that a request calls, if there is one."""
    path = unquote(request.url.path)
    found = next((methods for pattern, methods in _patterns() if pattern.fullmatch(path)), {})
    operation: dict[str, Any] | None = found.get(request.method.lower())
    return operation


def documented(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """Let a client check every response."""
    http.event_hooks = {"response": [require_documented]}
    return http


def documented_client(client: Client) -> Client:
    """Let a typed client check every response."""
    documented(client._connection._http)
    return client


def operations() -> dict[str, dict[str, Any]]:
    """Return the operations of the document by their id."""
    return {each["operationId"]: each for methods in document()["paths"].values() for each in methods.values()}


@cache
def _validator(operation_id: str, status: int, kind: str) -> jsonschema_rs.Draft202012Validator:
    schema = operations()[operation_id]["responses"][str(status)]["content"][kind]["schema"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": document()["components"]})


@cache
def _patterns() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """Return a pattern for each path, those with the fewest parameters first."""
    paths = sorted(document()["paths"].items(), key=lambda item: item[0].count("{"))
    return [(re.compile(_pattern(path)), methods) for path, methods in paths]


def _pattern(path: str) -> str:
    any_path = re.sub(r"\\{(record_id|name)\\}", ".+", re.escape(path))  # an id, or a file, with slashes in it
    return re.sub(r"\\{\w+\\}", "[^/]+", any_path)
