"""What tokens cost, how many fit, and which key is used."""

import pytest

from perdure.kernel.conversation.parts import TokenUsage
from perdure.minds.model.providers.keys import Keys
from perdure.minds.model.providers.names import parse_model_name
from perdure.minds.model.providers.prices import Prices
from perdure.model_settings import ModelDefaults, ModelPrice, ModelTable
from tests.minds.model.providers.conftest import StoredSecrets

LOCAL = "openai-compatible:qwen@http://127.0.0.1:8000/v1"
USAGE = TokenUsage(input=1_000_000, output=100_000, cache_read=400_000)


def prices(table: ModelTable) -> Prices:
    return Prices(ModelDefaults(tables={LOCAL: table}))


def test_the_table_of_the_package_knows_the_prices_of_vendors() -> None:
    known = Prices(ModelDefaults())
    mini = parse_model_name("openai:gpt-5.4-mini")
    whole, cached = known.cost_usd(mini, TokenUsage(1_000_000)), known.cost_usd(mini, USAGE)
    assert whole is not None
    assert cached is not None
    assert 0 < known.cost_usd(mini, TokenUsage(input=1_000_000, cache_read=1_000_000)) < whole  # type: ignore[operator]
    assert known.cost_usd(parse_model_name("openai-chat:gpt-5.4-mini"), USAGE) == cached
    assert known.context_window(mini) > 100_000
    assert known.per_million(mini) == (whole, known.cost_usd(mini, TokenUsage(output=1_000_000)))


@pytest.mark.parametrize("name", ["openai:no-such-model", LOCAL, "nobody:model"])
def test_an_unknown_price_is_unknown_and_an_unknown_window_small(name: str) -> None:
    model = parse_model_name(name)
    assert Prices(ModelDefaults()).cost_usd(model, USAGE) is None
    assert Prices(ModelDefaults()).per_million(model) is None
    assert Prices(ModelDefaults()).context_window(model) == 8192


@pytest.mark.parametrize("name", ["ollama:gpt-oss", "gguf:/a.gguf"])
def test_a_model_of_ones_own_costs_nothing(name: str) -> None:
    assert Prices(ModelDefaults()).cost_usd(parse_model_name(name), USAGE) == 0
    assert Prices(ModelDefaults()).context_window(parse_model_name(name)) == 8192


def test_the_settings_count_more_than_the_table() -> None:
    table = ModelTable(context_window=32_768, price=ModelPrice(2.0, 10.0))
    model = parse_model_name(LOCAL)
    assert prices(table).cost_usd(model, USAGE) == pytest.approx(2.0 + 1.0)
    assert prices(table).context_window(model) == 32_768
    cached = ModelTable(price=ModelPrice(2.0, 10.0, cache_read=0.5, cache_write=4.0))
    usage = TokenUsage(input=1_000_000, cache_read=400_000, cache_write=100_000)
    assert prices(cached).cost_usd(model, usage) == pytest.approx(0.5 * 2 + 0.4 * 0.5 + 0.1 * 4)


def test_the_environment_counts_more_than_a_stored_key() -> None:
    openai = parse_model_name("openai:m")
    secrets = StoredSecrets(OPENAI_API_KEY="sk-stored")
    assert Keys(ModelDefaults(), {}, secrets).find(openai) == "sk-stored"
    assert Keys(ModelDefaults(), {}, secrets).origin(openai) == "secret:OPENAI_API_KEY"
    own = Keys(ModelDefaults(), {"OPENAI_API_KEY": " sk-mine\n"}, secrets)
    assert own.find(openai) == "sk-mine"
    assert own.origin(openai) == "environment OPENAI_API_KEY"
    assert Keys(ModelDefaults(), {"OPENAI_API_KEY": ""}, StoredSecrets()).find(openai) is None


def test_the_key_of_a_vendor_is_not_for_other_servers() -> None:
    environment = {"OPENAI_API_KEY": "sk-mine"}
    keys = Keys(ModelDefaults(), environment, StoredSecrets(KEY_OF_HTTP_127_0_0_1_8000="sk-local"))
    assert keys.find(parse_model_name(LOCAL)) == "sk-local"
    assert keys.find(parse_model_name("openai-compatible:m@http://elsewhere/v1")) is None
    assert keys.find(parse_model_name("anthropic:m")) is None


def test_a_key_of_the_settings_has_the_name_that_is_set() -> None:
    settings = ModelDefaults(tables={LOCAL: ModelTable(api_key="LOCAL_KEY")})
    keys = Keys(settings, {}, StoredSecrets(LOCAL_KEY="sk-set", KEY_OF_HTTP_127_0_0_1_8000="sk-local"))
    assert keys.find(parse_model_name(LOCAL)) == "sk-set"
    assert keys.names(parse_model_name("google:m")) == ("GOOGLE_API_KEY", "GEMINI_API_KEY")
