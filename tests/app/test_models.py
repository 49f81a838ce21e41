"""What can be done with models in a home: listing, choosing, trying, and the default in `config.toml`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.app.models.default_model import set_default_model
from perdure.app.models.models import Models
from perdure.errors import Invalid, NotFound
from perdure.minds.model.ports import ModelFailed
from perdure.minds.model.providers import choice
from perdure.minds.model.providers.choice import NoModel, choose_model, is_installed
from perdure.minds.model.providers.names import parse_model_name
from perdure.model_settings import ModelDefaults
from perdure.settings import load_settings
from perdure.testing.model_server import ModelServer, ScriptedAnswer


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    return home


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def models(home: Path, **environment: str) -> Models:
    return Models(load_settings({"home": str(home)}, environment), environment=environment)


def listed(found: Models) -> dict[str, Any]:
    return {model["name"]: model for model in found.list()}


def test_without_settings_one_model_of_each_provider_is_suggested(home: Path) -> None:
    found = models(home).list()
    assert [model["provider"] for model in found] == ["openai", "anthropic", "google", "ollama"]
    assert {model["source"] for model in found} == {"suggestion"}
    assert [model["ready"] for model in found] == [False, False, False, True]
    assert (found[0]["missing"], found[0]["next"], found[0]["key"]) == ("a key", "perdure model login openai", None)


def test_the_models_of_the_settings_come_first(home: Path) -> None:
    (home / "config.toml").write_text(
        '[model]\ndefault = "openai:gpt-5"\nfallbacks = ["openai-chat:m", "openai:gpt-5"]\n'
        '[models."openai-compatible:m@http://127.0.0.1:1/v1"]\nprice = {input = 1, output = 2.5}\n'
    )
    found = models(home, OPENAI_API_KEY="sk-mine").list()
    assert [(model["name"], model["source"]) for model in found][:3] == [
        ("openai:gpt-5", "default"),
        ("openai-chat:m", "fallback"),
        ("openai-compatible:m@http://127.0.0.1:1/v1", "settings"),
    ]
    assert [model["provider"] for model in found[3:]] == ["anthropic", "google", "ollama"]
    assert (found[0]["ready"], found[0]["key"]) == (True, "environment OPENAI_API_KEY")
    assert (found[2]["price"], found[2]["ready"], found[2]["context_window"]) == (
        {"input": 1, "output": 2.5},
        True,
        8192,
    )
    assert found[1]["price"] is None


def test_a_table_counts_for_every_way_to_write_a_name(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text('[models."gguf:~/a.gguf"]\ncontext_window = 1024\n')
    assert models(home).client.context_window(f"gguf:{tmp_path}/user/a.gguf") == 1024
    assert models(home).list()[0]["name"] == f"gguf:{tmp_path}/user/a.gguf"
    (home / "config.toml").write_text('[models."gpt-5"]\ncontext_window = 1024\n')
    with pytest.raises(Invalid, match="'gpt-5' is not the name of a model"):
        models(home)


def test_a_name_that_is_none_is_said_by_name(home: Path) -> None:
    with pytest.raises(Invalid, match="'gpt-5' is not the name of a model"):
        models(home, PERDURE_MODEL="gpt-5").list()


def test_a_key_is_stored_for_a_provider_or_for_one_server(home: Path) -> None:
    found = models(home)
    assert found.login("openai", "sk-canary-5f1d") == "OPENAI_API_KEY"
    assert found.login("anthropic:claude-x", "sk-canary-5f1d") == "ANTHROPIC_API_KEY"
    assert found.login("openai-compatible:m@https://host:1/v1", "sk-canary-5f1d") == "KEY_OF_HTTPS_HOST_1"
    assert found.login("groq", "sk-canary-5f1d") == "GROQ_API_KEY"
    assert found.secrets.names() == ["ANTHROPIC_API_KEY", "GROQ_API_KEY", "KEY_OF_HTTPS_HOST_1", "OPENAI_API_KEY"]
    assert listed(found)["openai:gpt-4.1-mini"]["key"] == "secret:OPENAI_API_KEY"
    assert "canary" not in str(found.list())
    assert found.logout("openai") == "OPENAI_API_KEY"
    with pytest.raises(NotFound, match="No key of openai is stored"):
        found.logout("openai")
    with pytest.raises(NotFound, match="The variable OPENAI_API_KEY is set"):
        models(home, OPENAI_API_KEY="sk-mine").logout("openai")


@pytest.mark.parametrize("name", ["builtin", "gguf:/a.gguf"])
def test_what_needs_no_key_takes_none(home: Path, name: str) -> None:
    with pytest.raises(Invalid, match="does not use a key"):
        models(home).login(name, "sk-canary-5f1d")


@pytest.mark.parametrize("name", ["openai-compatible", "Open AI", "", "x:"])
def test_what_is_no_provider_takes_no_key(home: Path, name: str) -> None:
    with pytest.raises(Invalid):
        models(home).login(name, "sk-canary-5f1d")


async def test_a_model_is_tried_once(home: Path, server: ModelServer) -> None:
    server.script.add(ScriptedAnswer("ready"), ScriptedAnswer(status=500))
    found = models(home, OPENAI_BASE_URL=server.url, PERDURE_MODEL="openai:m")
    tried = await found.test()
    assert (tried["name"], tried["text"], tried["cost_usd"]) == ("openai:m", "ready", None)
    assert tried["usage"]["input"] > 0
    with pytest.raises(ModelFailed) as failed:
        await found.test("openai-chat:m")
    assert (failed.value.attempts, failed.value.next, len(server.requests)) == (1, None, 2)


async def test_without_a_model_nothing_is_tried(home: Path) -> None:
    with pytest.raises(NoModel) as refused:
        await models(home).test()
    assert refused.value.exit_code == 8
    assert refused.value.detail == (
        "No model is configured. `perdure model list` shows the providers; set one: perdure model default PROVIDER:NAME"
    )


@pytest.mark.parametrize(
    ("given", "of_bot", "default", "chosen"),
    [
        ("openai:a", "openai:b", "openai:c", "openai:a"),
        (None, "openai:b", "openai:c", "openai:b"),
        (None, "builtin", "openai:c", "openai:c"),
        (None, None, "openai:c", "openai:c"),
        ("builtin", None, "openai:c", "openai:c"),
    ],
)
def test_the_nearest_name_counts(given: str | None, of_bot: str | None, default: str, chosen: str) -> None:
    assert choose_model(ModelDefaults(default), given=given, of_bot=of_bot).text == chosen


def test_a_default_of_no_model_is_none() -> None:
    with pytest.raises(NoModel):
        choose_model(ModelDefaults("builtin"), of_bot="builtin")


def test_an_extra_is_found_by_its_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_installed(parse_model_name("openai:m"))
    assert is_installed(parse_model_name("anthropic:m"))
    monkeypatch.setattr(choice, "PACKAGES", {"anthropic": ("pydantic_ai", "no_such_package.inside")})
    assert not is_installed(parse_model_name("anthropic:m"))


async def test_the_default_is_written_beside_what_a_person_wrote(home: Path) -> None:
    config = home / "config.toml"
    config.write_text("# mine\npark_after_s = 5 # short\n\n[memory]\nenabled = false\n")
    settings = load_settings({"home": str(home)}, {})
    assert set_default_model(settings, "openai:gpt-5") == "openai:gpt-5"
    assert "# mine\npark_after_s = 5 # short" in config.read_text()
    read = load_settings({"home": str(home)}, {})
    assert (read.models.default, read.park_after_s, read.memory.enabled) == ("openai:gpt-5", 5, False)
    set_default_model(settings, "ollama:qwen3")
    assert load_settings({"home": str(home)}, {}).models.default == "ollama:qwen3"
    assert config.read_text().count("[model]") == 1


def test_the_default_is_written_into_a_home_that_is_not_there_yet(tmp_path: Path) -> None:
    settings = load_settings({"home": str(tmp_path / "new")}, {})
    set_default_model(settings, "openai:gpt-5")
    assert load_settings({"home": str(tmp_path / "new")}, {}).models.default == "openai:gpt-5"


@pytest.mark.parametrize("name", ["builtin", "gpt-5"])
def test_what_goals_cannot_ask_is_not_a_default(home: Path, name: str) -> None:
    with pytest.raises(Invalid):
        set_default_model(load_settings({"home": str(home)}, {}), name)
    assert not (home / "config.toml").exists()


def test_a_file_that_is_broken_is_not_written(home: Path) -> None:
    settings = load_settings({"home": str(home)}, {})
    (home / "config.toml").write_text("model = 3")
    with pytest.raises(Invalid):
        set_default_model(settings, "openai:gpt-5")
    assert (home / "config.toml").read_text() == "model = 3"
