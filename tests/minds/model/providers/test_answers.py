"""Answers of every protocol: parts, deltas, usage, and what a model is sent."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from perdure.errors import Invalid
from perdure.kernel.conversation.parts import Opaque, Part, TextPart, ThinkingPart, TokenUsage, ToolCallPart
from perdure.kernel.tool import ToolSpec
from perdure.minds.model.ports import (
    ModelAnswer,
    ModelMessage,
    ModelParts,
    ModelRequest,
    ModelSettings,
    ToolResult,
    UserText,
)
from perdure.minds.model.providers.client import ProviderClient
from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from perdure.testing.model_server.answers import ScriptedUsage
from tests.minds.model.providers.conftest import Watched, hello

LOOK = ToolSpec(
    "look",
    "Looks at a path.",
    {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "pure",
)
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
LONG = "Good morning, Ada. " * 20


def plain(answer: ModelAnswer) -> list[tuple[str, Any]]:
    """Return the parts of an answer without what the provider adds."""
    found: list[tuple[str, Any]] = []
    for part in answer.parts:
        match part:
            case TextPart():
                found.append(("text", part.text))
            case ThinkingPart():
                found.append(("thinking", part.text))
            case ToolCallPart():
                found.append((part.tool, part.arguments if part.arguments_text is None else part.arguments_text))
    return found


async def test_text_arrives_in_deltas_that_together_are_the_answer(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer(LONG, thinking="A greeting, I think."))
    answer = await client.answer(hello(model), watched)
    assert plain(answer) == [("thinking", "A greeting, I think."), ("text", LONG)]
    assert (watched.text(0), watched.text(1)) == ("A greeting, I think.", LONG)
    assert len(watched.deltas) > 20
    assert (answer.finish_reason, answer.model, answer.attempts) == ("stop", model, 1)
    assert answer.provider == model.partition(":")[0]
    assert not answer.truncated
    assert [each.outcome for each in server.requests] == ["answered"]


async def test_tool_calls_arrive_whole_and_without_an_id_of_ours(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    calls = (ScriptedCall("look", {"path": "a.txt"}), ScriptedCall("look", {"path": "é"}))
    server.script.add(ScriptedAnswer("Let me see.", calls=calls))
    answer = await client.answer(ModelRequest(model, "", [UserText("Look")], [LOOK]), watched)
    assert plain(answer) == [("text", "Let me see."), ("look", {"path": "a.txt"}), ("look", {"path": "é"})]
    assert answer.finish_reason == "tool_calls"
    assert json.loads(watched.text(2)) == {"path": "é"}
    found = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    assert [part.call_id for part in found] == ["", ""]
    assert [bool(part.opaque and part.opaque.id) for part in found] == [True, True]


ODD = {
    "length": (ScriptedAnswer("Once upon", finish="length"), "length", [("text", "Once upon")]),
    "refusal": (ScriptedAnswer("I cannot.", finish="refusal"), "refusal", [("text", "I cannot.")]),
    "empty": (ScriptedAnswer(""), "empty", []),
    "list": (ScriptedAnswer(calls=(ScriptedCall("look", "[1]"),)), "tool_calls", [("look", "[1]")]),
    "invalid": (ScriptedAnswer(calls=(ScriptedCall("look", '{"a"'),)), "tool_calls", [("look", '{"a"')]),
    "unknown": (ScriptedAnswer(calls=(ScriptedCall("fly", {}),)), "tool_calls", [("fly", {})]),
}


@pytest.mark.parametrize("odd", ODD)
async def test_an_answer_that_is_not_what_was_wanted_is_an_answer(
    server: ModelServer,
    client: ProviderClient,
    watched: Watched,
    model: str,
    odd: str,
) -> None:
    scripted, finish, parts = ODD[odd]
    server.script.add(scripted)
    answer = await client.answer(ModelRequest(model, "", [UserText("Hello")], [LOOK]), watched)
    assert (answer.finish_reason, plain(answer)) == (finish, parts)


async def test_the_usage_is_that_of_the_provider_and_has_a_price(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer("Hi", usage=ScriptedUsage(input=2000, output=50, cache_read=1500)))
    answer = await client.answer(hello(model), watched)
    assert answer.usage == TokenUsage(input=2000, output=50, cache_read=1500)
    if model.startswith("ollama"):
        assert answer.cost_usd == 0
    else:
        uncached = client.cost_usd(model, TokenUsage(input=2000, output=50))
        assert uncached is not None
        assert answer.cost_usd is not None
        assert 0 < answer.cost_usd < uncached


@pytest.mark.parametrize("model", ["openai:m", "openai-chat:m", "ollama:m"])
async def test_a_usage_that_is_not_reported_is_estimated(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer("Hi there, Ada!", reports_usage=False))
    answer = await client.answer(hello(model), watched)
    assert answer.usage == TokenUsage(input=-(-len("You are Ada's assistant.Hello") // 3), output=5, estimated=True)


async def test_an_answer_of_ten_megabytes_is_read_to_its_first(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer("é" * 5_000_000, characters=100_000))
    answer = await client.answer(hello(model), watched)
    assert [len(str(text).encode()) for _, text in plain(answer)] == [1 << 20]
    assert (answer.truncated, answer.finish_reason, answer.usage.estimated) == (True, "length", True)
    assert watched.text(0) == plain(answer)[0][1]
    server.settle()
    assert [each.outcome for each in server.requests] == ["hung_up"]


async def test_a_call_that_is_cut_is_left_out(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    call = ScriptedCall("look", {"path": "x" * 2_000_000})
    server.script.add(ScriptedAnswer("Look:", calls=(call,), characters=100_000))
    answer = await client.answer(ModelRequest(model, "", [UserText("Look")], [LOOK]), watched)
    assert (plain(answer), answer.finish_reason, answer.truncated) == ([("text", "Look:")], "length", True)


async def test_half_characters_become_whole_or_are_replaced(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    call = ScriptedCall("look", '{"path": "\ud83d"}')
    server.script.add(ScriptedAnswer("a\ud83d\ude00\udc00b", characters=1, calls=(call,)))
    answer = await client.answer(ModelRequest(model, "", [UserText("Look")], [LOOK]), watched)
    assert plain(answer) == [("text", "a😀\ufffdb"), ("look", {"path": "\ufffd"})]
    assert watched.text(0) == "a😀\ufffdb"


async def test_arguments_that_are_nested_too_deep_are_a_text(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    deep = '{"a":' * 10_000 + "1" + "}" * 10_000
    server.script.add(ScriptedAnswer(calls=(ScriptedCall("look", deep),), characters=10_000))
    answer = await client.answer(ModelRequest(model, "", [UserText("Look")], [LOOK]), watched)
    assert plain(answer) == [("look", deep)]


async def test_escapes_of_a_terminal_are_text_like_any_other(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    text = "\x1b[2J<script>alert(1)</script>\x07"
    server.script.add(ScriptedAnswer(text))
    assert plain(await client.answer(hello(model), watched)) == [("text", text)]


async def test_an_answer_of_a_form_is_one_text(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer(data={"name": "Ada", "age": 36}, thinking="A person."))
    request = ModelRequest(model, "", [UserText("Name a person.")], output_schema=SCHEMA)
    answer = await client.answer(request, watched)
    assert [type(part) for part in answer.parts] == [TextPart]
    assert json.loads(watched.text(0)) == {"name": "Ada", "age": 36}
    assert plain(answer) == [("text", watched.text(0))]
    assert answer.finish_reason == "stop"
    body = server.requests[0].body
    assert "additionalProperties" in json.dumps(body)


@pytest.mark.parametrize("model", ["anthropic:claude-3-haiku"])
async def test_a_model_without_structured_output_is_given_a_tool_for_it(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer(data={"name": "Ada", "age": 36}))
    answer = await client.answer(ModelRequest(model, "", [UserText("Who?")], output_schema=SCHEMA), watched)
    assert [tool["name"] for tool in server.requests[0].body["tools"]] == ["answer"]
    assert server.requests[0].body["tool_choice"]["type"] in ("any", "tool")
    assert [json.loads(text) for _, text in plain(answer)] == [{"name": "Ada", "age": 36}]
    assert answer.finish_reason == "stop"


CALLS: Sequence[Part] = [
    ThinkingPart("I look.", Opaque("anthropic", signature="sealed-a")),
    TextPart("I look.", Opaque("openai", id="msg_a")),
    ToolCallPart("t1.1", "look", {"path": "a"}, opaque=Opaque("openai", id="call_a", details={"item_id": "fc_a"})),
    ToolCallPart("t1.2", "look", None, "[1]", opaque=Opaque("anthropic", id="toolu_b")),
]
CONVERSATION: Sequence[ModelMessage] = [
    UserText("Look at a."),
    ModelParts(CALLS),
    ToolResult("t1.1", "look", "nothing"),
    ToolResult("t1.2", "look", "not an object", ok=False),
    UserText("And now?"),
]


async def test_anthropic_is_sent_its_own_signatures_and_ids_and_no_others(
    server: ModelServer, client: ProviderClient, watched: Watched
) -> None:
    server.script.add(ScriptedAnswer("Done."))
    await client.answer(ModelRequest("anthropic:claude-sonnet-5", "Be brief.", CONVERSATION, [LOOK]), watched)
    messages: Sequence[Mapping[str, Any]] = server.requests[0].body["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "user"]
    thinking, text, first, second = messages[1]["content"]
    assert (thinking["type"], thinking["signature"]) == ("thinking", "sealed-a")
    assert (text["type"], first["id"], second["id"]) == ("text", "t1_1", "toolu_b")
    results = messages[2]["content"]
    assert [each.get("tool_use_id") for each in results] == ["t1_1", "toolu_b", None]
    assert [each.get("is_error", False) for each in results] == [False, True, False]
    assert "msg_a" not in json.dumps(messages)
    assert "Be brief." in json.dumps(server.requests[0].body["system"])


async def test_openai_is_sent_its_own_ids_and_no_signature_of_others(
    server: ModelServer, client: ProviderClient, watched: Watched
) -> None:
    server.script.add(ScriptedAnswer("Done."))
    await client.answer(ModelRequest("openai:gpt-5.4-mini", "Be brief.", CONVERSATION, [LOOK]), watched)
    body = server.requests[0].body
    items = [each for each in body["input"] if each.get("type") in ("function_call", "function_call_output")]
    assert [each["call_id"] for each in items] == ["call_a", "t1_2", "call_a", "t1_2"]
    assert "sealed-a" not in json.dumps(body)
    assert "toolu_b" not in json.dumps(body)
    assert body["store"] is False
    assert (body["instructions"], body["stream"]) == ("Be brief.", True)


async def test_a_recorded_answer_can_be_sent_back_and_continued(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer("See.", thinking="Hm.", calls=(ScriptedCall("look", {"path": "a"}),)))
    server.script.add(ScriptedAnswer("It is empty."))
    first = await client.answer(ModelRequest(model, "", [UserText("Look")], [LOOK]), watched)
    messages: Sequence[ModelMessage] = [UserText("Look"), ModelParts(first.parts), ToolResult("", "look", "")]
    second = await client.answer(ModelRequest(model, "", messages, [LOOK]), watched)
    assert plain(second) == [("text", "It is empty.")]
    assert server.repeated_requests == []
    sent = json.dumps(server.requests[1].body)
    call = first.parts[-1]
    assert isinstance(call, ToolCallPart)
    assert call.opaque is not None
    assert sent.count(f'"{call.opaque.id}"') == 2  # the call, and its result
    thinking = first.parts[0].opaque
    assert thinking is not None
    if thinking.signature is not None:
        assert thinking.signature in sent


async def test_tools_have_names_that_providers_accept_and_keep_ours(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    names = ["github.search", "github_search", "x" * 80]
    tools = [ToolSpec(name, "", {"type": "object", "properties": {}}, "pure") for name in names]
    sent = ["github_search", "github_search_2", "x" * 64]
    server.script.add(ScriptedAnswer(calls=tuple(ScriptedCall(name) for name in sent)))
    answer = await client.answer(ModelRequest(model, "", [UserText("Search")], tools), watched)
    assert [name for name, _ in plain(answer)] == names
    described = server.requests[0].body["tools"]
    assert [(each.get("function") or each)["name"] for each in described] == sent


async def test_settings_are_sent_when_they_are_set(
    server: ModelServer, client: ProviderClient, watched: Watched, model: str
) -> None:
    server.script.add(ScriptedAnswer("Hi"), ScriptedAnswer("Hi"))
    await client.answer(ModelRequest(model, "", [UserText("Hi")], settings=ModelSettings(max_tokens=77)), watched)
    limits = {"max_tokens", "max_output_tokens", "max_completion_tokens"}
    assert [value for key, value in server.requests[0].body.items() if key in limits] == [77]
    assert "temperature" not in server.requests[0].body
    if model.startswith("ollama"):
        await client.answer(ModelRequest(model, "", [UserText("Hi")], settings=ModelSettings(temperature=0.2)), watched)
        assert server.requests[1].body["temperature"] == 0.2


@pytest.mark.parametrize("name", ["builtin", "gpt-5", "nobody-knows:m"])
async def test_a_model_that_does_not_exist_is_invalid(client: ProviderClient, watched: Watched, name: str) -> None:
    with pytest.raises(Invalid):
        await client.answer(hello(name), watched)
