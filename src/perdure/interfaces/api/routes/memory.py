"""The memory over HTTP: add, update, list, find, look, forget."""

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
from perdure.errors import Invalid
from perdure.interfaces.api.dependencies import BASE, Called, Cursor, JsonRoute, Limit, Served
from perdure.interfaces.api.envelope import ASKED, from_cursor, reply, to_cursor
from perdure.interfaces.api.schemas.envelopes import Envelope, Page
from perdure.interfaces.api.schemas.memory import Changes, MatchesMeta, Record, RecordsBody
from perdure.interfaces.api.schemas.problems import refusals
from perdure.memory.query.parameters import RecordFilters

router = APIRouter(prefix="/memory", tags=["memory"], route_class=JsonRoute)

_RECORDS = f"{BASE}/memory/records"
_LARGEST = 2**63 - 1
_DEEPEST = 10_000
"""Maximum offset of a cursor; a query with more results must be narrowed."""
_BUDGET_MS = 50.0
_LONGEST_BUDGET_MS = 10_000.0
_MS_PER_PLACE = 0.5
"""Each page finds those before it again, and has so much more time for each place that it begins after."""

Text = Annotated[str, Query(min_length=1, max_length=10_000, description="Words; never a query language.")]
Repo = Annotated[str | None, Query(max_length=500, description="Records of this repository, or of none.")]
Sha = Annotated[str, Query(min_length=1, max_length=200)]
Type = Annotated[str, Query(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Path = Annotated[str, Query(min_length=1, max_length=4096)]
Source = Annotated[str | None, Query(max_length=1000, description="Records of this source.")]
Moment = Annotated[str | None, Query(max_length=100, description="ISO-8601, or seconds since 1970.")]
Part = Annotated[str, Query(min_length=1, max_length=1000)]
Budget = Annotated[
    float,
    Query(ge=1, le=_LONGEST_BUDGET_MS, description="Time limit in milliseconds; what was found by then is returned."),
]


_NOT_ADDED: dict[str, Any] = {"model": Envelope[AddedRecord], "description": "Not added; `reason` says why."}


@router.post(
    "/records",
    operation_id="add_record",
    status_code=201,
    response_model=Envelope[AddedRecord],
    responses={**refusals(410), 200: _NOT_ADDED},
)
async def add_record(record: Record, served: Served, once: Called) -> Response:
    """Store a record, unless the same was stored within a day: 201, else 200. It is durable when this answers.

    Repeated with its key after the record was removed, it is 410.
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
    """Store several records under the ids that they have, with one write: all, or none when one is refused.

    A repetition adds nothing: each record is a duplicate of itself.
    """
    for number, record in enumerate(body.records, start=1):
        if record.get("id") is None:
            raise Invalid(f"Record {number}: it has no id, by which a repetition would be recognised. None was stored.")
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
    """Find records by words, the best match first; without a text, list the newest first, without a score.

    `until` itself is not included. `meta.truncated` is true if the time was up before the end.
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
        bool, Query(description="Accept the beginning of an id, too: six characters that only one record has.")
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
    """Store a record under a key, or in the place of the record with an id. What is current there is superseded.

    The new record takes over what is not given; null removes a value. The first record of a key needs a type. A
    repetition changes nothing.
    """
    answer = await served.p.memory.update(record_id, changes)
    known = answer.get("id") or answer.get("existing_id")
    return reply(answer, links={} if known is None else {"record": _link(known)})


@router.delete("/records/{record_id:path}", operation_id="delete_record", response_model=Envelope[DeletedRecord])
async def forget_record(record_id: str, served: Served) -> Response:
    """Delete a record from the log and the archive. The whole id is required."""
    return reply(await served.p.memory.forget(record_id))


@router.get("/related", operation_id="find_related_records", response_model=Page[RelatedMatch, MatchesMeta])
async def related_records(  # noqa: PLR0913 (each is a way to find something)
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
    """Return the path of a record; an id may be any text, and is one step of the path whatever it looks like."""
    step = quote(record_id, safe="")
    return f"{_RECORDS}/{step if step.strip('.') else step.replace('.', '%2E')}"


def _places_before(cursor: str | None) -> int:
    """Return how many matches were on the pages before.

    Raises: Invalid when it is not a cursor of a list of matches.
    """
    last = from_cursor(cursor)
    found = re.fullmatch(r"after ([1-9][0-9]{0,4})", last or "")
    if last is not None and (found is None or int(found[1]) > _DEEPEST):
        raise Invalid("Unknown cursor: it is not from a list of matches. Leave it out to start at the beginning.")
    return 0 if found is None else int(found[1])


def _budget_ms(asked_ms: float, after: int) -> float:
    return asked_ms + _MS_PER_PLACE * after


def _matches(found: Mapping[str, Any], after: int, limit: int) -> Response:
    """Answer with one page of what was found, and with the way to the next if there is one."""
    end, matches, asked = after + limit, found["matches"], ASKED.get()
    cursor = to_cursor(f"after {end}") if end < len(matches) and end <= _DEEPEST else None
    links = {"self": asked.link()} | ({} if cursor is None else {"next": asked.link(cursor=cursor)})
    facts = {name: value for name, value in found.items() if name not in ("matches", "more")}
    return reply(matches[after:end], links=links, next_cursor=cursor, **facts, **_more(found, end))


def _more(found: Mapping[str, Any], end: int) -> dict[str, Any]:
    """Return what is known of the matches after a page; nothing when there are none."""
    more = found.get("more", {"count": 0, "is_exact": True})
    count = more["count"] + max(len(found["matches"]) - end, 0)
    return {"more": {**more, "count": count}} if "more" in found or count else {}
