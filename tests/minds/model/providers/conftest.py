"""A scripted server, and a client of each provider that asks it."""

from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from perdure.minds.model.ports import Delta, DeltaReset, ModelRequest, UserText
from perdure.minds.model.providers.client import ProviderClient
from perdure.model_settings import ModelDefaults
from perdure.testing.model_server import ModelServer
from tests.minds.model.providers.clocks import QuickClock

MODELS = ("openai:gpt-5.4-mini", "openai-chat:gpt-5.4-mini", "anthropic:claude-sonnet-5", "ollama:llama3.2")


class StoredSecrets(dict[str, str]):
    """See Secrets."""

    def read(self, name: str) -> str | None:
        return self.get(name)


class Watched:
    """What a caller of the client is passed while an answer arrives."""

    def __init__(self) -> None:
        self.deltas: list[Delta | DeltaReset] = []
        self.on_first: Callable[[], None] | None = None

    def __call__(self, delta: Delta | DeltaReset) -> None:
        self.deltas.append(delta)
        if self.on_first is not None:
            self.on_first()
            self.on_first = None

    def text(self, part: int) -> str:
        """Return what has arrived of a part since the last reset; the offsets must be right."""
        text = ""
        for delta in self.deltas:
            if isinstance(delta, DeltaReset):
                text = ""
            elif delta.part == part:
                assert delta.offset == len(text)
                text += delta.text
        return text


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()


@pytest.fixture
def secrets() -> StoredSecrets:
    return StoredSecrets()


@pytest.fixture
def environment(server: ModelServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.url, "ANTHROPIC_BASE_URL": server.url, "OLLAMA_HOST": server.url}


@pytest.fixture
def settings() -> ModelDefaults:
    """What `config.toml` says; a module replaces it."""
    return ModelDefaults()


@pytest.fixture
async def client(
    clock: QuickClock, secrets: StoredSecrets, environment: dict[str, str], settings: ModelDefaults
) -> AsyncIterator[ProviderClient]:
    client = ProviderClient(settings, secrets, clock, environment, chance=lambda: 0.5)
    yield client
    await client.close()


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> str:
    """Each protocol in turn."""
    return str(request.param)


def hello(model: str) -> ModelRequest:
    """Return a small request."""
    return ModelRequest(model, "You are Ada's assistant.", [UserText("Hello")])
