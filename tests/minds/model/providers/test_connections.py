"""Models by name: which package and server each leads to, without a request."""

from collections.abc import AsyncIterator

import pytest

from perdure.extras import install_command
from perdure.minds.model.providers.failures import AttemptFailed
from perdure.minds.model.providers.keys import Keys
from perdure.minds.model.providers.names import parse_model_name
from perdure.minds.model.providers.prices import Prices
from perdure.minds.model.providers.requests.connections import Connections
from perdure.model_settings import ModelDefaults
from tests.minds.model.providers.conftest import StoredSecrets

LOCAL = "openai-compatible:qwen@http://127.0.0.1:8000/v1"


@pytest.fixture
async def connections() -> AsyncIterator[Connections]:
    settings = ModelDefaults()
    connections = Connections(Keys(settings, {}, StoredSecrets()), Prices(settings), {})
    yield connections
    await connections.close()


@pytest.mark.parametrize(
    ("name", "kind", "url"),
    [
        ("openai:m", "OpenAIResponsesModel", "https://api.openai.com/v1/"),
        ("openai-chat:m", "OpenAIChatModel", "https://api.openai.com/v1/"),
        ("anthropic:m", "AnthropicModel", "https://api.anthropic.com"),
        ("ollama:m", "OllamaModel", "http://127.0.0.1:11434/v1/"),
        (LOCAL, "OpenAIChatModel", "http://127.0.0.1:8000/v1/"),
        ("deepseek:deepseek-chat", "OpenAIChatModel", "https://api.deepseek.com"),
    ],
)
async def test_a_name_leads_to_a_protocol_and_a_server(
    connections: Connections, name: str, kind: str, url: str
) -> None:
    model = await connections.model(parse_model_name(name), "sk-mine-123")
    assert (type(model).__name__, model.model_name) == (kind, parse_model_name(name).name)
    assert model.base_url is not None
    assert model.base_url.rstrip("/") == url.rstrip("/")
    assert model.provider is not None
    assert model.provider.client.api_key == "sk-mine-123"


async def test_a_connection_is_kept_until_its_key_changes(connections: Connections) -> None:
    name = parse_model_name("openai:m")
    first = await connections.model(name, "sk-first-1")
    assert await connections.model(name, "sk-first-1") is first
    assert await connections.model(name, "sk-second-2") is not first


@pytest.mark.parametrize("name", ["groq:m", "mistral:m"])
async def test_a_package_that_is_missing_is_named(connections: Connections, name: str) -> None:
    with pytest.raises(AttemptFailed) as failed:
        await connections.model(parse_model_name(name), "sk-mine-123")
    failure, provider = failed.value.failure, name.partition(":")[0]
    assert (failure.code, failure.message) == ("no_extra", f"{name} needs a package, which is not installed.")
    assert failure.next == install_command("models", f"pydantic-ai-slim[{provider}]")
