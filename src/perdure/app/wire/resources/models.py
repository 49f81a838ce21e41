"""Models, and the result of a test."""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import Schema

ModelSource = Literal["default", "fallback", "settings", "suggestion"]


class ModelPrice(TypedDict):
    """The price of a million tokens in US dollars."""

    input: float
    output: float


class Model(TypedDict):
    """A model that is configured, or suggested for its provider."""

    name: str
    provider: str
    source: Annotated[
        ModelSource,
        Schema(
            description="`default`: the default model. `fallback`: asked when a model before it fails. "
            "`settings`: from the settings. `suggestion`: not configured."
        ),
    ]
    ready: Annotated[bool, Schema(description="Whether its package and its key exist. The provider is not called.")]
    missing: Annotated[str | None, Schema(description="The missing part.")]
    next: Annotated[str | None, Schema(description="The command that adds the missing part.")]
    key: Annotated[str | None, Schema(description="The origin of its key; null without a key.")]
    context_window: Annotated[int, Schema(description="Maximum number of tokens of a request and its answer together.")]
    price: Annotated[ModelPrice | None, Schema(description="USD per million tokens; null if unknown.")]


class ModelUsage(TypedDict):
    """The tokens of a request; `input` contains those of the cache, `output` those of the reasoning."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    estimated: bool


class TestedModel(TypedDict):
    """The answer of a tested model."""

    name: str
    text: Annotated[str, Schema(description="The first 200 characters of the answer.")]
    duration_ms: int
    first_token_ms: int | None
    usage: ModelUsage
    cost_usd: Annotated[float | None, Schema(description="Null if the price is unknown.")]
