"""Calls for memory records: add, update, find, show and delete them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast

from perdure.app.wire.resources.parameters import RecordFilters, RelatedTo, require_names
from perdure.client.connection import Connection
from perdure.client.sending import one_step, plain_step

if TYPE_CHECKING:
    from perdure.app.wire.resources.memory import (
        AddedRecord,
        AddedRecords,
        DeletedRecord,
        MemoryStatus,
        PinnedRecords,
        RelatedMatches,
        SearchMatches,
        UpdatedRecord,
    )


class Memory:
    """The memory of a server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, record: Mapping[str, Any], *, key: str | None = None) -> "AddedRecord":
        """Store a record durably, unless the same was stored within a day; with a key, once.

        Raises: Invalid; Conflict when the key was used for another record; NotFound when the record of the key was
        deleted; Unavailable.
        """
        headers = {"Idempotency-Key": key}
        return cast("AddedRecord", await self._connection.data("POST", "/memory/records", record, headers=headers))

    async def put(
        self, records: Sequence[Mapping[str, Any]], *, again: bool = False, only_new: bool = False
    ) -> "AddedRecords":
        """Store several records under their own ids: all of them, or none if one is rejected.

        A repetition adds nothing. `again` also stores records that were stored within a day. With `only_new`, a record
        with an existing id is skipped as a duplicate, and a forgotten record is not added again.

        Raises: Invalid; Conflict when an id belongs to another record; Unavailable.
        """
        body = {"records": list(records), "again": again, "only_new": only_new}
        return cast("AddedRecords", await self._connection.data("PUT", "/memory/records", body))

    async def get(self, record_id: str, *, prefix: bool = False) -> dict[str, Any]:
        """Return the record with an id; with `prefix`, also by a unique prefix of at least six characters.

        Raises: NotFound; Conflict when several ids match.
        """
        query = {"prefix": True if prefix else None}
        found: dict[str, Any] = await self._connection.data("GET", _record(record_id), query=query)
        return found

    async def search(
        self,
        text: str,
        *,
        limit: int = 10,
        cursor: str | None = None,
        budget_ms: float | None = None,
        **filters: Unpack[RecordFilters],
    ) -> "SearchMatches":
        """Return records by words, best match first, each with its `score`. Filters are those of `list`.

        `budget_ms` is the time limit of the search. If there are more matches, `next_cursor` is the `cursor` of the
        next page.

        Raises: Invalid
        """
        query = {"text": text, "limit": limit, "cursor": cursor, "budget_ms": budget_ms, **_sent(filters)}
        found: SearchMatches = await self._matches("/memory/records", query)
        return found

    async def list(
        self, *, limit: int = 20, cursor: str | None = None, **filters: Unpack[RecordFilters]
    ) -> "SearchMatches":
        """Return the newest records; filters are type, source, repo, since and until.

        `next_cursor` is as in `search`.

        Raises: Invalid
        """
        query = {"limit": limit, "cursor": cursor, **_sent(filters)}
        found: SearchMatches = await self._matches("/memory/records", query)
        return found

    async def pins(self, bot: str) -> "PinnedRecords":
        """Return the records that a bot has pinned, oldest first; `assistant` is the built-in bot."""
        return cast("PinnedRecords", await self._connection.data("GET", f"/bots/{plain_step(bot)}/pins"))

    async def update(self, key: str, changes: Mapping[str, Any]) -> "UpdatedRecord":
        """Store a record that supersedes the current record with a key or an id.

        Raises: Invalid
        """
        return cast("UpdatedRecord", await self._connection.data("PATCH", _record(key), changes))

    async def related(
        self,
        *,
        limit: int | None = None,
        cursor: str | None = None,
        budget_ms: float | None = None,
        **asked: Unpack[RelatedTo],
    ) -> "RelatedMatches":
        """Return records related to paths, a fingerprint, a text, a commit or a pull request, most severe first.

        Each match has the reasons in `why`. `cursor` and `budget_ms` are as in `search`.

        Raises: Invalid
        """
        require_names(asked, RelatedTo)
        rest = {name: value for name, value in asked.items() if name not in ("paths", "fingerprint")}
        lists = {"path": _listed(asked.get("paths")), "fingerprint": _listed(asked.get("fingerprint"))}
        query = {**rest, **lists, "limit": limit, "cursor": cursor, "budget_ms": budget_ms}
        found: RelatedMatches = await self._matches("/memory/related", query)
        return found

    async def status(self) -> "MemoryStatus":
        """Return the number of records, their size, and the state of the log and its index."""
        return cast("MemoryStatus", await self._connection.data("GET", "/memory/status"))

    async def forget(self, record_id: str) -> "DeletedRecord":
        """Delete a record permanently, by its whole id.

        Raises: NotFound; Conflict while another process rewrites the log.
        """
        return cast("DeletedRecord", await self._connection.data("DELETE", _record(record_id)))

    async def _matches(self, path: str, query: Mapping[str, Any]) -> Any:
        """Return the matches in the same form as `p.memory`."""
        found = await self._connection.ask("GET", path, query=query)
        meta = found["meta"]
        names = ("truncated", "more", "disabled", "next_cursor")
        known = {name: meta[name] for name in names if meta.get(name) is not None}
        return {"matches": found["data"], **known}


def _record(record_id: str) -> str:
    return f"/memory/records/{one_step(record_id)}"


def _sent(filters: RecordFilters) -> dict[str, Any]:
    """Return the query parameters of filters; a time without an offset is UTC, as in a home.

    Raises: TypeError for an unknown filter.
    """
    require_names(filters, RecordFilters)
    return {name: _text(value) for name, value in filters.items()}


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _listed(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())
