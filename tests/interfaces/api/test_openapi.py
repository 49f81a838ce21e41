"""The OpenAPI document is exact: every route sends what it says, and it names every form."""

from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args

import httpx
import jsonschema_rs
import pytest

from perdure.kernel.conversation.parts import Opaque, TextPart, ThinkingPart, TokenUsage, ToolCallPart
from perdure.kernel.events import (
    Ask,
    Body,
    Cancel,
    Decision,
    ForkedFrom,
    GoalBegun,
    Head,
    Hold,
    LimitRaised,
    LimitReached,
    Limits,
    Message,
    MindSpec,
    ModelFailure,
    ModelTurn,
    OutcomeUnknown,
    PolicySpec,
    Prompt,
    Released,
    Reopened,
    Signal,
    Termination,
    ToolCall,
    ToolError,
    ToolOutput,
    TranscriptSummary,
    Wait,
    seal,
)
from perdure.testing.model_server import ModelServer, Script, ScriptedAnswer
from tests.interfaces.api.document import document, operation_of, operations, require_documented
from tests.interfaces.api.serving import Served
from tests.interfaces.api.talks import built, ready
from tests.interfaces.api.test_goals import ASKS, ended, waiting

OPTIONAL_BODIES = {"assemble_bot", "cancel_goal", "resume_goal", "retry_goal", "stop_answer"}
SESSION = "01890a5d-ac96-774b-bcce-b302099a8057"
BODIES: list[Body] = [
    GoalBegun("echo hi", MindSpec("command", shell=True), limits=Limits(seconds=1.5), workdir="/w"),
    GoalBegun(
        "g", MindSpec("flow", flow="b", at="a:b", args=[1]), bot="ada", forked_from=ForkedFrom("g", 4), voided=("a1",)
    ),
    Message("hello", "context", "memory", ("r1",)),
    Prompt("00", "a:b", "You are a bot.", settings={"temperature": 0.5}),
    ModelTurn(
        1,
        "a:b",
        "a",
        (
            ThinkingPart("hm", Opaque("a", "i1", "s", {"k": 1})),
            TextPart("hello"),
            ToolCallPart("t1.1", "exec", {"argv": ["true"]}),
            ToolCallPart("t1.2", "exec", arguments_text="{"),
        ),
        "tool_calls",
        TokenUsage(1, 2, 3, 4, 5, estimated=True),
        0.5,
    ),
    TranscriptSummary(2, 9, "They said hello.", "a:b", TokenUsage(1, 2)),
    ModelFailure("a:b", "a", "rate_limited", "Too many requests.", 4, "2026-01-01T00:00:00.000000Z", "wait"),
    LimitReached("usd", 0.1, 0.2),
    ToolCall("c1", "build", "exec", {"argv": ["true"]}, "once"),
    Ask("c2", "sure", "Publish?", ("yes", "no")),
    Wait("c3", "nap", until="2026-01-01T00:00:00.000000Z"),
    ToolOutput("c1", ok=True, output={"stdout": "hi"}, usage={"tokens": 3}),
    ToolOutput("c1", ok=False, error=ToolError("failed", "exit code 1"), step="build", digest="d", effect="pure"),
    OutcomeUnknown("c1", "the worker died"),
    Decision("c2", "answer", {"any": "value"}, shown_sha256="00"),
    Signal("paid", {"order": 7}),
    LimitRaised("seconds", 600.0),
    Termination("failed", "exit code 1", error=ToolError("exit", "exit code 1"), steps=("build",)),
    Reopened("person", "fixed", 12, again=("c1",), unknown=("c4",), policy=PolicySpec("read-only")),
    Hold("crash_loop", 3, ("build",)),
    Released("person"),
    Cancel("person", "withdrawn"),
]
FORMS = {"type", "$ref", "anyOf", "const", "enum"}
_ARGUMENTS = "the arguments of a flow or a tool, which declares them itself"
_VALUE = "a value of a flow, a tool or a person"
_EXCEPTION = "the arguments of an exception of the user's code"
_RECORDED = "what a tool records about itself"
_KEPT = "keys of the caller's own, which are kept"
FREE = {
    "GoalBody.args": _ARGUMENTS,
    "MindSpec.args": _ARGUMENTS,
    "MindSpec.options": "the options of a kind of mind, which declares them itself",
    "ToolCallAction.arguments": _ARGUMENTS,
    "AnswerToolCall.arguments": _ARGUMENTS,
    "PromptTool.parameters": "the JSON Schema of the arguments of a tool, which declares it itself",
    "Prompt.settings": "what a model takes as settings",
    "Opaque.details": "what a provider adds to an answer of its own",
    "Approval.arguments": _ARGUMENTS,
    "ShownCall.arguments": _ARGUMENTS,
    "Decision.value": _VALUE,
    "DecisionBody.value": _VALUE,
    "Signal.payload": _VALUE,
    "SignalBody.payload": _VALUE,
    "Termination.value": _VALUE,
    "ToolOutput.output": _VALUE,
    "ResultEntry.output": _VALUE,
    "DecisionEntry.value": _VALUE,
    "Goal.output": _VALUE,
    "GoalDetail.output": _VALUE,
    "Call.answer": _VALUE,
    "Pending.payload": "a post as it came in, with the value of a person; it is described once it is an event",
    "ToolError.args": _EXCEPTION,
    "Failure.args": _EXCEPTION,
    "ToolError.attributes": _EXCEPTION,
    "Failure.attributes": _EXCEPTION,
    "ToolOutput.usage": _RECORDED,
    "ToolOutput.meta": _RECORDED,
    "Call.usage": _RECORDED,
    "Call.meta": _RECORDED,
    "RecordBody.metadata": _KEPT,
    "RecordChanges.metadata": _KEPT,
    "MemoryRecord.metadata": _KEPT,
}
"""Every value without a form, and why."""
OPEN = {"MemoryRecord", "RecordBody", "RecordChanges", "RecordLink"}
"""The forms whose objects may have keys of the caller's own."""


