"""Names of models: what each means, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Invalid
from perdure.minds.model.providers.names import VENDORS, ModelName, ollama_url, parse_model_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("builtin", ModelName("builtin", "builtin", "")),
        ("openai:gpt-5.4-mini", ModelName("openai:gpt-5.4-mini", "openai", "gpt-5.4-mini")),
        (" anthropic:claude-sonnet-5 ", ModelName("anthropic:claude-sonnet-5", "anthropic", "claude-sonnet-5")),
        ("ollama:qwen3:8b", ModelName("ollama:qwen3:8b", "ollama", "qwen3:8b")),
        ("groq:llama-3.3", ModelName("groq:llama-3.3", "groq", "llama-3.3")),
        ("gguf:/models/a.gguf", ModelName("gguf:/models/a.gguf", "gguf", "/models/a.gguf")),
        (
            "openai-compatible:Qwen/Qwen3@http://127.0.0.1:8000/v1/",
            ModelName(
                "openai-compatible:Qwen/Qwen3@http://127.0.0.1:8000/v1",
                "openai-compatible",
                "Qwen/Qwen3",
                "http://127.0.0.1:8000/v1",
            ),
        ),
        (
            "openai-compatible:me@home@https://host/v1",
            ModelName("openai-compatible:me@home@https://host/v1", "openai-compatible", "me@home", "https://host/v1"),
        ),
    ],
)
def test_a_name_has_a_provider_a_name_and_perhaps_an_address(text: str, name: ModelName) -> None:
    assert parse_model_name(text) == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not the name of a model. Expected provider:name"),
        ("gpt-5", "'gpt-5' is not the name of a model"),
        ("openai:", "'openai:' is not the name of a model"),
        (":gpt-5", "':gpt-5' is not the name of a model"),
        ("Open AI:gpt-5", "is not the name of a model"),
        ("openai:gpt\n5", "is not the name of a model"),
        ("openai:" + "x" * 500, "is not the name of a model"),
        ("openai-compatible:qwen", "does not name a server. Expected NAME@URL"),
        ("openai-compatible:qwen@ftp://host", "does not name a server. Expected NAME@URL"),
        ("openai-compatible:qwen@https:///v1", "is not the URL of a server"),
        ("openai-compatible:qwen@https://me:hunter2@host/v1", "must be a plain one, without a user"),
        ("openai-compatible:qwen@https://host/v1?key=hunter2", "must be a plain one, without a user"),
    ],
)
def test_what_is_no_name_is_refused_with_an_example(text: str, said: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_model_name(text)
    assert said in refused.value.detail
    assert "hunter2" not in refused.value.detail


@given(st.text(max_size=80))
def test_any_text_is_a_name_or_invalid(text: str) -> None:
    try:
        name = parse_model_name(text)
    except Invalid:
        return
    assert parse_model_name(name.text) == name


def test_a_relative_path_is_the_same_file_from_everywhere(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    assert parse_model_name("gguf:models/a.gguf").text == f"gguf:{tmp_path}/models/a.gguf"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("192.168.1.5", "http://192.168.1.5:11434/v1"),
        ("gpu:8080", "http://gpu:8080/v1"),
        (":8080", "http://127.0.0.1:8080/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:5000", "http://127.0.0.1:5000/v1"),
        ("http://gpu", "http://gpu:80/v1"),
        ("https://gpu.example.org", "https://gpu.example.org:443/v1"),
        ("https://gpu.example.org:8443/ollama/", "https://gpu.example.org:8443/ollama/v1"),
        ("::1", "http://[::1]:11434/v1"),
        ("[::1]:9000", "http://[::1]:9000/v1"),
    ],
)
def test_the_host_of_ollama_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert ollama_url(host) == url


@pytest.mark.parametrize("host", ["ftp://gpu", "http://", "gpu:port", "me@gpu", "http://[gpu"])
def test_a_host_of_ollama_that_is_none_is_refused(host: str) -> None:
    with pytest.raises(Invalid, match="OLLAMA_HOST is"):
        ollama_url(host)


def test_each_server_has_a_key_and_a_breaker_of_its_own() -> None:
    local, other = (parse_model_name(f"openai-compatible:m@{url}") for url in ("http://a:1/v1", "https://a:1/v1"))
    assert local.key_names == ("KEY_OF_HTTP_A_1",)
    assert other.key_names == ("KEY_OF_HTTPS_A_1",)
    assert local.service != other.service
    assert parse_model_name("openai:m").service == "openai"


def test_every_suggested_model_is_a_name_of_its_provider() -> None:
    assert [parse_model_name(vendor.suggested).provider for vendor in VENDORS.values()] == list(VENDORS)
