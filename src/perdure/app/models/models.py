"""The operations on models: list and test them, and store their keys."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from perdure.app.access.secret_files import SecretFiles
from perdure.app.home.system import SystemClock
from perdure.errors import Invalid, NotFound
from perdure.kernel.ports import Clock
from perdure.minds.model.ports import Delta, DeltaReset, ModelFailed, ModelRequest, TextPart, UserText
from perdure.minds.model.providers.choice import (
    choose_model,
    install_command,
    is_installed,
    require_provider,
    unknown_provider,
)
from perdure.minds.model.providers.client import ProviderClient
from perdure.minds.model.providers.failures import login_command, test_command
from perdure.minds.model.providers.keys import Keys
from perdure.minds.model.providers.names import (
    BUILT_IN,
    PROVIDER,
    VENDORS,
    ModelName,
    parse_model_name,
    with_whole_names,
)
from perdure.minds.model.providers.prices import Prices
from perdure.settings import Settings

if TYPE_CHECKING:
    from perdure.app.wire.resources.models import Model, ModelSource, TestedModel

_SUGGESTED = ("openai", "anthropic", "google", "ollama")
_NEEDS_KEY = ("openai", "openai-chat", "anthropic", "google")
_SERVERS = {"openai": "OPENAI_BASE_URL", "openai-chat": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
"""The variables with the URL of a server other than the vendor's, which may not require a key."""
_SHOWN = 200
_GREETING = "Answer with one word: ready"


class Models:
    """The models of a home.

    Raises: Invalid when the name of a table in the settings is not the name of a model.
    """

    def __init__(
        self, settings: Settings, *, clock: Clock | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self.settings = with_whole_names(settings.models)
        self.secrets = SecretFiles(settings.home)
        self._environment = os.environ if environment is None else environment
        self._clock = SystemClock() if clock is None else clock
        self._keys = Keys(self.settings, self._environment, self.secrets)
        self._prices = Prices(self.settings)
        self._client: ProviderClient | None = None

    @property
    def client(self) -> ProviderClient:
        """The client for requests of goals to models."""
        if self._client is None:
            self._client = self._make_client()
        return self._client

    def list(self) -> "list[Model]":
        """Return the models of the settings, and one of each well-known provider; no request is sent.

        Raises: Invalid when a name in the settings is not the name of a model; Denied when a stored key cannot be read.
        """
        named: list[tuple[str, ModelSource]] = []
        if self.settings.default is not None:
            named.append((self.settings.default, "default"))
        named += [(name, "fallback") for name in self.settings.fallbacks]
        named += [(name, "settings") for name in self.settings.tables or ()]
        named += [(VENDORS[provider].suggested, "suggestion") for provider in _SUGGESTED]
        found: dict[str, Model] = {}
        providers: set[str] = set()
        for text, source in named:
            model = parse_model_name(text)
            is_wanted = source != "suggestion" or model.provider not in providers
            if model.provider != BUILT_IN and model.text not in found and is_wanted:
                found[model.text] = self._view(model, source)
                providers.add(model.provider)
        return list(found.values())

    async def test(self, name: str | None = None) -> "TestedModel":
        """Send one short request to a model (default: the default model), without fallbacks.

        Raises: NoModel; Invalid when the name is not the name of a model; ModelFailed.
        """
        model = choose_model(self.settings, given=name)
        client = self._make_client(attempts=1)
        try:
            answer = await client.answer(ModelRequest(model.text, "", [UserText(_GREETING)]), _ignore)
        except ModelFailed as error:
            raise _without_repetition(error, model) from error
        finally:
            await client.close()
        text = "".join(part.text for part in answer.parts if isinstance(part, TextPart)).strip()
        return {
            "name": answer.model,
            "text": text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…",
            "duration_ms": answer.duration_ms,
            "first_token_ms": answer.first_token_ms,
            "usage": {**asdict(answer.usage)},  # type: ignore[typeddict-item]
            "cost_usd": answer.cost_usd,
        }

    def login(self, name: str, key: str) -> str:
        """Store the key of a provider or model, replacing a stored one; return the name of the secret.

        Raises: Invalid when the provider does not use keys, or the key is invalid; Denied.
        """
        secret = self.key_name(name)
        self.secrets.write(secret, key)
        return secret

    def logout(self, name: str) -> str:
        """Remove the stored key of a provider or model; return the name of the secret.

        Raises: NotFound when no key is stored; Invalid when the provider does not use keys; Denied.
        """
        secret = self.key_name(name)
        try:
            self.secrets.remove(secret)
        except NotFound:
            variable = next((each for each in self._key_names(name) if self._environment.get(each)), None)
            hint = "" if variable is None else f" The variable {variable} is set, and its key is used."
            raise NotFound(f"No key of {name} is stored.{hint}") from None
        return secret

    def key_name(self, name: str) -> str:
        """Return the name of the secret with the key of a provider or model.

        Raises: Invalid when the provider does not exist or does not use keys.
        """
        return self._key_names(name)[0]

    def variable_of(self, name: str) -> str | None:
        """Return the environment variable that overrides a stored key, if it is set."""
        return next((each for each in self._key_names(name) if self._environment.get(each, "").strip()), None)

    async def close(self) -> None:
        """Close the connections to providers."""
        if self._client is not None:
            await self._client.close()

    def _make_client(self, *, attempts: int | None = None) -> ProviderClient:
        return ProviderClient(self.settings, self.secrets, self._clock, self._environment, attempts=attempts)

    def _key_names(self, name: str) -> tuple[str, ...]:
        provider = name.strip()
        if ":" not in name and not PROVIDER.fullmatch(provider):
            raise unknown_provider(provider)
        model = parse_model_name(name if ":" in name or provider == BUILT_IN else f"{provider}:any")
        if model.provider != BUILT_IN:
            require_provider(model)
        names = self._keys.names(model) if model.provider != BUILT_IN else ()
        if not names:
            raise Invalid(f"{model.provider} does not use a key.")
        return names

    def _view(self, model: ModelName, source: "ModelSource") -> "Model":
        key = self._keys.origin(model)
        missing, command = self._missing(model, key)
        price = self._prices.per_million(model)
        return {
            "name": model.text,
            "provider": model.provider,
            "source": source,
            "ready": missing is None,
            "missing": missing,
            "next": command,
            "key": key,
            "context_window": self._prices.context_window(model),
            "price": None if price is None else {"input": price[0], "output": price[1]},
        }

    def _missing(self, model: ModelName, key: str | None) -> tuple[str | None, str | None]:
        if not is_installed(model):
            return f"the extra {model.extra!r}", install_command(model)
        has_server = bool(self._environment.get(_SERVERS.get(model.provider, ""), ""))
        if key is None and model.provider in _NEEDS_KEY and not has_server:
            return "a key", login_command(model)
        if model.provider == "gguf" and not os.path.isfile(model.name):  # noqa: PTH113 (a name that a Path would change)
            return "the file", None
        return None, None


def _without_repetition(error: ModelFailed, model: ModelName) -> ModelFailed:
    """Return a failure without the suggestion to run the same test."""
    command = None if error.next == test_command(model) else error.next
    return ModelFailed(
        error.failure_code,
        error.message,
        model=error.model,
        provider=error.provider,
        attempts=error.attempts,
        retry_at_us=error.retry_at_us,
        next=command,
    )


def _ignore(_delta: Delta | DeltaReset) -> None:
    """Ignore the parts of an answer while it arrives."""
