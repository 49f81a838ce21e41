"""The memory over HTTP: add, find, look, forget."""

from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from perdure.interfaces.api.envelope import Envelope, reply
from perdure.interfaces.api.surface import BASE, Called, Served

router = APIRouter(prefix="/memory", tags=["memory"])

_RECORDS = f"{BASE}/memory/records"
_LARGEST = 2**63 - 1
_EXAMPLE = {"type": "lesson", "title": "The cart caches prices", "paths": ["src/cart.py"], "severity": "high"}

Text = Annotated[str, Query(min_length=1, max_length=10_000, description="Words; never a query language.")]
Repo = Annotated[str | None, Query(max_length=500, description="Records of this repository, or of none.")]
Most = Annotated[int, Query(ge=1, le=500, description="How many at most.")]
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
    """Store a record, unless the same was stored within a day: 201, else 200. It is durable when this answers."""
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
    limit: Most = 10,
) -> Response:
    """Find records by their words, the best first; `meta.truncated` says that there was not time for all."""
    found = await served.p.memory.search(text, limit=limit, repo=repo, type=type)
    return _matches(found, _RECORDS)


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
    limit: Most | None = None,
) -> Response:
    """Find what has to do with paths, a fingerprint, a text, a commit or a pull request, the most severe first."""
    found = await served.p.memory.related(
        paths=path or [], fingerprint=fingerprint, text=text, repo=repo, sha=sha, pr_number=pr_number, limit=limit
    )
    return _matches(found, f"{BASE}/memory/related")


@router.get("/status", response_model=Envelope[dict[str, Any]])
async def memory_status(served: Served) -> Response:
    """Tell how much there is, how large it is, and how the log and its index stand."""
    return reply(await served.p.memory.status())


def _link(record_id: str) -> str:
    return f"{_RECORDS}/{quote(record_id)}"


def _matches(found: dict[str, Any], path: str) -> Response:
    """Answer with what was found; there is no page after it."""
    told = {name: value for name, value in found.items() if name != "matches"}
    return reply(found["matches"], links={"self": path}, next_cursor=None, **told)
