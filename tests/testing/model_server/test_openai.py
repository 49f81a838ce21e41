"""The scripted server as the client of OpenAI sees it."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import openai
import pytest

from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from perdure.testing.model_server.answers import ScriptedUsage

USAGE = ScriptedUsage(input=120, output=30, cache_read=100, reasoning=7)
CALLS = (ScriptedCall("read_file", {"path": "a.txt"}), ScriptedCall("done", {"value": 1}))
TOOL: Any = {"type": "function", "name": "save", "parameters": {"type": "object", "properties": {}}, "strict": False}
CHAT_TOOL: Any = {"type": "function", "function": {"name": "save", "parameters": {"type": "object"}}}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def client(server: ModelServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="sk-a", max_retries=0) as client:
        yield client


def asked(text: str = "Hello") -> list[Any]:
    return [{"role": "user", "content": text}]


def test_a_chat_completion_is_streamed_in_pieces(server: ModelServer, client: openai.OpenAI) -> None:
    server.script.add(ScriptedAnswer("Good morning, Ada.", thinking="A greeting.", usage=USAGE))
    stream = client.chat.completions.create(model="m", messages=asked(), stream=True)
    chunks = list(stream)
    texts = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert len(texts) == 3
    assert "".join(texts) == "Good morning, Ada."
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.prompt_tokens == 120
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert server.requests[0].outcome == "answered"


def test_the_calls_of_a_chat_completion_are_the_same_streamed_and_whole(
    server: ModelServer, client: openai.OpenAI
) -> None:
    server.script.add(ScriptedAnswer(calls=CALLS), ScriptedAnswer(calls=CALLS))
    with client.chat.completions.stream(model="m", messages=asked()) as stream:
        streamed = stream.get_final_completion().choices[0]
    whole = client.chat.completions.create(model="m", messages=asked()).choices[0]
    for choice in (streamed, whole):
        assert choice.finish_reason == "tool_calls"
        calls = [call.function for call in choice.message.tool_calls or [] if call.type == "function"]
        assert [(call.name, json.loads(call.arguments)) for call in calls] == [
            ("read_file", {"path": "a.txt"}),
            ("done", {"value": 1}),
        ]


def test_a_response_is_streamed_in_pieces(server: ModelServer, client: openai.OpenAI) -> None:
    server.script.add(ScriptedAnswer("Good morning, Ada.", thinking="A greeting.", usage=USAGE))
    with client.responses.stream(model="m", input="Hello") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert len(deltas) == 3
    assert final.output_text == "".join(deltas) == "Good morning, Ada."
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert final.usage is not None
    assert final.usage.input_tokens_details.cached_tokens == 100


def test_the_calls_of_a_response_are_the_same_streamed_and_whole(server: ModelServer, client: openai.OpenAI) -> None:
    server.script.add(ScriptedAnswer(calls=CALLS), ScriptedAnswer(calls=CALLS))
    with client.responses.stream(model="m", input="Hello") as stream:
        streamed = stream.get_final_response()
    whole = client.responses.create(model="m", input="Hello")
    for response in (streamed, whole):
        calls = [item for item in response.output if item.type == "function_call"]
        assert [(call.name, json.loads(call.arguments)) for call in calls] == [
            ("read_file", {"path": "a.txt"}),
            ("done", {"value": 1}),
        ]


def test_data_is_text_for_a_schema_and_a_call_for_a_required_tool(server: ModelServer, client: openai.OpenAI) -> None:
    server.script.add(*[ScriptedAnswer(data={"name": "Ada"})] * 4)
    schema: Any = {"name": "person", "schema": {"type": "object"}}
    text_format: Any = {"type": "json_schema", **schema, "strict": True}
    text = client.responses.create(model="m", input="Hello", text={"format": text_format})
    assert json.loads(text.output_text) == {"name": "Ada"}
    required = client.responses.create(model="m", input="Hello", tools=[TOOL], tool_choice="required")
    assert [(item.type, getattr(item, "name", "")) for item in required.output] == [("function_call", "save")]
    chat = client.chat.completions.create(
        model="m", messages=asked(), response_format={"type": "json_schema", "json_schema": schema}
    )
    assert json.loads(chat.choices[0].message.content or "") == {"name": "Ada"}
    named: Any = {"type": "function", "function": {"name": "save"}}
    called = client.chat.completions.create(model="m", messages=asked(), tools=[CHAT_TOOL], tool_choice=named)
    assert called.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
    ],
)
def test_an_error_has_the_status_of_the_script(
    server: ModelServer, client: openai.OpenAI, status: int, error: type[openai.APIStatusError]
) -> None:
    server.script.add(ScriptedAnswer(status=status, message="No.", retry_after="7"))
    with pytest.raises(error) as caught:
        client.responses.create(model="m", input="Hello")
    assert caught.value.response.headers["retry-after"] == "7"
    assert caught.value.response.json()["error"]["message"] == "No."
    assert server.requests[0].outcome == "failed"


def test_a_refusal_and_a_short_answer_say_so(server: ModelServer, client: openai.OpenAI) -> None:
    refusal, short = ScriptedAnswer("I cannot.", finish="refusal"), ScriptedAnswer("Once upon", finish="length")
    server.script.add(refusal, short, refusal, short)
    refused = client.responses.create(model="m", input="Hello").output[0]
    assert refused.type == "message"
    assert refused.content[0].type == "refusal"
    cut = client.responses.create(model="m", input="Hello")
    assert cut.incomplete_details is not None
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert client.chat.completions.create(model="m", messages=asked()).choices[0].message.refusal == "I cannot."
    assert client.chat.completions.create(model="m", messages=asked()).choices[0].finish_reason == "length"


@pytest.mark.parametrize("fault", [{"cut_after": 1}, {"cut_after": 0}, {"raw_bytes": b"nonsense\r\n\r\n"}])
def test_a_broken_connection_is_an_error_of_the_client(
    server: ModelServer, client: openai.OpenAI, fault: dict[str, Any]
) -> None:
    server.script.add(ScriptedAnswer("Good morning, Ada.", **fault))
    with pytest.raises((openai.APIConnectionError, httpx2.TransportError)):
        list(client.chat.completions.create(model="m", messages=asked(), stream=True))
    assert server.requests[0].outcome in ("cut", "failed")


def test_a_stream_can_end_without_its_last_events(server: ModelServer, client: openai.OpenAI) -> None:
    server.script.add(ScriptedAnswer("Good morning, Ada.", end_after=1))
    events = list(client.responses.create(model="m", input="Hello", stream=True))
    assert events[-1].type == "response.output_text.delta"
    assert server.requests[0].outcome == "cut"


def test_a_client_that_leaves_is_recorded(server: ModelServer, client: openai.OpenAI) -> None:
    server.script.add(ScriptedAnswer("Good morning, Ada.", hold_after=1))
    stream = client.chat.completions.create(model="m", messages=asked(), stream=True)
    assert next(iter(stream)).choices
    stream.close()
    client.close()
    server.settle()
    assert [each.outcome for each in server.requests] == ["hung_up"]


def test_a_held_response_continues_when_it_is_released(server: ModelServer, client: openai.OpenAI) -> None:
    server.script.add(ScriptedAnswer("Good morning, Ada.", hold_after=1))
    stream = iter(client.chat.completions.create(model="m", messages=asked(), stream=True))
    begun = [next(stream), next(stream)]
    assert server.requests[0].outcome == "open"
    server.release()
    rest = list(stream)
    texts = [chunk.choices[0].delta.content or "" for chunk in begun + rest if chunk.choices]
    assert "".join(texts) == "Good morning, Ada."


def test_an_error_inside_of_a_stream_reaches_the_client(server: ModelServer, client: openai.OpenAI) -> None:
    server.script.add(ScriptedAnswer("Good morning, Ada.", error_after=1, message="Too many."))
    with pytest.raises(openai.APIError, match="Too many"):
        list(client.chat.completions.create(model="m", messages=asked(), stream=True))
