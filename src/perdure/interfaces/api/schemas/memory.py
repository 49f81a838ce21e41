"""Request bodies for memory records, and the metadata of a page of matches."""

from typing import Annotated, Any, Literal, NotRequired

from fastapi import Body
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from perdure.app.wire.resources.memory import MoreMatches, RecordLink
from perdure.interfaces.api.schemas.envelopes import PageMeta, ReadBy

_EXAMPLE: dict[str, Any] = {
    "type": "lesson",
    "title": "The cart caches prices",
    "paths": ["src/cart.py"],
    "severity": "high",
}
_SEVERITY = "`critical`, `high`, `medium`, `low` or `unknown`."
_SOME_SEVERITY = r"^(critical|high|medium|low|unknown|fatal|error|warning|warn|info|debug)$"


class RecordChanges(BaseModel):
    """Changes of a record. Additional keys are kept."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{"summary": "Since November."}]})
    type: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="A lower-case word.")] | None = None
    timestamp: str | float | None = Field(default=None, description="ISO-8601, or seconds since 1970 (default: now).")
    repo: str | None = None
    sha: str | None = None
    pr_number: Annotated[int, Field(ge=0, le=2**63 - 1)] | None = None
    source: str | None = None
    severity: Annotated[str, Field(pattern=_SOME_SEVERITY)] | None = Field(default=None, description=_SEVERITY)
    fingerprint: str | list[str] | None = None
    title: str | None = None
    summary: str | None = None
    paths: list[str] | None = Field(default=None, description="Paths within the repository.")
    links: list[RecordLink] | None = None
    metadata: dict[str, Any] | None = None


class RecordBody(BaseModel):
    """A record to store. Additional keys are kept. A record without content is rejected."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [_EXAMPLE]})
    type: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", description="A lower-case word.")]
    id: Annotated[str, Field(min_length=1, max_length=200)] | SkipJsonSchema[None] = None
    timestamp: str | float | SkipJsonSchema[None] = Field(
        default=None, description="ISO-8601, or seconds since 1970 (default: now)."
    )
    repo: str | SkipJsonSchema[None] = None
    sha: str | SkipJsonSchema[None] = None
    pr_number: Annotated[int, Field(ge=0, le=2**63 - 1)] | SkipJsonSchema[None] = None
    source: str | SkipJsonSchema[None] = None
    severity: Annotated[str, Field(pattern=_SOME_SEVERITY)] | SkipJsonSchema[None] = Field(
        default=None, description=_SEVERITY
    )
    fingerprint: str | list[str] | SkipJsonSchema[None] = Field(
        default=None, description="A stable identifier of a root cause, for example an error signature."
    )
    title: str | SkipJsonSchema[None] = None
    summary: str | SkipJsonSchema[None] = None
    paths: list[str] | SkipJsonSchema[None] = Field(default=None, description="Paths within the repository.")
    links: list[RecordLink] | SkipJsonSchema[None] = None
    metadata: dict[str, Any] | SkipJsonSchema[None] = None


class RecordsBody(BaseModel):
    """Records to store together: all of them, or none if one is rejected."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"records": [{**_EXAMPLE, "id": "a1"}]}]})
    records: Annotated[
        list[Annotated[dict[str, Any], ReadBy(RecordBody)]],
        Field(min_length=1, max_length=1000, description="Each needs an `id`, so that a repetition is recognised."),
    ]
    again: bool = Field(default=False, description="Store records even if the same was stored within a day.")
    only_new: bool = Field(
        default=False,
        description="Skip a record whose id exists as `duplicate` or `forgotten`, instead of answering 409.",
    )


Record = Annotated[
    dict[str, Any],
    Body(examples=[_EXAMPLE], description="`type` is required. Additional keys are kept."),
    ReadBy(RecordBody),
]


Changes = Annotated[
    dict[str, Any],
    Body(examples=[{"summary": "Since November."}], description="Additional keys are kept; null removes a value."),
    ReadBy(RecordChanges),
]


class MatchesMeta(PageMeta):
    """Describes a page of matches: `truncated` is true if the time limit was reached before the end of the search."""

    truncated: bool
    more: NotRequired[MoreMatches]
    disabled: NotRequired[Literal[True]]
