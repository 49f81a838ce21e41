"""The parameters of a query, as every surface takes them. It imports no other module: the client needs the names."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict


class RecordFilters(TypedDict, total=False):
    """The filters of a list or a search; None does not filter. Times are ISO-8601, or seconds since 1970."""

    type: str | None
    source: str | None
    repo: str | None
    since: str | float | datetime | None
    until: str | float | datetime | None


class RelatedTo(TypedDict, total=False):
    """The criteria of related history; None is not a criterion."""

    paths: Sequence[str]
    fingerprint: str | Sequence[str] | None
    text: str | None
    repo: str | None
    sha: str | None
    pr_number: int | None