def schemas() -> dict[str, Any]:
    found: dict[str, Any] = document()["components"]["schemas"]
    return found


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Give every object of a part of the document."""
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(inner)


async def test_every_route_sends_what_the_document_says(plain: Served) -> None:
    seen: set[str] = set()

    async def note(response: httpx.Response) -> None:
        operation = operation_of(response.request)
        if response.is_success or response.status_code == 303:
            seen.add(str(operation and operation["operationId"]))

    for http in (plain.http, plain.client._connection._http):
        http.event_hooks = {"response": [require_documented, note]}
    await _use_goals(plain)
    await _use_builder_and_bots(plain)
    await _use_memory(plain)
    await _use_models(plain)
    await _use_conversations(plain)
    for path in ("/healthz", "/", plain.server.login_url().removeprefix(plain.server.url)):
        await plain.http.get(f"{plain.server.url}{path}")
    await plain.http.post(f"{plain.server.url}/logout")
    assert seen == set(operations())


async def _use_goals(plain: Served) -> None:
    asks = (await plain.http.post("/goals", json={"plan": ASKS})).json()["data"]["id"]
    await waiting(plain.client, asks)
    for path in ("/goals", f"/goals/{asks}", f"/goals/{asks}/events", "/approvals"):
        assert (await plain.http.get(path)).json()["data"]
    await plain.http.post(f"/goals/{asks}/signals", json={"name": "paid"})
    await plain.http.post(f"/goals/{asks}/decisions", json={"decision": "answer", "value": "yes"})
    await ended(plain.client, asks)
    fork = (await plain.http.post(f"/goals/{asks}/fork", json={"at": 1})).json()["data"]["id"]
    await plain.http.post(f"/goals/{fork}/resume")
    await plain.http.post(f"/goals/{fork}/cancel")
    failed = (await plain.http.post("/goals", json={"command": "false"})).json()["data"]["id"]
    await ended(plain.client, failed)
    assert (await plain.http.post(f"/goals/{failed}/retry")).status_code == 200


async def _use_builder_and_bots(plain: Served) -> None:
    other = await ready(plain.client)
    assert (await plain.http.get(f"/builder/sessions/{other}/changes")).json()["data"]["diffs"]
    await plain.client.builder.delete(other)
    slug = (await built(plain.client))["bot_slug"]
    here = f"/builder/sessions/{SESSION}"
    await plain.http.post(f"{here}/reconfigure", json={"bot_slug": slug})
    await plain.http.post(f"{here}/resume")
    await plain.http.post(f"{here}/create-skill", json={"skill_request": {"name": "tea", "description": "Brew tea"}})
    for path in (here, "/builder/drafts", "/skills", "/skills/tea", "/bots", f"/bots/{slug}", f"/bots/{slug}/versions"):
        assert (await plain.http.get(path)).json()["data"]
    await plain.http.get(f"/bots/{slug}/files/SOUL.md")
    await plain.http.get(f"/bots/{slug}/explanation?place=SOUL.md:1")
    await plain.http.get(f"/bots/{slug}/problems")
    await plain.http.post(f"/bots/{slug}/rollback", json={"version": 1})
    archive = (await plain.http.get(f"/bots/{slug}/archive")).json()["data"]["archive"]
    await plain.http.post("/bots", json={"archive": archive})
    await plain.http.delete(here)
    (choice,) = (await plain.http.get("/builder/choices")).json()["data"]
    await plain.http.delete(f"/builder/choices/{choice['id']}")
    await plain.http.delete("/builder/choices")
    await plain.http.delete(f"/bots/{slug}")


async def _use_conversations(plain: Served) -> None:
    with ModelServer() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_BASE_URL", server.url)
        server.script.add(ScriptedAnswer("First."), ScriptedAnswer("Second."))
        goal = await plain.client.conversations.start("One?", model="openai:m")
        await plain.client.conversations.say(goal["id"], "Two?")
        await plain.client.conversations.stop(goal["id"])
        assert [entry["kind"] async for entry in plain.client.conversations.transcript(goal["id"])]
        assert [each["messages"] async for each in plain.client.conversations.each()]
        await plain.client.goals.cancel(goal["id"])


async def _use_models(plain: Served) -> None:
    assert (await plain.http.get("/models")).json()["data"]
    with ModelServer(Script([ScriptedAnswer("ready")])) as server:
        await plain.http.post("/models/test", json={"name": f"openai-compatible:m@{server.url}/v1"})


async def _use_memory(plain: Served) -> None:
    record = {"type": "lesson", "title": "The cart caches prices", "paths": ["src/cart.py"], "links": ["http://a"]}
    added = (await plain.http.post("/memory/records", json=record)).json()["data"]["id"]
    await plain.http.post("/memory/records", json=record)
    await plain.http.put("/memory/records", json={"records": [{**record, "id": "a1"}]})
    await plain.http.patch(f"/memory/records/{added}", json={"severity": "high"})
    await plain.http.patch(f"/memory/records/{added}", json={"severity": "high"})
    listed = ("/memory/records?text=cart", "/memory/records?type=lesson")
    for path in (*listed, f"/memory/records/{added}", "/memory/related?path=src/cart.py"):
        assert (await plain.http.get(path)).json()["data"]
    await plain.http.get("/memory/status")
    assert (await plain.client.memory.pins("assistant"))["pins"] == []
    await plain.http.delete(f"/memory/records/{added}")


async def test_an_undocumented_response_is_noticed() -> None:
    request = httpx.Request("GET", "http://localhost/api/v1/goals")
    meta = {"request_id": "1", "timestamp": "2026-01-01T00:00:00Z", "response_time_ms": 1.0, "next_cursor": None}
    fits = {"data": [], "meta": meta, "_links": {}}
    await require_documented(httpx.Response(200, json=fits, request=request))
    with pytest.raises(jsonschema_rs.ValidationError):
        await require_documented(httpx.Response(200, json={**fits, "data": [{"id": 7}]}, request=request))
    with pytest.raises(AssertionError, match="412 is not documented"):
        await require_documented(httpx.Response(412, json={}, request=request))


def test_bodies_that_can_be_left_out_are_documented_as_optional() -> None:
    bodies = {name: each["requestBody"] for name, each in operations().items() if "requestBody" in each}
    assert {name for name, body in bodies.items() if not body["required"]} == OPTIONAL_BODIES
    assert all(list(body["content"]) == ["application/json"] for body in bodies.values())
    assert all(body["content"]["application/json"]["schema"].keys() >= {"$ref"} for body in bodies.values())


async def test_a_body_that_is_optional_needs_no_content_type_either(plain: Served) -> None:
    goal = await plain.client.goals.create(plan=ASKS)
    await waiting(plain.client, goal["id"])
    session = await ready(plain.client)
    for path in (f"goals/{goal['id']}/resume", f"goals/{goal['id']}/cancel", f"builder/sessions/{session}/assemble"):
        request = plain.http.build_request("POST", path)
        assert "content-type" not in request.headers
        assert (await plain.http.send(request)).status_code == 200, path


def test_parameters_are_optional_but_never_null() -> None:
    parameters = [each for operation in operations().values() for each in operation.get("parameters", [])]
    assert any(not each["required"] for each in parameters)
    assert {"type": "null"} not in list(parts(parameters))


def test_operations_have_names_of_their_own_and_the_tag_of_their_noun() -> None:
    assert {"start_goal", "list_goals", "answer_turn", "get_bot", "add_record"} < set(operations())
    assert len(operations()) == sum(len(methods) for methods in document()["paths"].values())
    known = {tag["name"] for tag in document()["tags"]}
    assert {tag for operation in operations().values() for tag in operation["tags"]} == known


def test_only_what_callers_choose_themselves_has_no_form() -> None:
    free = {
        f"{name}.{key}"
        for name, schema in schemas().items()
        for key, value in schema.get("properties", {}).items()
        if is_free(value)
    }
    assert free == FREE.keys()
    assert {name for name, schema in schemas().items() if has_no_keys(schema)} == OPEN
    assert [place for place, schema in inline() if is_free_object(schema)] == []


def is_free(schema: dict[str, Any]) -> bool:
    """Tell whether a schema takes any value, or any object."""
    takes_anything = not FORMS & schema.keys()
    return takes_anything or any(part.get("additionalProperties") is True for part in parts(schema))


def has_no_keys(schema: dict[str, Any]) -> bool:
    """Tell whether a schema is of objects that may have any keys, or of any object."""
    return schema.get("additionalProperties") is True or is_free_object(schema)


def is_free_object(schema: dict[str, Any]) -> bool:
    """Tell whether a schema is of objects of which it says nothing."""
    return schema.get("type") == "object" and not schema.keys() & {"properties", "additionalProperties"}


def inline() -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every object of the document beside the named forms and what they have a reason for, with its place."""
    for path, methods in document()["paths"].items():
        for part in parts(methods):
            yield path, part
    for name, schema in schemas().items():
        for key, value in schema.get("properties", {}).items():
            if f"{name}.{key}" not in FREE:
                for part in parts(value):
                    yield f"{name}.{key}", part


