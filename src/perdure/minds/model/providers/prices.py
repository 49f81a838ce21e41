"""What tokens cost and how many fit: by `config.toml`, else by the table in the package genai-prices. Never fetched."""

from typing import Any

from perdure.kernel.conversation.parts import TokenUsage
from perdure.minds.model.providers.names import ModelName
from perdure.model_settings import ModelDefaults, ModelPrice

DEFAULT_WINDOW = 8192
"""Tokens of a window that is not known."""
_PER_MILLION = 1_000_000
_PRICED_AS = {"openai-chat": "openai", "openai-responses": "openai"}


class Prices:
    """Prices and windows of models."""

    def __init__(self, settings: ModelDefaults) -> None:
        self._settings = settings

    def cost_usd(self, model: ModelName, usage: TokenUsage) -> float | None:
        """Return what tokens cost; None where the price is unknown."""
        price = self._settings.table(model.text).price
        if price is not None:
            return _cost(price, usage)
        if model.is_local:
            return 0.0
        return _table_cost(model, usage)

    def context_window(self, model: ModelName) -> int:
        """Return how many tokens a request and its answer may have together."""
        own = self._settings.table(model.text).context_window
        if own is not None:
            return own
        entry = None if model.is_local else _table_entry(model)
        window = getattr(entry, "context_window", None)
        return window if isinstance(window, int) else DEFAULT_WINDOW

    def per_million(self, model: ModelName) -> tuple[float, float] | None:
        """Return what a million tokens of input and of output cost; None where that is unknown."""
        costs = [self.cost_usd(model, each) for each in (TokenUsage(input=1000), TokenUsage(output=1000))]
        known = [round(each * _PER_MILLION / 1000, 6) for each in costs if each is not None]
        return (known[0], known[1]) if len(known) == len(costs) else None


def _cost(price: ModelPrice, usage: TokenUsage) -> float:
    read = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    plain = max(usage.input - usage.cache_read - usage.cache_write, 0)
    total = plain * price.input + usage.cache_read * read + usage.cache_write * written + usage.output * price.output
    return total / _PER_MILLION


def _place(model: ModelName) -> dict[str, str]:
    """Return how the table knows a provider: by its id, or the address of its server."""
    if model.url is not None:
        return {"provider_api_url": model.url}
    return {"provider_id": _PRICED_AS.get(model.provider, model.provider)}


def _table_entry(model: ModelName) -> Any:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    place = {"provider_id": None, "provider_api_url": None, **_place(model)}
    try:
        return get_snapshot().find_provider_model(model.name, None, **place)[1]
    except LookupError:
        return None


def _table_cost(model: ModelName, usage: TokenUsage) -> float | None:
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    given = Usage(
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_read_tokens=usage.cache_read,
        cache_write_tokens=usage.cache_write,
    )
    try:
        place = _place(model)
        if model.url is not None:
            return float(calc_price(given, model.name, provider_api_url=place["provider_api_url"]).total_price)
        return float(calc_price(given, model.name, provider_id=place["provider_id"]).total_price)
    except (LookupError, ValueError):  # an unknown model; usage that the table cannot price
        return None
