"""Forge over HTTP: begin an interview, answer, build the bot. A socket on the same session speaks to the same draft."""

import re
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from perdure.app.forge import SessionView, known_form
from perdure.errors import Conflict, Invalid, NotFound
from perdure.forge.ports import DraftPlace
from perdure.interfaces.api.envelope import Envelope, from_cursor, page, reply
from perdure.interfaces.api.problems import Stale
from perdure.interfaces.api.surface import (
    BASE,
    Called,
    Cursor,
    IfMatch,
    JsonRoute,
    Limit,
    Served,
    Surface,
    wanted_revisions,
)

router = APIRouter(prefix="/builder", tags=["builder"], route_class=JsonRoute)

_SESSIONS = f"{BASE}/builder/sessions"


class SessionBody(BaseModel):
    """What somebody wants a bot for."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"description": "a timer for pasta"}]}
    )
    description: Annotated[str, Field(max_length=100_000)]
    mode: Literal["bot"] = "bot"
    engine: Literal["builtin"] = "builtin"


class AnswerBody(BaseModel):
    """An answer to the pending turn, in the form of the turn."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"answer": {"option_index": 0}}, {"answer": {"free_text": "Ada"}}]},
    )
    answer: Any


class AssembleBody(BaseModel):
    """The whole config, as `ready_to_assemble` showed it or edited; without one, as it was shown."""

    model_config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"examples": [{}]})
    config: dict[str, Any] | None = None


class ReconfigureBody(BaseModel):
    """The bot that is to be changed."""

    model_config = ConfigDict(
        extra="forbid", strict=True, json_schema_extra={"examples": [{"bot_slug": "pasta-timer"}]}
    )
    bot_slug: Annotated[str, Field(min_length=1, max_length=200)]


class SkillRequestBody(BaseModel):
    """What a skill is for; a name is made of the description when it is left out."""

    model_config = ConfigDict(extra="forbid", strict=True)
    description: Annotated[str, Field(min_length=1, max_length=10_000)]
    name: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    capabilities: Annotated[list[Annotated[str, Field(min_length=1, max_length=200)]], Field(max_length=20)] = []


