"""The memory over HTTP: add, find, look, forget."""

import re
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from perdure.errors import Invalid
from perdure.interfaces.api.envelope import ASKED, Envelope, from_cursor, reply, to_cursor
from perdure.interfaces.api.surface import BASE, Called, Cursor, JsonRoute, Limit, Served

router = APIRouter(prefix="/memory", tags=["memory"], route_class=JsonRoute)

_RECORDS = f"{BASE}/memory/records"
_LARGEST = 2**63 - 1
_DEEPEST = 10_000
"""So far cursors lead; whoever wants more has to ask for something else."""
_BUDGET_MS = 50.0
_MS_PER_PLACE = 0.5
"""Each page finds those before it again, and has so much more time for each place that it begins after."""
_EXAMPLE = {"type": "lesson", "title": "The cart caches prices", "paths": ["src/cart.py"], "severity": "high"}

Text = Annotated[str, Query(min_length=1, max_length=10_000, description="Words; never a query language.")]
Repo = Annotated[str | None, Query(max_length=500, description="Records of this repository, or of none.")]
Sha = Annotated[str, Query(min_length=1, max_length=200)]
Type = Annotated[str, Query(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
Path = Annotated[str, Query(min_length=1, max_length=4096)]
Part = Annotated[str, Query(min_length=1, max_length=1000)]
Record = Annotated[dict[str, Any], Body(examples=[_EXAMPLE], description="`type` is needed; other keys are kept.")]


class AddedOut(BaseModel):
    """What became of a record: `id` when it was added; else `reason`, and `existing_id` of its duplicate."""

    added: bool
    id: str | None = None
    reason: str | None = None
    existing_id: str | None = None


class RecordOut(BaseModel):
    """A record, with the keys that it was added with; one that another program has written may have fewer."""

    model_config = ConfigDict(extra="allow")
    id: str
    type: str | None = None
    timestamp: str | None = None


class FoundOut(BaseModel):
    """A record that was found by words, and how well it fits."""

    record: RecordOut
    score: float


class ReasonOut(BaseModel):
    """Why a record was found."""

    model_config = ConfigDict(extra="allow")
    kind: str
    value: Any


class RelatedOut(BaseModel):
    """A record that has to do with what was asked."""

    record: RecordOut
    why: list[ReasonOut]


class ForgottenOut(BaseModel):
    """What is gone."""

    forgotten: int
    id: str


_NOT_ADDED: dict[str, Any] = {"model": Envelope[AddedOut], "description": "It was not added, and `reason` says why."}


@router.post("/records", status_code=201, response_model=Envelope[AddedOut], responses={200: _NOT_ADDED})
async def add_record(record: Record, served: Served, once: Called) -> Response:
    """Store a record, unless the same was stored within a day: 201, else 200. It is durable when this answers.

    Repeated with its key after the record was removed, it is 410.
    """
    memory = served.p.memory
    answer = await (memory.add(record) if once is None else memory.add_once(record, once))
    known = answer.get("id") or answer.get("existing_id")
    links = {} if known is None else {"record": _link(known)}
    return reply(answer, links=links, status=201 if answer["added"] else 200)


@router.get("/records", response_model=Envelope[list[FoundOut]])
async def search_records(
    served: Served,
    text: Text,
    type: Type | None = None,  # noqa: A002 (the record's own word)
    repo: Repo = None,
    limit: Limit = 10,
    cursor: Cursor = None,
) -> Response:
    """Find records by their words, the best first; `meta.truncated` says that there was not time for all."""
    after = _places_before(cursor)
    most, budget_ms = after + limit + 1, _budget_ms(after)
    found = await served.p.memory.search(text, limit=most, repo=repo, type=type, budget_ms=budget_ms)
    return _matches(found, after, limit)


@router.get("/records/{record_id:path}", response_model=Envelope[RecordOut])
async def show_record(record_id: str, served: Served) -> Response:
    """Show a record, by its id or a beginning of six characters or more that no other has."""
    record = await served.p.memory.get(record_id)
    return reply(record, links={"self": _link(record["id"])})


@router.delete("/records/{record_id:path}", response_model=Envelope[ForgottenOut])
async def forget_record(record_id: str, served: Served) -> Response:
    """Remove a record for good, from the log and the archive; the whole id is needed."""
    gone = await served.p.memory.forget(record_id)
    return reply({"forgotten": gone["forgotten"], "id": record_id})


@router.get("/related", response_model=Envelope[list[RelatedOut]])
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
) -> Response:
    """Find what has to do with paths, a fingerprint, a text, a commit or a pull request, the most severe first."""
    after, many = _places_before(cursor), limit or served.p.settings.memory.max_matches
    found = await served.p.memory.related(
        paths=path or [],
        fingerprint=fingerprint,
        text=text,
        repo=repo,
        sha=sha,
        pr_number=pr_number,
        limit=after + many + 1,
        budget_ms=_budget_ms(after),
    )
    return _matches(found, after, many)


@router.get("/status", response_model=Envelope[dict[str, Any]])
async def memory_status(served: Served) -> Response:
    """Tell how much there is, how large it is, and how the log and its index stand."""
    return reply(await served.p.memory.status())


def _link(record_id: str) -> str:
    """Return the path of a record; an id may be any text, and is one step of the path whatever it looks like."""
    step = quote(record_id, safe="")
    return f"{_RECORDS}/{step if step.strip('.') else step.replace('.', '%2E')}"


def _places_before(cursor: str | None) -> int:
    """Return how many matches were on the pages before.

    Raises: Invalid when it is no cursor of a list of matches.
    """
    last = from_cursor(cursor)
    found = re.fullmatch(r"after ([1-9][0-9]{0,4})", last or "")
    if last is not None and (found is None or int(found[1]) > _DEEPEST):
        raise Invalid("This cursor is none of a list of matches; leave it out to begin anew.")
    return 0 if found is None else int(found[1])


def _budget_ms(after: int) -> float:
    return _BUDGET_MS + _MS_PER_PLACE * after


def _matches(found: dict[str, Any], after: int, limit: int) -> Response:
    """Answer with one page of what was found, and with the way to the next if there is one."""
    end, matches, asked = after + limit, found["matches"], ASKED.get()
    cursor = to_cursor(f"after {end}") if end < len(matches) and end <= _DEEPEST else None
    links = {"self": asked.link()} | ({} if cursor is None else {"next": asked.link(cursor=cursor)})
    told = {name: value for name, value in found.items() if name != "matches"}
    return reply(matches[after:end], links=links, next_cursor=cursor, **told)
