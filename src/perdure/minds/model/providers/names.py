"""Names of models, `provider:name`, and where each is reached."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from perdure.errors import Invalid
from perdure.model_settings import ModelDefaults
from perdure.settings import absolute

BUILT_IN = "builtin"
"""The name of no model: what Forge has built in answers."""
_LONGEST = 500
PROVIDER = re.compile(r"[a-z][a-z0-9-]{0,40}")
"""The form of the name of a provider."""
_COMPATIBLE = re.compile(r"(?P<name>.+?)@(?P<url>https?://.+)")
_OLLAMA_PORT = 11434
_ANYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 (what a server listens on; a client cannot connect to it)


@dataclass(frozen=True, slots=True)
class Vendor:
    """What is known of a provider without asking it."""

    key_names: tuple[str, ...]
    """The variables that may hold its key; a stored key has the first of these names."""
    extra: str
    """The extra of Perdure that speaks with it."""
    suggested: str
    """A model to begin with."""


VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor(("OPENAI_API_KEY",), "models", "openai:gpt-4.1-mini"),
    "openai-chat": Vendor(("OPENAI_API_KEY",), "models", "openai-chat:gpt-4.1-mini"),
    "anthropic": Vendor(("ANTHROPIC_API_KEY",), "anthropic", "anthropic:claude-sonnet-4-5"),
    "google": Vendor(("GOOGLE_API_KEY", "GEMINI_API_KEY"), "google", "google:gemini-3.5-flash"),
    "ollama": Vendor(("OLLAMA_API_KEY",), "models", "ollama:llama3.2"),
    "gguf": Vendor((), "local", "gguf:~/models/model.gguf"),
}


@dataclass(frozen=True, slots=True)
class ModelName:
    """The name of a model, understood."""

    text: str
    """The whole name, as it is recorded."""
    provider: str
    name: str
    """What the provider calls it; of `gguf` the path."""
    url: str | None = None
    """The base URL that the name itself says."""

    @property
    def service(self) -> str:
        """What has one key, one circuit breaker and data of its own in answers: the provider, or one server of it."""
        return self.provider if self.url is None else f"{self.provider}@{self.url}"

    @property
    def is_local(self) -> bool:
        """Whether its answers cost nothing, because it runs on a machine of the user."""
        return self.provider in ("ollama", "gguf")

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names that the key of its provider may have, as a variable of the environment or a stored secret."""
        if self.url is not None:
            parts = urlsplit(self.url)
            return (f"KEY_OF_{re.sub(r'[^A-Z0-9]+', '_', f'{parts.scheme}_{parts.netloc}'.upper())}",)
        vendor = VENDORS.get(self.provider)
        return (f"{self.provider.upper().replace('-', '_')}_API_KEY",) if vendor is None else vendor.key_names

    @property
    def extra(self) -> str:
        """The extra of Perdure that is needed to ask it."""
        vendor = VENDORS.get(self.provider)
        return "models" if vendor is None else vendor.extra


def parse_model_name(text: str) -> ModelName:
    """Understand the name of a model.

    Raises: Invalid, with an example of the form that was meant.
    """
    given = text.strip()
    if not given or len(given) > _LONGEST or not given.isprintable() or " " in given.partition(":")[0]:
        raise Invalid(f"{text[:60]!r} is not the name of a model. {_FORMS}")
    if given == BUILT_IN:
        return ModelName(BUILT_IN, BUILT_IN, "")
    provider, colon, name = given.partition(":")
    if not colon or not name or not PROVIDER.fullmatch(provider):
        raise Invalid(f"{given[:60]!r} is not the name of a model. {_FORMS}")
    if provider == "openai-compatible":
        return _compatible(given, name)
    if provider == "gguf":
        path = str(absolute(name))
        return ModelName(f"gguf:{path}", provider, path)
    return ModelName(given, provider, name)


_FORMS = (
    "Expected provider:name, such as openai:gpt-4.1-mini, anthropic:claude-sonnet-4-5, ollama:llama3.2,"
    " openai-compatible:NAME@http://127.0.0.1:8000/v1 or gguf:/path/to/model.gguf."
)


def _compatible(text: str, rest: str) -> ModelName:
    found = _COMPATIBLE.fullmatch(rest)
    if found is None:
        example = "openai-compatible:qwen@http://127.0.0.1:8000/v1"
        raise Invalid(f"{text[:80]!r} does not name a server. Expected NAME@URL, such as {example}.")
    url = found["url"].rstrip("/")
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise Invalid(
            f"The URL of {text.partition('@')[0][:60]!r} must be a plain one, without a user, a query or a fragment."
            " Store a key with `perdure model login`."
        )
    if not parts.hostname or " " in url:
        raise Invalid(f"{url[:60]!r} is not the URL of a server. Expected one such as http://127.0.0.1:8000/v1.")
    return ModelName(f"openai-compatible:{found['name']}@{url}", "openai-compatible", found["name"], url)


def with_whole_names(settings: ModelDefaults) -> ModelDefaults:
    """Return the settings with each table under the whole name of its model: `gguf:~/a` is `gguf:/home/ada/a`.

    Raises: Invalid when the name of a table is not one of a model.
    """
    tables = {parse_model_name(name).text: table for name, table in (settings.tables or {}).items()}
    return replace(settings, tables=tables)


def ollama_url(host: str) -> str:
    """Return the base URL for a value of `OLLAMA_HOST`: `host`, `host:port` or a URL; the rules are those of Ollama.

    Raises: Invalid
    """
    given = host.strip()
    has_scheme = "://" in given
    try:
        parts = urlsplit(given if has_scheme else f"//{_bracketed(given)}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    scheme = parts.scheme or "http"
    if (given and not parts.netloc) or scheme not in ("http", "https") or "@" in parts.netloc:
        raise Invalid(
            f"OLLAMA_HOST is {given[:60]!r}; expected host, host:port or a URL such as http://127.0.0.1:11434."
        )
    if port is None:
        port = {"http": 80, "https": 443}[scheme] if has_scheme else _OLLAMA_PORT
    name = parts.hostname or ""
    name = "127.0.0.1" if name in _ANYWHERE else name
    shown = f"[{name}]" if ":" in name else name
    return f"{scheme}://{shown}:{port}{parts.path.rstrip('/')}/v1"


def _bracketed(host: str) -> str:
    """Put an IPv6 address without brackets into brackets."""
    return f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
