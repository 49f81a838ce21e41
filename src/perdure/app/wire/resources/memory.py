"""Records of the memory, and results of searches."""

from typing import Annotated, Any, Literal, NotRequired

from typing_extensions import TypedDict

from perdure.app.wire.resources.vocabulary import DescribedBy, Schema, with_other_keys


@with_other_keys
class RecordLink(TypedDict):
    """A link of a record; additional keys are kept."""

    url: str


@with_other_keys
class MemoryRecord(TypedDict):
    """A record with all its keys. A record that another program wrote may have only an `id`.

    `key` is the name for updates; `supersedes` has the ids of the records that it replaces.
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
    key: NotRequired[Annotated[str, Schema(description="The name for updates.")]]
    supersedes: NotRequired[Annotated[list[str], Schema(description="Ids of records that it replaces.")]]
    v: NotRequired[int]


Record = Annotated[dict[str, Any], DescribedBy("perdure.app.wire.resources.memory:MemoryRecord")]
"""A record may have keys that `MemoryRecord` does not define: in Python, it is a plain dict."""


class AddedRecord(TypedDict):
    """The outcome of an addition: `id` if the record was added, else `reason`, and `existing_id` of a duplicate.

    With `only_new`, `forgotten` is a record that was forgotten before, and is not stored again.
    """

    added: bool
    id: NotRequired[str]
    reason: NotRequired[Literal["duplicate", "disabled", "forgotten"]]
    existing_id: NotRequired[str]


class AddedRecords(TypedDict):
    """The outcomes of an addition of several records, in their order."""

    records: list[AddedRecord]


class UpdatedRecord(TypedDict):
    """The outcome of an update: `id`, `key` and `superseded` records, else `reason`."""

    added: bool
    id: NotRequired[str]
    key: NotRequired[str]
    superseded: NotRequired[list[str]]
    reason: NotRequired[Literal["unchanged", "disabled"]]
    existing_id: NotRequired[str]


class MatchReason(TypedDict):
    """The reason why a record is related."""

    kind: Literal["fingerprint", "path", "sha", "pr", "text"]
    value: str


class SearchMatch(TypedDict):
    """A found record, with its score if it was found by words."""

    record: Record
    score: NotRequired[float]


class RelatedMatch(TypedDict):
    """A related record with the reasons, and the number of records with the same content."""

    record: Record
    why: list[MatchReason]
    count: NotRequired[
        Annotated[int, Schema(description="Number of records with the same content, of which this is the first.")]
    ]


class SearchMatches(TypedDict):
    """The result of a search or a list: `truncated` is true if the time limit was reached before the end."""

    matches: list[SearchMatch]
    truncated: bool
    disabled: NotRequired[Literal[True]]
    next_cursor: NotRequired[str]


class MoreMatches(TypedDict):
    """The number of matches beyond the limit, where equal content counts once, and whether it is exact."""

    count: int
    is_exact: bool


class RelatedMatches(TypedDict):
    """The related records, most severe and newest first."""

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


class PinnedRecords(TypedDict):
    """The records that a bot has in each of its prompts, oldest first, and the bytes that they have there."""

    pins: list[MemoryRecord]
    bytes: int
    max_bytes: int


class DeletedRecord(TypedDict):
    """The deleted record, the number of removed lines, and the ids of other versions of the record, which remain."""

    forgotten: int
    id: str
    other_versions: NotRequired[list[str]]


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
