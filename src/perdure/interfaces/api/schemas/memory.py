"""Records of the memory, and what a search for them returns."""

from typing import Annotated, Any, Literal

from fastapi import Body
from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from perdure.interfaces.api.schemas.envelopes import DescribedBy, PageMeta

_EXAMPLE: dict[str, Any] = {
    "type": "lesson",
    "title": "The cart caches prices",
    "paths": ["src/cart.py"],
    "severity": "high",
}
_SEVERITY = "`critical`, `high`, `medium`, `low` or `unknown`."
_SOME_SEVERITY = r"^(critical|high|medium|low|unknown|fatal|error|warning|warn|info|debug)$"


class RecordLink(BaseModel):
    """A link of a record; other keys are kept."""

    model_config = ConfigDict(extra="allow")
    url: str


class RecordChanges(BaseModel):
    """What an update changes. Other keys are kept."""

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
    """A record to store. Other keys are kept. One that says nothing is rejected."""

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


Record = Annotated[
    dict[str, Any],
    Body(examples=[_EXAMPLE], description="`type` is required. Other keys are kept."),
    DescribedBy(RecordBody),
]


Changes = Annotated[
    dict[str, Any],
    Body(examples=[{"summary": "Since November."}], description="Other keys are kept; null removes a value."),
    DescribedBy(RecordChanges),
]


class MemoryRecord(BaseModel):
    """A record with the keys that it was stored with. One that another program wrote may lack all but `id`."""

    model_config = ConfigDict(extra="allow")
    id: str
    type: str | SkipJsonSchema[None] = None
    timestamp: str | SkipJsonSchema[None] = None
    repo: str | SkipJsonSchema[None] = None
    sha: str | SkipJsonSchema[None] = None
    pr_number: int | SkipJsonSchema[None] = None
    source: str | SkipJsonSchema[None] = None
    severity: str | SkipJsonSchema[None] = Field(default=None, description=_SEVERITY)
    fingerprint: str | SkipJsonSchema[None] = None
    title: str | SkipJsonSchema[None] = None
    summary: str | SkipJsonSchema[None] = None
    paths: list[str] | SkipJsonSchema[None] = None
    links: list[RecordLink] | SkipJsonSchema[None] = None
    metadata: dict[str, Any] | SkipJsonSchema[None] = None
    key: str | SkipJsonSchema[None] = Field(default=None, description="The name that updates use.")
    supersedes: list[str] | SkipJsonSchema[None] = Field(default=None, description="Ids of records that it replaces.")
    v: int | SkipJsonSchema[None] = None


class AddedRecord(BaseModel):
    """The outcome of an addition: `id` if the record was added, else `reason`, and `existing_id` of a duplicate."""

    added: bool
    id: str | SkipJsonSchema[None] = None
    reason: Literal["duplicate", "disabled"] | SkipJsonSchema[None] = None
    existing_id: str | SkipJsonSchema[None] = None


class UpdatedRecord(BaseModel):
    """The outcome of an update: `id`, `key` and what it superseded, else `reason`."""

    added: bool
    id: str | SkipJsonSchema[None] = None
    key: str | SkipJsonSchema[None] = None
    superseded: list[str] | SkipJsonSchema[None] = None
    reason: Literal["unchanged", "disabled"] | SkipJsonSchema[None] = None
    existing_id: str | SkipJsonSchema[None] = None


class SearchMatch(BaseModel):
    """A record that was found, and its score when it was found by words."""

    record: MemoryRecord
    score: float | SkipJsonSchema[None] = None


class MatchReason(BaseModel):
    """Why a record is related."""

    kind: Literal["fingerprint", "path", "sha", "pr", "text"]
    value: str


class RelatedMatch(BaseModel):
    """A related record, why it is related, and how many records say the same."""

    record: MemoryRecord
    why: list[MatchReason]
    count: int = Field(default=1, description="Records that say the same, of which this is the first.")


class MatchesMeta(PageMeta):
    """Describes a page of matches: `truncated` says that the time was up before all records were searched."""

    truncated: bool
    disabled: Literal[True] | SkipJsonSchema[None] = None


class DeletedRecord(BaseModel):
    """The record that was removed, and how many lines held it."""

    forgotten: int
    id: str


class IndexStatus(BaseModel):
    """The derived index of the log."""

    state: Literal["current", "behind", "missing", "unusable"]
    bytes: int
    offset: int
    records: int


class MemoryStatus(BaseModel):
    """The size of the memory, and the state of its log and index."""

    enabled: bool
    path: str
    records: int
    unchecked: int
    bad_lines: int
    torn: int
    retention_days: int
    oldest: str | None
    newest: str | None
    bytes: int
    archive_bytes: int
    failed: bool
    index: IndexStatus
