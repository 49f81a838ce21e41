"""Streams that are damaged anywhere: an answer, or a failure that says so; never anything else."""

import asyncio
import json
import os
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perdure.kernel.conversation.parts import TextPart, ThinkingPart, ToolCallPart
from perdure.minds.model.ports import ModelFailed, ModelRequest, UserText
from perdure.minds.model.providers.client import ProviderClient
from perdure.model_settings import ModelDefaults
from perdure.testing.model_server import ModelServer, ScriptedAnswer, ScriptedCall
from perdure.testing.model_server.incoming import IncomingRequest, adapt
from perdure.testing.model_server.server import WIRE_FORMATS
from perdure.testing.model_server.wire_formats import WireFormat
from tests.minds.model.providers.clocks import QuickClock
from tests.minds.model.providers.conftest import StoredSecrets, Watched

PATHS = {"openai:m": "/responses", "openai-chat:m": "/chat/completions", "anthropic:m": "/messages"}
WHOLE = ScriptedAnswer("Let me see.", thinking="Hm.", calls=(ScriptedCall("look", {"path": "a"}),))
EXAMPLES = int(os.environ.get("PERDURE_TORTURE", "25"))
VALUES = st.sampled_from([None, 0, -1, "", "x", [], {}, True, 1e300, "\ud800", ["x"], {"x": None}])


def events(model: str) -> list[Any]:
    wire_format: WireFormat = WIRE_FORMATS[PATHS[model]]
    asked = IncomingRequest("m", is_streamed=True, last_user="", turns=0, turns_since_user=0)
    return [(each.name, each.data) for each in wire_format.events(adapt(WHOLE, asked), asked, 1)]


def replaced(value: Any, place: int, by: Any) -> tuple[Any, int]:
    """Replace what is inside at a place, counted depth first; return what is left to count too."""
    if place == 0:
        return by, -1
    place -= 1
    if isinstance(value, Mapping):
        made: dict[str, Any] = {}
        for key, inner in value.items():
            made[key], place = (inner, place) if place < 0 else replaced(inner, place, by)
        return made, place
    if isinstance(value, list):
        rows: list[Any] = []
        for inner in value:
            row, place = (inner, place) if place < 0 else replaced(inner, place, by)
            rows.append(row)
        return rows, place
    return value, place


@st.composite
def streams(draw: st.DrawFn, model: str) -> str:
    """Draw a stream with events left out, repeated, or with one value replaced."""
    found = events(model)
    place = draw(st.integers(0, len(found) - 1))
    name, data = found[place]
    match draw(st.sampled_from(["drop", "repeat", "replace", "swap"])):
        case "drop":
            del found[place]
        case "repeat":
            found.insert(place, found[place])
        case "swap":
            found[place], found[place - 1] = found[place - 1], found[place]
        case "replace":
            found[place] = (name, replaced(data, draw(st.integers(0, 12)), draw(VALUES))[0])
    texts = [(name, data if isinstance(data, str) else json.dumps(data)) for name, data in found]
    return "".join(f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n" for name, text in texts)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("model", PATHS)
def test_a_damaged_stream_is_an_answer_or_a_failure(model: str) -> None:
    with ModelServer() as server:
        environment = {"OPENAI_BASE_URL": server.url, "ANTHROPIC_BASE_URL": server.url}

        async def ask() -> None:
            client = ProviderClient(ModelDefaults(), StoredSecrets(), QuickClock(), environment, attempts=1)
            watched = Watched()
            try:
                answer = await client.answer(ModelRequest(model, "", [UserText("Look")]), watched)
            except ModelFailed:
                return
            finally:
                await client.close()
            for part in answer.parts:
                assert isinstance(part, TextPart | ThinkingPart | ToolCallPart)
                json.dumps(part.arguments if isinstance(part, ToolCallPart) else part.text, ensure_ascii=False).encode()

        @given(stream=streams(model))
        @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
        def damage(stream: str) -> None:
            server.script.add(ScriptedAnswer(raw=stream))
            asyncio.run(ask())

        damage()
