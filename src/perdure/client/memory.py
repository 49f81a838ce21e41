"""The memory from elsewhere: add, update, list, find, look, forget."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack, cast

from perdure.app.wire.resources.parameters import require_names
from perdure.client.connection import Connection
from perdure.client.sending import one_step
from perdure.memory.query.parameters import RecordFilters, RelatedTo

if TYPE_CHECKING:
    from perdure.app.wire.resources.memory import (
        AddedRecord,
        AddedRecords,
        DeletedRecord,
        MemoryStatus,
        RelatedMatches,
        SearchMatches,
        UpdatedRecord,
    )


class Memory:
    """What can be done with the memory."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, record: Mapping[str, Any], *, key: str | None = None) -> "AddedRecord":
        """Store a record, unless the same was stored within a day; with a key, once. It is durable when this returns.

        Raises: Invalid; Conflict when the key was used for another record; NotFound when the record that the key stands
        for was removed since; Unavailable.
        """
        headers = {"Idempotency-Key": key}
        return cast("AddedRecord", await self._connection.data("POST", "/memory/records", record, headers=headers))

    async def put(
        self, records: Sequence[Mapping[str, Any]], *, again: bool = False, only_new: bool = False
    ) -> "AddedRecords":
        """Store several records, each under the id that it has: all, or none when one is refused.

        The same records again add nothing. `again` stores what was stored within a day, too. With `only_new` a taken id
        is a duplicate whatever the record says, and a forgotten record is not added again.

        Raises: Invalid; Conflict when an id is taken by another record; Unavailable.
        """
        body = {"records": list(records), "again": again, "only_new": only_new}
        return cast("AddedRecords", await self._connection.data("PUT", "/memory/records", body))

    async def get(self, record_id: str, *, prefix: bool = False) -> dict[str, Any]:
        """Return the record with an id; with `prefix`, also by the first six characters or more of its id.

        Raises: NotFound; Conflict when several ids begin so.
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
        """Find records by their words, the best first; each match has its `score`. Filters are those of `list`.

        `budget_ms` is the time limit of the search.

        `next_cursor` is there when there are more, which the same call with it as `cursor` gives.

        Raises: Invalid
        """
        query = {"text": text, "limit": limit, "cursor": cursor, "budget_ms": budget_ms, **_sent(filters)}
        found: SearchMatches = await self._matches("/memory/records", query)
        return found

    async def list(
        self, *, limit: int = 20, cursor: str | None = None, **filters: Unpack[RecordFilters]
    ) -> "SearchMatches":
        """List the newest records; filters are type, source, repo, since and until.

        `next_cursor` is as in `search`.

        Raises: Invalid
        """
        query = {"limit": limit, "cursor": cursor, **_sent(filters)}
        found: SearchMatches = await self._matches("/memory/records", query)
        return found

    async def update(self, key: str, changes: Mapping[str, Any]) -> "UpdatedRecord":
        """Store a record under a key, or in the place of the one with an id; what was current there is superseded.

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
        """Find what has to do with paths, a fingerprint, a text, a commit or a pull request, the most severe first.

        Each match says `why`. `cursor` and `budget_ms` are as in `search`.

        Raises: Invalid
        """
        require_names(asked, RelatedTo)
        rest = {name: value for name, value in asked.items() if name not in ("paths", "fingerprint")}
        lists = {"path": _listed(asked.get("paths")), "fingerprint": _listed(asked.get("fingerprint"))}
        query = {**rest, **lists, "limit": limit, "cursor": cursor, "budget_ms": budget_ms}
        found: RelatedMatches = await self._matches("/memory/related", query)
        return found

    async def status(self) -> "MemoryStatus":
        """Return how much there is, how large it is, and how the log and its index stand."""
        return cast("MemoryStatus", await self._connection.data("GET", "/memory/status"))

    async def forget(self, record_id: str) -> "DeletedRecord":
        """Remove a record for good, by its whole id.

        Raises: NotFound; Conflict while another process rewrites the log.
        """
        return cast("DeletedRecord", await self._connection.data("DELETE", _record(record_id)))

    async def _matches(self, path: str, query: Mapping[str, Any]) -> Any:
        """Return what was found in the form in which `p.memory` gives it."""
        found = await self._connection.ask("GET", path, query=query)
        meta = found["meta"]
        names = ("truncated", "more", "disabled", "next_cursor")
        known = {name: meta[name] for name in names if meta.get(name) is not None}
        return {"matches": found["data"], **known}


def _record(record_id: str) -> str:
    return f"/memory/records/{one_step(record_id)}"


def _sent(filters: RecordFilters) -> dict[str, Any]:
    """Return filters as they are sent; a time without an offset counts as UTC, at home too.

    Raises: TypeError for an unknown filter.
    """
    require_names(filters, RecordFilters)
    return {name: _text(value) for name, value in filters.items()}


def _text(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


def _listed(given: str | Sequence[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else list(given or ())