def test_only_forms_of_requests_are_closed_so_that_a_response_may_get_new_fields() -> None:
    closed = {name for name, schema in schemas().items() if schema.get("additionalProperties") is False}
    bodies = {name for name in schemas() if name.endswith("Body")} - {"RecordBody"}
    assert closed == bodies | {"Back", "Confirm", "FreeText", "OptionIndex", "OptionIndexes"}


def test_a_route_documents_only_the_failures_that_it_can_have() -> None:
    failures = {
        name: {int(status) for status in each["responses"] if status >= "4"} for name, each in operations().items()
    }
    always = {400, 401, 403, 413, 422, 500, 503}
    assert failures["list_bots"] == always
    assert failures["get_goal"] == always | {404, 409}
    assert failures["answer_turn"] == always | {404, 409, 410, 412, 415}
    assert failures["start_goal"] == always | {404, 409, 415, 429}


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_every_event_fits_the_form_of_its_type(body: Body) -> None:
    event = seal(body, Head("g"), event_id="e1", iteration=1, timestamp_us=1).wire()
    name = schemas()["Event"]["discriminator"]["mapping"][event["type"]]
    jsonschema_rs.Draft202012Validator({"$ref": name, "components": document()["components"]}).validate(event)


@pytest.mark.parametrize("kind", get_args(Body), ids=lambda kind: kind.__name__)
def test_a_form_has_all_fields_of_its_event(kind: type) -> None:
    assert kind in {type(body) for body in BODIES}
    action = kind.__name__ if kind.__name__ in schemas() else f"{kind.__name__}Action"
    form = schemas()[action]
    assert form["properties"].keys() - {"kind"} == {field.name for field in fields(kind)}
