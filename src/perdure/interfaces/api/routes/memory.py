"""The routes for memory records: add, update, find, show and delete them."""

import re
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import Response

from perdure.app.wire.resources.memory import (
    AddedRecord,
    AddedRecords,
    DeletedRecord,
    MemoryRecord,
    MemoryStatus,
    RelatedMatch,
    SearchMatch,
    UpdatedRecord,
)
from perdure.app.wire.resources.parameters import RecordFilters
from perdure.errors import Invalid
from perdure.interfaces.api.dependencies import BASE, Called, Cursor, Limit, Served
from perdure.interfaces.api.disconnects import CancellableRoute
from perdure.interfaces.api.envelope import REQUEST_INFO, from_cursor, reply, to_cursor
from perdure.interfaces.api.schemas.envelopes import Envelope, Page
from perdure.interfaces.api.schemas.memory import Changes, MatchesMeta, Record, RecordsBody
from perdure.interfaces.api.schemas.problems import refusals

router = APIRouter(prefix="/memory", tags=["memory"], route_class=CancellableRoute)

_RECORDS = f"{BASE}/memory/records"
_LARGEST = 2**63 - 1
_DEEPEST = 10_000
"""Maximum offset of a cursor; a query with more results must be narrowed."""
_BUDGET_MS = 50.0
_LONGEST_BUDGET_MS = 10_000.0
_MS_PER_PLACE = 0.5
"""The additional time for each skipped match of a page: a page is found by searching all pages before it again."""

