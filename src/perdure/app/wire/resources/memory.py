"""Records of the memory, and what a search for them returns."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import DescribedBy, Schema, with_other_keys


@with_other_keys
class RecordLink(TypedDict):
    """A link of a record; other keys are kept."""

    url: str


@with_other_keys
class MemoryRecord(TypedDict):
    """A record with the keys that it was stored with, and others. One that another program wrote may lack all but `id`.

    `key` is the name that updates use; `supersedes` has the ids of the records that it replaces.
    """

    id: str
    type: NotRequired[str]
    timestamp: NotRequired[str]
    repo: NotRequired[str]
    sha: NotRequired[str]
    pr_number: NotRequired[int]
    source: NotRequired[str]
    severity: NotRequired[Annotated[str, Schema(description="`critical`, `high`, `medium`, `low` or `unknown`.")]]
    fingerprint: NotRequired[str]
    title: NotRequired[str]
    summary: NotRequired[str]
    paths: NotRequired[list[str]]
    links: NotRequired[list[RecordLink]]
    metadata: NotRequired[dict[str, Any]]
    key: NotRequired[Annotated[str, Schema(description="The name that updates use.")]]
    supersedes: NotRequired[Annotated[list[str], Schema(description="Ids of records that it replaces.")]]
    v: NotRequired[int]


Record = Annotated[dict[str, Any], DescribedBy("perdure.app.wire.resources.memory:MemoryRecord")]
"""A record has keys of its own beside those of `MemoryRecord`: in Python it is a plain dict."""


class AddedRecord(TypedDict):
    """The outcome of an addition: `id` if the record was added, else `reason`, and `existing_id` of a duplicate.

    `forgotten` is a record that is to be stored only if it is new, and was forgotten before.
    """

    added: bool
    id: NotRequired[str]
    reason: NotRequired[Literal["duplicate", "disabled", "forgotten"]]
    existing_id: NotRequired[str]


class AddedRecords(TypedDict):
    """The outcomes of an addition of several records, in their order."""

    records: list[AddedRecord]


class UpdatedRecord(TypedDict):
    """The outcome of an update: `id`, `key` and what it superseded, else `reason`."""

    added: bool
    id: NotRequired[str]
    key: NotRequired[str]
    superseded: NotRequired[list[str]]
    reason: NotRequired[Literal["unchanged", "disabled"]]
    existing_id: NotRequired[str]


class MatchReason(TypedDict):
    """Why a record is related."""

    kind: Literal["fingerprint", "path", "sha", "pr", "text"]
    value: str


class SearchMatch(TypedDict):
    """A record that was found, and its score when it was found by words."""

    record: Record
    score: NotRequired[float]


class RelatedMatch(TypedDict):
    """A related record, why it is related, and how many records say the same."""

    record: Record
    why: list[MatchReason]
    count: NotRequired[Annotated[int, Schema(description="Records that say the same, of which this is the first.")]]


class SearchMatches(TypedDict):
    """What a search or a list has found: `truncated` says that the time was up before all records were searched."""

    matches: list[SearchMatch]
    truncated: bool
    disabled: NotRequired[Literal[True]]
    next_cursor: NotRequired[str]


class MoreMatches(TypedDict):
    """The matches beyond the limit: how many were counted, those that say the same once, and whether that is all."""

    count: int
    is_exact: bool


class RelatedMatches(TypedDict):
    """The records that have to do with what was asked about, the most severe and newest first."""

    matches: list[RelatedMatch]
    truncated: bool
    more: NotRequired[MoreMatches]
    disabled: NotRequired[Literal[True]]
    next_cursor: NotRequired[str]


class RecordList(TypedDict):
    """The newest records, and whether there are more."""

    records: list[Record]
    has_more: bool
    disabled: NotRequired[Literal[True]]


class DeletedRecord(TypedDict):
    """The record that was removed, and how many lines held it."""

    forgotten: int
    id: str


class IndexStatus(TypedDict):
    """The derived index of the log."""

    state: Literal["current", "behind", "missing", "unusable"]
    bytes: int
    offset: int
    records: int


class MemoryStatus(TypedDict):
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
