"""Models, and what became of trying one."""

from typing import Annotated, Literal

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import Schema

ModelSource = Literal["default", "fallback", "settings", "suggestion"]


class ModelPrice(TypedDict):
    """What a million tokens cost, in US dollars."""

    input: float
    output: float


class Model(TypedDict):
    """A model that is configured, or suggested for its provider."""

    name: str
    provider: str
    source: Annotated[
        ModelSource,
        Schema(description="`default`: of goals that name none. `settings`: it has a table. `suggestion`: not set."),
    ]
    ready: Annotated[bool, Schema(description="Whether a package and a key for it are there. It was not asked.")]
    missing: Annotated[str | None, Schema(description="What is missing.")]
    next: Annotated[str | None, Schema(description="The command that adds what is missing.")]
    key: Annotated[str | None, Schema(description="Where its key is from; null when there is none.")]
    context_window: Annotated[int, Schema(description="Tokens of a request and its answer together.")]
    price: Annotated[ModelPrice | None, Schema(description="USD per million tokens; null when it is not known.")]


class ModelUsage(TypedDict):
    """The tokens of a request; `input` contains those of the cache, `output` those of the reasoning."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    reasoning: int
    estimated: bool


class TestedModel(TypedDict):
    """The answer of a model that was tried."""

    name: str
    text: Annotated[str, Schema(description="The answer, at most 200 characters of it.")]
    duration_ms: int
    first_token_ms: int | None
    usage: ModelUsage
    cost_usd: Annotated[float | None, Schema(description="Null when the price is not known.")]