Text = Annotated[
    str, Query(min_length=1, max_length=10_000, description="Words to find; they are not interpreted as search syntax.")
]
Repo = Annotated[str | None, Query(max_length=500, description="Records of this repository, or of none.")]
Sha = Annotated[
    str, Query(min_length=1, max_length=200, description="A commit: its id, or at least seven characters of it.")
]
Type = Annotated[str, Query(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Path = Annotated[str, Query(min_length=1, max_length=4096)]
Source = Annotated[str | None, Query(max_length=1000, description="Records of this source.")]
Moment = Annotated[str | None, Query(max_length=100, description="ISO-8601, or seconds since 1970.")]
Part = Annotated[str, Query(min_length=1, max_length=1000)]
Budget = Annotated[
    float,
    Query(
        ge=1, le=_LONGEST_BUDGET_MS, description="Time limit in milliseconds; the matches found by then are returned."
    ),
]


_NOT_ADDED: dict[str, Any] = {"model": Envelope[AddedRecord], "description": "Not added, for the given `reason`."}


@router.post(
    "/records",
    operation_id="add_record",
    status_code=201,
    response_model=Envelope[AddedRecord],
    responses={**refusals(410), 200: _NOT_ADDED},
)
async def add_record(record: Record, served: Served, once: Called) -> Response:
    """Store a record durably (201), unless the same record was stored within a day (200).

    Repeating the call with its key after the record was deleted is 410.
    """
    memory = served.p.memory
    answer = await (memory.add(record) if once is None else memory.add_once(record, once))
    known = answer.get("id") or answer.get("existing_id")
    links = {} if known is None else {"record": _link(known)}
    return reply(answer, links=links, status=201 if answer["added"] else 200)


@router.put(
    "/records",
    operation_id="put_records",
    response_model=Envelope[AddedRecords],
    responses=refusals(409),
)
async def put_records(body: RecordsBody, served: Served) -> Response:
    """Store several records under their own ids in one write: all of them, or none if one is rejected.

    A repetition adds nothing, because each record is then a duplicate.
    """
    for number, record in enumerate(body.records, start=1):
        if record.get("id") is None:
            raise Invalid(
                f"Record {number} has no id, which is needed to recognise a repetition. No record was stored."
            )
    memory = served.p.memory
    answers = await memory.add_many(body.records, dedupe=not body.again, skip_taken=body.only_new)
    return reply({"records": answers})


@router.get("/records", operation_id="search_records", response_model=Page[SearchMatch, MatchesMeta])
async def search_records(  # noqa: PLR0913 (each is a filter)
    served: Served,
    *,
    text: Text | None = None,
    type: Type | None = None,  # noqa: A002 (the record's own word)
    source: Source = None,
    repo: Repo = None,
    since: Moment = None,
    until: Moment = None,
    limit: Limit = 10,
    cursor: Cursor = None,
    budget_ms: Budget = _BUDGET_MS,
) -> Response:
    """Find records by words, best match first; without `text`, list records, newest first, without a score.

    `until` is exclusive. `meta.truncated` is true if the time limit was reached.
    """
    after = _places_before(cursor)
    filters: RecordFilters = {"type": type, "source": source, "repo": repo, "since": since, "until": until}
    most = after + limit + 1
    if text is None:
        records = (await served.p.memory.list(limit=most, **filters))["records"]
        return _matches({"matches": [{"record": record} for record in records], "truncated": False}, after, limit)
    found = await served.p.memory.search(text, limit=most, budget_ms=_budget_ms(budget_ms, after), **filters)
    return _matches(found, after, limit)


@router.get(
    "/records/{record_id:path}",
    operation_id="get_record",
    response_model=Envelope[MemoryRecord],
    responses=refusals(409),
)
async def show_record(
    record_id: str,
    served: Served,
    prefix: Annotated[
        bool, Query(description="Also accept a unique prefix of an id, of at least six characters, or a key.")
    ] = False,
) -> Response:
    """Show a record."""
    memory = served.p.memory
    record = await (memory.get(record_id) if prefix else memory.get_exact(record_id))
    return reply(record, links={"self": _link(record["id"])})


@router.patch(
    "/records/{record_id:path}",
    operation_id="update_record",
    response_model=Envelope[UpdatedRecord],
)
async def update_record(record_id: str, changes: Changes, served: Served) -> Response:
    """Store a record that supersedes the current record with a key or an id.

    The new record inherits fields that are not specified; null removes a value. The first record of a key needs a type.
    A repetition changes nothing.
    """
    answer = await served.p.memory.update(record_id, changes)
    known = answer.get("id") or answer.get("existing_id")
    return reply(answer, links={} if known is None else {"record": _link(known)})


@router.delete("/records/{record_id:path}", operation_id="delete_record", response_model=Envelope[DeletedRecord])
async def forget_record(record_id: str, served: Served) -> Response:
    """Delete a record from the log and the archive. The whole id is required."""
    return reply(await served.p.memory.forget(record_id))


@router.get("/related", operation_id="find_related_records", response_model=Page[RelatedMatch, MatchesMeta])
async def related_records(  # noqa: PLR0913 (each is a filter)
    served: Served,
    *,
    path: Annotated[list[Path] | None, Query(max_length=1000)] = None,
    fingerprint: Annotated[list[Part] | None, Query(max_length=50)] = None,
    text: Text | None = None,
    repo: Repo = None,
    sha: Sha | None = None,
    pr_number: Annotated[int | None, Query(ge=0, le=_LARGEST)] = None,
    limit: Limit | None = None,
    cursor: Cursor = None,
    budget_ms: Budget = _BUDGET_MS,
) -> Response:
    """Find records related to paths, a fingerprint, a text, a commit or a pull request, the most severe first.

    `meta.more` counts the matches after this page, exactly or at least: up to 40 records are read for it.
    """
    after, many = _places_before(cursor), limit or served.p.settings.memory.max_matches
    found = await served.p.memory.related(
        paths=path or [],
        fingerprint=fingerprint,
        text=text,
        repo=repo,
        sha=sha,
        pr_number=pr_number,
        limit=after + many + 1,
        budget_ms=_budget_ms(budget_ms, after),
    )
    return _matches(found, after, many)


@router.get("/status", operation_id="get_memory_status", response_model=Envelope[MemoryStatus])
async def memory_status(served: Served) -> Response:
    """Return the size of the memory, and the state of its log and index."""
    return reply(await served.p.memory.status())


def _link(record_id: str) -> str:
    """Return the path of a record; its id may be any text, and is escaped to one segment of the path."""
    step = quote(record_id, safe="")
    return f"{_RECORDS}/{step if step.strip('.') else step.replace('.', '%2E')}"


def _places_before(cursor: str | None) -> int:
    """Return the number of matches on the pages before.

    Raises: Invalid when it is not a cursor of a list of matches.
    """
    last = from_cursor(cursor)
    found = re.fullmatch(r"after ([1-9][0-9]{0,4})", last or "")
    if last is not None and (found is None or int(found[1]) > _DEEPEST):
        raise Invalid("Unknown cursor: it is not from a list of matches. Omit it to start at the beginning.")
    return 0 if found is None else int(found[1])


def _budget_ms(asked_ms: float, after: int) -> float:
    return asked_ms + _MS_PER_PLACE * after


def _matches(found: Mapping[str, Any], after: int, limit: int) -> Response:
    """Return one page of matches, with a cursor for the next page if there is one."""
    end, matches, info = after + limit, found["matches"], REQUEST_INFO.get()
    cursor = to_cursor(f"after {end}") if end < len(matches) and end <= _DEEPEST else None
    links = {"self": info.link()} | ({} if cursor is None else {"next": info.link(cursor=cursor)})
    facts = {name: value for name, value in found.items() if name not in ("matches", "more")}
    return reply(matches[after:end], links=links, next_cursor=cursor, **facts, **_more(found, end))


def _more(found: Mapping[str, Any], end: int) -> dict[str, Any]:
    """Return the number of matches after a page; empty if there are none."""
    more = found.get("more", {"count": 0, "is_exact": True})
    count = more["count"] + max(len(found["matches"]) - end, 0)
    return {"more": {**more, "count": count}} if "more" in found or count else {}
