"""Models of pydantic-ai by name, and the connections to their servers, kept for the requests that follow."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model
from pydantic_ai.models.ollama import OllamaModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers import infer_provider_class
from pydantic_ai.providers.ollama import OllamaProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from perdure.errors import Invalid
from perdure.minds.model.providers.failures import AttemptFailed, cannot_load, no_extra, no_key
from perdure.minds.model.providers.keys import Keys
from perdure.minds.model.providers.names import ModelName, ollama_url
from perdure.minds.model.providers.prices import Prices
from perdure.minds.model.providers.requests.local import LocalModel, LocalModelFailed

_CONNECT_S = 10.0
_NO_KEY = "no-key"
"""What a server that needs no key is sent."""
_OPENAI = ("openai", "openai-chat")
_ENDS_PROPERLY = ModelProfile(openai_chat_streaming_requires_finish_reason=True)  # type: ignore[typeddict-unknown-key]
"""Without a finish reason, a truncated stream could not be distinguished from a complete answer."""


@dataclass(frozen=True)
class _Connection:
    """One model, and what it was connected with: when that changes, it is connected again."""

    model: Model[Any]
    http: httpx2.AsyncClient
    made_of: tuple[str | None, ...]


class Connections:
    """The models that this process has asked."""

    def __init__(self, keys: Keys, prices: Prices, environment: Mapping[str, str]) -> None:
        self._keys = keys
        self._prices = prices
        self._environment = environment
        self._open: dict[str, _Connection] = {}
        self._local: dict[str, LocalModel] = {}
        self._replaced: list[httpx2.AsyncClient] = []
        self._load_lock = asyncio.Lock()

    async def model(self, name: ModelName, key: str | None) -> Model[Any]:
        """Return the model of a name, connected with a key.

        Raises: AttemptFailed when there is no key, no package or no file for it; Invalid when there is no such model.
        """
        if name.provider == "gguf":
            return await self._local_model(name)
        base_url = self._base_url(name)
        known = self._open.get(name.text)
        if known is not None and known.made_of == (key, base_url):
            return known.model
        http = httpx2.AsyncClient(timeout=httpx2.Timeout(None, connect=_CONNECT_S))
        try:
            model = self._connect(name, key, base_url, http)
        except ImportError:
            await http.aclose()
            raise AttemptFailed(no_extra(name)) from None
        except (UserError, ValueError) as error:  # the second for a provider that does not exist
            await http.aclose()
            raise Invalid(f"{name.text} cannot be used: {error}. `perdure model list` shows what can be.") from error
        if known is not None:
            self._replaced.append(known.http)  # requests may still use it
        self._open[name.text] = _Connection(model, http, (key, base_url))
        return model

    async def close(self) -> None:
        """Close all connections, and unload the models of files."""
        for http in [*self._replaced, *(connection.http for connection in self._open.values())]:
            await http.aclose()
        for local in self._local.values():
            await local.close()
        self._replaced.clear()
        self._open.clear()
        self._local.clear()

    def _base_url(self, name: ModelName) -> str | None:
        """Return the address of the server that is asked; None for the vendor's own."""
        if name.provider in _OPENAI:
            return self._environment.get("OPENAI_BASE_URL") or None
        if name.provider == "anthropic":
            return self._environment.get("ANTHROPIC_BASE_URL") or None
        if name.provider == "ollama":
            return ollama_url(self._environment.get("OLLAMA_HOST", ""))
        return name.url

    def _connect(self, name: ModelName, key: str | None, base_url: str | None, http: httpx2.AsyncClient) -> Model[Any]:
        match name.provider:
            case "openai" | "openai-chat":
                return _openai(name, self._required(name, key, base_url), base_url, http)
            case "openai-compatible":
                return _compatible(name, key or _NO_KEY, str(base_url), http)
            case "ollama":
                provider = OllamaProvider(base_url=base_url, api_key=key or _NO_KEY, http_client=http)
                return OllamaModel(name.name, provider=provider, profile=_ENDS_PROPERLY)
            case "anthropic":
                from pydantic_ai.models.anthropic import AnthropicModel
                from pydantic_ai.providers.anthropic import AnthropicProvider

                needed = self._required(name, key, base_url)
                return AnthropicModel(
                    name.name, provider=AnthropicProvider(api_key=needed, base_url=base_url, http_client=http)
                )
            case "google":
                from pydantic_ai.models.google import GoogleModel
                from pydantic_ai.providers.google import GoogleProvider

                needed = self._required(name, key, None)
                return GoogleModel(name.name, provider=GoogleProvider(api_key=needed, http_client=http))
        return _other(name, key)

    def _required(self, name: ModelName, key: str | None, base_url: str | None) -> str:
        """Return the key that a vendor needs; a server of one's own may need none."""
        if key is not None:
            return key
        if base_url is not None:
            return _NO_KEY
        raise AttemptFailed(no_key(name, self._keys.names(name)))

    async def _local_model(self, name: ModelName) -> Model[Any]:
        async with self._load_lock:
            local = self._local.get(name.text)
            if local is None:
                try:
                    local = await LocalModel.load(name.name, self._prices.context_window(name))
                except ImportError:
                    raise AttemptFailed(no_extra(name)) from None
                except LocalModelFailed as error:
                    raise AttemptFailed(cannot_load(name, str(error))) from None
                self._local[name.text] = local
        return _compatible(name, local.key, local.url, local.http)


def _openai(name: ModelName, key: str, base_url: str | None, http: httpx2.AsyncClient) -> Model[Any]:
    provider = OpenAIProvider(base_url=base_url, api_key=key, http_client=http)
    if name.provider == "openai":
        return OpenAIResponsesModel(name.name, provider=provider)
    return OpenAIChatModel(name.name, provider=provider, profile=_ENDS_PROPERLY)


def _compatible(name: ModelName, key: str, base_url: str, http: httpx2.AsyncClient) -> Model[Any]:
    provider = OpenAICompatibleProvider(name.provider, base_url=base_url, api_key=key, http_client=http)
    return OpenAIChatModel(name.name, provider=provider, profile=_ENDS_PROPERLY)


def _other(name: ModelName, key: str | None) -> Model[Any]:
    """Connect with any other provider that pydantic-ai knows; its own variables of the environment count.

    Raises: UserError when it knows none of that name; ImportError when a package is missing.
    """

    def provider(kind: str) -> Any:
        made = infer_provider_class(kind)
        with contextlib.suppress(TypeError):  # a provider that takes no key
            return made(api_key=key)  # type: ignore[call-arg]
        return made()

    return infer_model(f"{name.provider}:{name.name}", provider)
