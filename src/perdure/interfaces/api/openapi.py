"""The OpenAPI document: what FastAPI makes of the routes, made exact enough to generate clients from it."""

from collections.abc import Iterator
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
"""The gate checks form, host, origin and size of a request; any handler may meet damage or a database that is down."""
_WITH_BODY = (409, 415)
_TAGS = {
    "server": "Health, login, logout and the start page.",
    "builder": "Sessions of the builder: an interview, turn by turn, that ends with a bot.",
    "bots": "Bots, their files and their versions.",
    "skills": "Skills that a bot can have.",
    "goals": "Goals: start, follow, steer and end them.",
    "approvals": "Calls of all goals that wait for a person.",
    "memory": "Records of the memory.",
    "models": "Language models that goals can ask.",
}


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the application; it is made once."""
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
    """Call an envelope what its title says, `GoalResponse`; pydantic names it by its parts, `Envelope_Goal_`."""
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
    """Add to the failures that a route names those that its method and its parameters imply."""
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
    """Document an optional parameter or body as optional: neither a query nor a header nor a missing body is null."""
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
    """Let every response have more fields than are documented, so that a newer server can add some."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    reached: set[str] = set()
    found = {ref for _, _, operation in _operations(document) for ref in _references(operation["responses"])}
    while found:
        reached |= found
        found = {ref for name in found for ref in _references(schemas[name])} - reached
    for name in reached:
        if schemas[name].get("additionalProperties") is False:
            del schemas[name]["additionalProperties"]


def _references(schema: Any) -> Iterator[str]:
    """Give the names of the schemas that a part of the document refers to."""
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        yield schema["$ref"].removeprefix(_REF)
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _references(inner)


def _correct_values(schema: Any) -> None:
    """Write the largest integers whole, and no default of null.

    FastAPI makes floats of the integers, which are beyond 64 bits. A default of null says that a field is optional,
    which `required` says already, and is wrong for one that is never null.
    """
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        _correct_values(inner)
    if isinstance(schema, dict):
        if schema.get("maximum") == float(STORABLE.integers_below):
            schema["maximum"] = STORABLE.integers_below - 1
        if "default" in schema and schema["default"] is None:
            del schema["default"]
