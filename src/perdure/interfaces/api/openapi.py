"""The OpenAPI document: the one of FastAPI, corrected so that clients can be generated from it."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from perdure.app.wire.resources.problems import Problem
from perdure.interfaces.api.auth.security_middleware import OPEN_PATHS
from perdure.interfaces.api.schemas.problems import refusals
from perdure.text.strict_json import STORABLE

_REF = "#/components/schemas/"
_ALWAYS = (400, 403, 413, 422, 500, 503)
"""Failures of every operation: the middleware checks form, host, origin and size, and any handler may find damage or no
database."""
_WITH_BODY = (409, 415)
_TAGS = {
    "server": "Health, login, logout and the start page.",
    "builder": "Sessions of the builder: an interview, turn by turn, that ends with a bot.",
    "bots": "Bots, their files and their versions.",
    "skills": "Skills that a bot can have.",
    "goals": "Goals: start, follow, decide, signal, fork, retry and cancel them.",
    "chat": "Conversations with bots: start one, send messages, stop an answer.",
    "approvals": "Calls of all goals that wait for a person.",
    "memory": "Records of the memory.",
    "models": "Language models that goals can ask.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the application, which is built once."""
    if app.openapi_schema is None:
        app.openapi_schema = _document(app)
    return app.openapi_schema


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        routes=app.routes,
        tags=[{"name": name, "description": about} for name, about in _TAGS.items()],
    )
    document = _named_by_title(document)
    components = document["components"]
    components["schemas"] |= _problem_schemas()
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    for path, method, operation in _operations(document):
        operation["summary"] = operation["operationId"].replace("_", " ").capitalize()
        _describe_refusals(path, method, operation)
        _drop_nulls(operation)
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    _allow_new_fields(document)
    _correct_values(document)
    return document


def _named_by_title(document: dict[str, Any]) -> dict[str, Any]:
    """Rename envelope schemas to their titles, such as `GoalResponse`; pydantic names it `Envelope_Goal_`."""
    text = orjson.dumps(document)
    for name, schema in document["components"]["schemas"].items():
        if name.endswith("_"):
            text = text.replace(b'%s"' % name.encode(), b'%s"' % schema["title"].encode())
    renamed: dict[str, Any] = orjson.loads(text)
    return renamed


def _problem_schemas() -> dict[str, Any]:
    schema = TypeAdapter(Problem).json_schema(ref_template=f"{_REF}{{model}}", mode="serialization")
    return {**schema.pop("$defs"), "Problem": schema}


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield path, method, operation


def _describe_refusals(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add the failures that the method and the parameters of a route imply to those that it declares."""
    parameters = operation.get("parameters", [])
    statuses = list(_ALWAYS)
    if path in OPEN_PATHS:
        operation["security"] = []
    else:
        statuses.append(401)
    if method != "get":
        statuses += _WITH_BODY
    if any(each["in"] == "path" for each in parameters):
        statuses.append(404)
    if any(each["name"] == "If-Match" for each in parameters):
        statuses.append(412)
    operation["responses"].pop("422", None)  # FastAPI's own form of a validation error
    named = operation["responses"] | {str(status): about for status, about in refusals(*statuses).items()}
    operation["responses"] = dict(sorted(named.items()))


def _drop_nulls(operation: dict[str, Any]) -> None:
    """Document optional parameters and bodies as optional instead of nullable."""
    for parameter in operation.get("parameters", []):
        parameter["schema"] = _without_null(parameter["schema"])
    if "requestBody" in operation:
        body = operation["requestBody"]
        body.setdefault("required", False)
        content = body["content"]["application/json"]
        content["schema"] = content["schema"] if body["required"] else _without_null(content["schema"])


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    others = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if len(others) != 1:
        return schema
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "title")}
    return others[0] if "$ref" in others[0] else {**others[0], **rest}


def _allow_new_fields(document: dict[str, Any]) -> None:
    """Allow undocumented fields in every response, so that a newer server can add fields."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    reached: set[str] = set()
    found = {ref for _, _, operation in _operations(document) for ref in _references(operation["responses"])}
    while found:
        reached |= found
        found = {ref for name in found for ref in _references(schemas[name])} - reached
    for name in reached:
        if schemas[name].get("additionalProperties") is False:
            del schemas[name]["additionalProperties"]


def _parts(schema: Any) -> Iterable[Any]:
    """Return the values of an object or the items of an array; empty for anything else."""
    if isinstance(schema, dict):
        return schema.values()
    return schema if isinstance(schema, list) else ()


def _references(schema: Any) -> Iterator[str]:
    """Yield the names of the schemas that a part of the document refers to."""
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"].removeprefix(_REF)
    for inner in _parts(schema):
        yield from _references(inner)


def _correct_values(schema: Any) -> None:
    """Restore large integers that FastAPI converted to floats, and remove defaults of null.

    A default of null only marks a field as optional, as `required` already does, and is wrong for a field that is never
    null.
    """
    for inner in _parts(schema):
        _correct_values(inner)
    if isinstance(schema, dict):
        if schema.get("maximum") == float(STORABLE.integers_below):
            schema["maximum"] = STORABLE.integers_below - 1
        if "default" in schema and schema["default"] is None:
            del schema["default"]