class CreateSkillBody(BaseModel):
    """The skill that is wanted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"skill_request": {"description": "Convert amounts between currencies"}}]},
    )
    skill_request: SkillRequestBody


class BegunOut(BaseModel):
    """A session that has begun, and its first turn."""

    session_id: str
    mode: str
    turn: dict[str, Any]


class SessionOut(BegunOut):
    """A session as it stands."""

    phase: str
    initial_description: str
    question_count: int
    revision: int


class SkillOut(BaseModel):
    """A skill, and where its file is, relative to the home."""

    name: str
    description: str
    origin: str
    path: str


class StateSummary(BaseModel):
    """How far a session has come."""

    phase: str
    question_count: int


class AnsweredOut(BaseModel):
    """The next turn."""

    turn: dict[str, Any]
    state_summary: StateSummary


class AssembledOut(BaseModel):
    """The bot that was built."""

    result: dict[str, Any]


class SkillMadeOut(BaseModel):
    """The skill that was made."""

    result: SkillOut


class DeletedOut(BaseModel):
    """What is gone."""

    deleted: bool
    session_id: str


class DraftOut(BaseModel):
    """A draft in a list; phase and mode are null when it is damaged."""

    session_id: str
    initial_description: str
    phase: str | None
    mode: str | None
    revision: int
    updated_at: str


@router.post("/sessions", status_code=201, response_model=Envelope[BegunOut])
async def begin(body: SessionBody, served: Served, once: Called) -> Response:
    """Begin an interview about a new bot."""
    return _begun(await served.p.forge.start(body.description, body.mode, once=once))


@router.get("/sessions/{session_id}", response_model=Envelope[SessionOut])
async def show(session_id: str, served: Served) -> Response:
    """Show where a session stands, with the turn that waits for an answer."""
    session = await served.p.forge.get(session_id)
    return reply(session.wire(), links=_links(session.session_id), headers=_etag(session))


@router.post("/sessions/{session_id}/answer", response_model=Envelope[AnsweredOut])
async def answer(session_id: str, body: AnswerBody, served: Served, once: Called, if_match: IfMatch = None) -> Response:
    """Answer the pending turn, and get the next; nothing is built by it."""
    wanted = await _wanted(served, session_id, if_match)
    try:
        session = await served.p.forge.answer(session_id, body.answer, wanted, once=once)
    except Conflict as error:
        raise _stale(error, wanted) from error
    wire = session.wire()
    summary = {"phase": wire["phase"], "question_count": wire["question_count"]}
    data = {"turn": wire["turn"], "state_summary": summary}
    return reply(data, links=_links(session.session_id), headers=_etag(session))


@router.post("/sessions/{session_id}/assemble", response_model=Envelope[AssembledOut])
async def assemble(
    session_id: str, served: Served, once: Called, body: AssembleBody | None = None, if_match: IfMatch = None
) -> Response:
    """Build the bot; the draft is gone afterwards, and a second call gets the same result."""
    wanted = await _wanted(served, session_id, if_match)
    try:
        result = await served.p.forge.assemble(session_id, (body or AssembleBody()).config, wanted, once=once)
    except Conflict as error:
        raise _stale(error, wanted) from error
    return reply({"result": result.model_dump(mode="json")}, links={"bot": f"{BASE}/bots/{result.bot_slug}"})


@router.post("/sessions/{session_id}/reconfigure", status_code=201, response_model=Envelope[BegunOut])
async def reconfigure(session_id: str, body: ReconfigureBody, served: Served, once: Called) -> Response:
    """Begin an interview about a bot that is there; the session has the id of the path, which must be a new one."""
    return _begun(await served.p.forge.reconfigure(body.bot_slug, known_form(session_id), once=once))


@router.post("/sessions/{session_id}/create-skill", response_model=Envelope[SkillMadeOut])
async def create_skill(session_id: str, body: CreateSkillBody, served: Served, once: Called) -> Response:
    """Make a skill of a description, for all bots of the home; the same request again gets the same result."""
    made = await served.p.forge.create_skill(session_id, body.skill_request.model_dump(), once=once)
    links = {"skill": f"{BASE}/skills/{made.skill.name}", "session": f"{_SESSIONS}/{session_id}"}
    return reply({"result": made.made()}, links=links)


@router.delete("/sessions/{session_id}", response_model=Envelope[DeletedOut])
async def delete(session_id: str, served: Served, if_match: IfMatch = None) -> Response:
    """Remove the draft of a session; with `If-Match`, only as it was seen."""
    wanted = await _wanted(served, session_id, if_match)
    try:
        await served.p.forge.delete(session_id, wanted)
    except Conflict as error:
        raise _stale(error, wanted) from error
    return reply({"deleted": True, "session_id": session_id}, links={"drafts": f"{BASE}/builder/drafts"})


@router.get("/drafts", response_model=Envelope[list[DraftOut]])
async def list_drafts(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the sessions that are not finished, the newest change first."""
    found = await served.p.forge.drafts(limit=limit + 1, before=_place(from_cursor(cursor)))
    last = " ".join(map(str, found[limit - 1].summary.place)) if len(found) > limit else None
    return page([draft.wire() for draft in found[:limit]], last)


def _place(text: str | None) -> DraftPlace | None:
    """Return the place that a cursor held.

    Raises: Invalid
    """
    if text is None:
        return None
    updated_at_us, _, session_id = text.partition(" ")
    if not re.fullmatch("[0-9]{1,18}", updated_at_us):
        raise Invalid("This cursor is none that this list gave out; leave it out to begin anew.")
    return int(updated_at_us), session_id


def _begun(session: SessionView) -> Response:
    wire = session.wire()
    data = {name: wire[name] for name in ("session_id", "mode", "turn")}
    return reply(data, status=201, links=_links(session.session_id), headers=_etag(session))


async def _wanted(served: Surface, session_id: str, if_match: str | None) -> int | None:
    """Return the revision that a session must have; of several that would do, the one that it has.

    Raises: Invalid; Stale.
    """
    revisions = wanted_revisions(if_match)
    if revisions is None or len(revisions) == 1:
        return None if revisions is None else revisions[0]
    try:
        current = (await served.p.forge.get(session_id)).revision
    except NotFound:
        return revisions[0]  # the call itself says what became of the session
    return current if current in revisions else revisions[0]


def _stale(error: Conflict, wanted: int | None) -> Conflict:
    """Tell a client that has said what it had seen that this is not there any more."""
    if wanted is None or error.current is None:
        return error
    return Stale(error.detail, errors=error.errors, current=error.current)


def _etag(session: SessionView) -> dict[str, str]:
    return {"ETag": f'"{session.revision}"'}


def _links(session_id: str) -> dict[str, str]:
    here = f"{_SESSIONS}/{session_id}"
    return {
        "self": here,
        "answer": f"{here}/answer",
        "assemble": f"{here}/assemble",
        "socket": f"/ws/builder/{session_id}",
    }
