"""Writes the reference of the REST API from its OpenAPI description, and that of the sockets from their functions."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi.routing import APIWebSocketRoute

from perdure.errors import KeyTaken, NoToken, Over, PerdureError
from perdure.interfaces.api import problems
from perdure.interfaces.api.app import make_routes
from perdure.interfaces.api.dependencies import BASE
from perdure.interfaces.api.sockets import builder, goals

INTRODUCTION = f"""\
Every request needs the token of the home, `Authorization: Bearer …`, except `/healthz` and `/login`. Paths are
relative to `{BASE}`, except in the first and the last section. `/openapi.json` describes every request and response.

- A success is `{{"data", "meta": {{"request_id", "timestamp", "response_time_ms"}}, "_links"}}`.
- An error is `application/problem+json`: `type`, `title`, `status`, `detail`, `instance`, `code`, `errors`, `meta`.
  The codes are those of [errors](errors.md), and those at the end of this page.
- In a list `data` is an array. `meta.next_cursor`, sent as `cursor`, leads to the next page; it is null on the last
  page.
- `Idempotency-Key` identifies one call of the whole API, for a day, or as long as the goal exists that the call
  started or forked. A repetition with the same body is executed once; with another body or path it is 422.
- `If-Match` compares an `ETag` that the client has seen with the present one; if they differ, the request is 412 and
  changes nothing.
- A body is JSON of at most 1 MiB. Values that not every database can store (NUL, half a surrogate pair, NaN, an
  integer of more than 64 bits) are rejected.

In the last column, names with `?` are optional, and names in `{{}}` are fields of the body.
"""


def api_page() -> str:
    """Return the text of the page, without its title."""
    described = make_routes().openapi()
    parts = [INTRODUCTION]
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in _operations(described)):
        parts += [f"## {tag.capitalize()}\n", "| call | what it does | parameters |", "|---|---|---|"]
        parts += [
            f"| `{method.upper()} {path.removeprefix(BASE)}` | {_sentences(operation['description'])} "
            f"| {_takes(operation, described)} |"
            for method, path, operation in _operations(described)
            if operation["tags"][0] == tag
        ]
        parts.append("")
    parts += ["## Sockets\n", "| socket | what it does |", "|---|---|"]
    parts += [f"| `{path}` | {_sentences(about)} |" for path, about in _sockets()]
    parts += ["\n## Codes\n", "| code | status | meaning |", "|---|---|---|"]
    parts += [f"| `{kind.code}` | {kind.http_status} | {_sentences(kind.__doc__ or '')} |" for kind in _problems()]
    return "\n".join(parts) + "\n"


def _problems() -> list[type[PerdureError]]:
    """Return the errors that only the API has, or has with a different status."""
    own = [kind for kind in vars(problems).values() if getattr(kind, "__module__", "") == problems.__name__]
    return sorted([*own, KeyTaken, NoToken, Over], key=lambda kind: (kind.http_status, kind.code))


def _operations(described: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            yield method, path, {"tags": ["pages"], **operation}


def _takes(operation: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    given = [
        f"`{parameter['name']}{'' if parameter['required'] else '?'}`"
        for parameter in operation.get("parameters", [])
        if parameter["in"] != "path"
    ]
    if "requestBody" in operation:
        schema = _resolved(operation["requestBody"]["content"]["application/json"]["schema"], described)
        needed = schema.get("required", [])
        keys = [f"{key}{'' if key in needed else '?'}" for key in schema.get("properties", {})]
        keys += ["…"] if schema.get("additionalProperties") else []
        given.insert(0, f"`{{{', '.join(keys)}}}{'' if operation['requestBody']['required'] else '?'}`")
    return ", ".join(given)


def _resolved(schema: Mapping[str, Any], described: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that the schema of a body refers to."""
    found: Mapping[str, Any] = described["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return found


def _sockets() -> Iterator[tuple[str, str]]:
    for route in (*builder.router.routes, *goals.router.routes):
        if isinstance(route, APIWebSocketRoute):
            yield route.path, inspect.getdoc(route.endpoint) or ""


def _sentences(text: str) -> str:
    return " ".join(text.split())
