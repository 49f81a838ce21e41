"""The scripted server as the client of Anthropic sees it."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from perdure.testing.model_server.answers import ScriptedUsage

ASKED: Any = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}
TOOL: Any = {"name": "save", "input_schema": {"type": "object"}}


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def client(server: ModelServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="sk-a", max_retries=0) as client:
        yield client


def test_a_message_is_the_same_streamed_and_whole(server: ModelServer, client: anthropic.Anthropic) -> None:
    usage = ScriptedUsage(input=120, output=30, cache_read=100, cache_write=5)
    answer = ScriptedAnswer(
        "Good morning.", thinking="A greeting.", calls=(ScriptedCall("save", {"a": 1}),), usage=usage
    )
    server.script.add(answer, answer)
    with client.messages.stream(**ASKED) as stream:
        streamed = stream.get_final_message()
    whole = client.messages.create(**ASKED)
    for message in (streamed, whole):
        assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
        thinking, text, call = message.content
        assert isinstance(thinking, anthropic.types.ThinkingBlock)
        assert thinking.thinking == "A greeting."
        assert isinstance(text, anthropic.types.TextBlock)
        assert text.text == "Good morning."
        assert isinstance(call, anthropic.types.ToolUseBlock)
        assert call.input == {"a": 1}
        assert message.stop_reason == "tool_use"
        assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (15, 100)


def test_data_is_a_call_of_the_required_tool(server: ModelServer, client: anthropic.Anthropic) -> None:
    server.script.add(ScriptedAnswer(data={"name": "Ada"}))
    message = client.messages.create(**ASKED, tools=[TOOL], tool_choice={"type": "any"})
    assert [block.input for block in message.content if isinstance(block, anthropic.types.ToolUseBlock)] == [
        {"name": "Ada"}
    ]


@pytest.mark.parametrize(("finish", "reason"), [("stop", "end_turn"), ("length", "max_tokens"), ("refusal", "refusal")])
def test_the_end_of_an_answer_has_its_reason(
    server: ModelServer, client: anthropic.Anthropic, finish: Any, reason: str
) -> None:
    server.script.add(ScriptedAnswer("Once upon", finish=finish))
    with client.messages.stream(**ASKED) as stream:
        assert stream.get_final_message().stop_reason == reason


def test_errors_come_by_status_and_inside_of_a_stream(server: ModelServer, client: anthropic.Anthropic) -> None:
    server.script.add(ScriptedAnswer(status=529, message="Busy."), ScriptedAnswer("Once upon", error_after=1))
    with pytest.raises(anthropic.APIStatusError) as caught:
        client.messages.create(**ASKED)
    assert json.loads(caught.value.response.text)["error"]["type"] == "overloaded_error"
    with pytest.raises(anthropic.APIStatusError, match="scripted error"):
        list(client.messages.create(**ASKED, stream=True))
