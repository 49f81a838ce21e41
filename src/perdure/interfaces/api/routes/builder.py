"""The routes for interviews of Forge; a socket of the same session works on the same draft."""

import re
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from perdure.app.builder.sessions import SessionView
from perdure.app.builder.values import DraftPlace
from perdure.app.wire.resources.bots import SkillCreation
from perdure.app.wire.resources.builder import (
    Assembly,
    DeletedSession,
    Draft,
    NewSession,
    NextTurn,
    PastChoice,
    RemovedChoices,
    Session,
    SessionChanges,
)
from perdure.errors import Conflict, Invalid, NotFound
from perdure.interfaces.api.dependencies import (
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
from perdure.interfaces.api.envelope import from_cursor, page, reply
from perdure.interfaces.api.problems import Stale
from perdure.interfaces.api.schemas.builder import (
    AnswerBody,
    AssembleBody,
    CreateSkillBody,
    ReconfigureBody,
    SessionBody,
)
from perdure.interfaces.api.schemas.envelopes import Envelope, Page, PageMeta, with_etag
from perdure.interfaces.api.schemas.problems import refusals

router = APIRouter(prefix="/builder", tags=["builder"], route_class=JsonRoute)

_SESSIONS = f"{BASE}/builder/sessions"


@router.post(
    "/sessions",
    operation_id="start_session",
    status_code=201,
    response_model=Envelope[NewSession],
    responses=refusals(404, 410) | with_etag(201),
)
async def begin(body: SessionBody, served: Served, once: Called) -> Response:
    """Start a session that builds a new bot."""
    return _begun(await served.p.forge.start(body.description, body.mode, engine=body.engine, once=once))


@router.get(
    "/sessions/{session_id}",
    operation_id="get_session",
    response_model=Envelope[Session],
    responses=refusals(409, 410) | with_etag(),
)
async def show(
    session_id: str,
    served: Served,
    prefix: Annotated[bool, Query(description="Also accept a unique prefix of an id.")] = False,
) -> Response:
    """Return a session with its pending turn."""
    forge = served.p.forge
    return _whole(await forge.get(await forge.find(session_id) if prefix else session_id))


@router.post(
    "/sessions/{session_id}/resume",
    operation_id="resume_session",
    response_model=Envelope[Session],
    responses=refusals(410) | with_etag(),
)
async def resume(session_id: str, served: Served) -> Response:
    """Return a session to continue. Unlike `GET`, this is 404 if the session changes a bot that was deleted."""
    return _whole(await served.p.forge.resume(session_id))


@router.get(
    "/sessions/{session_id}/changes",
    operation_id="get_session_changes",
    response_model=Envelope[SessionChanges],
    responses=refusals(409, 410),
)
async def changes(session_id: str, served: Served) -> Response:
    """Return the changes of files that building the bot would make. A session that is not ready is 409."""
    return reply((await served.p.forge.changes(session_id)).wire(), links=_links(session_id))


@router.post(
    "/sessions/{session_id}/answer",
    operation_id="answer_turn",
    response_model=Envelope[NextTurn],
    responses=refusals(410) | with_etag(),
)
async def answer(session_id: str, body: AnswerBody, served: Served, once: Called, if_match: IfMatch = None) -> Response:
    """Answer the pending turn and return the next one. An answer never builds the bot."""
    wanted = await _wanted(served, session_id, if_match)
    try:
        session = await served.p.forge.answer(session_id, body.answer, wanted, engine=body.engine, once=once)
    except Conflict as error:
        raise _stale(error, wanted) from error
    return reply(session.next_wire(), links=_links(session.session_id), headers=_etag(session))


@router.post(
    "/sessions/{session_id}/assemble",
    operation_id="assemble_bot",
    response_model=Envelope[Assembly],
    responses=refusals(410),
)
async def assemble(
    session_id: str, served: Served, once: Called, body: AssembleBody | None = None, if_match: IfMatch = None
) -> Response:
    """Build the bot. This ends the session; a second call returns the same result."""
    wanted = await _wanted(served, session_id, if_match)
    try:
        result = await served.p.forge.assemble(session_id, (body or AssembleBody()).config, wanted, once=once)
    except Conflict as error:
        raise _stale(error, wanted) from error
    return reply({"result": result.model_dump(mode="json")}, links={"bot": f"{BASE}/bots/{result.bot_slug}"})


@router.post(
    "/sessions/{session_id}/reconfigure",
    operation_id="reconfigure_bot",
    status_code=201,
    response_model=Envelope[NewSession],
    responses=refusals(410) | with_etag(201),
)
async def reconfigure(session_id: str, body: ReconfigureBody, served: Served, once: Called) -> Response:
    """Start a session that changes an existing bot (default: the bot that this session built).

    The session has the id of the path, or a new id if that session has already built a bot.
    """
    begun = await served.p.forge.reconfigure_from(
        session_id, body.bot_slug, body.description, engine=body.engine, once=once
    )
    return _begun(begun)


@router.post(
    "/sessions/{session_id}/create-skill",
    operation_id="create_skill",
    response_model=Envelope[SkillCreation],
    responses=refusals(410),
)
async def create_skill(session_id: str, body: CreateSkillBody, served: Served, once: Called) -> Response:
    """Create a skill for the bots of the home from a description. Repeating the request returns the same result."""
    made = await served.p.forge.create_skill(session_id, body.skill_request.model_dump(), once=once)
    links = {"skill": f"{BASE}/skills/{made.skill.name}", "session": f"{_SESSIONS}/{session_id}"}
    return reply({"result": made.created_wire()}, links=links)


@router.delete(
    "/sessions/{session_id}",
    operation_id="delete_session",
    response_model=Envelope[DeletedSession],
    responses=refusals(410),
)
async def delete(session_id: str, served: Served, if_match: IfMatch = None) -> Response:
    """Delete an unfinished session. With `If-Match`, only at that revision."""
    wanted = await _wanted(served, session_id, if_match)
    try:
        await served.p.forge.delete(session_id, wanted)
    except Conflict as error:
        raise _stale(error, wanted) from error
    return reply({"deleted": True, "session_id": session_id}, links={"drafts": f"{BASE}/builder/drafts"})


@router.get("/drafts", operation_id="list_drafts", response_model=Page[Draft, PageMeta])
async def list_drafts(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the unfinished sessions, last changed first."""
    found = await served.p.forge.drafts(limit=limit + 1, before=_place(from_cursor(cursor)))
    last = " ".join(map(str, found[limit - 1].summary.place)) if len(found) > limit else None
    return page([draft.wire() for draft in found[:limit]], last)


@router.get("/choices", operation_id="list_choices", response_model=Page[PastChoice, PageMeta])
async def list_choices(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the choices made for bots, from which suggestions are derived, newest first."""
    found = await served.p.forge.choices(limit=limit + 1, before=_place(from_cursor(cursor)))
    last = " ".join(map(str, found[limit - 1].entry.place)) if len(found) > limit else None
    return page([choice.wire() for choice in found[:limit]], last)


@router.delete("/choices", operation_id="clear_choices", response_model=Envelope[RemovedChoices])
async def clear_choices(served: Served) -> Response:
    """Delete all remembered choices. The bots do not change."""
    return reply({"removed": await served.p.forge.clear_choices()}, links={"choices": f"{BASE}/builder/choices"})


@router.delete("/choices/{choice_id}", operation_id="remove_choice", response_model=Envelope[RemovedChoices])
async def remove_choice(choice_id: str, served: Served) -> Response:
    """Delete one remembered choice. The bot does not change."""
    await served.p.forge.remove_choice(choice_id)
    return reply({"removed": 1}, links={"choices": f"{BASE}/builder/choices"})


def _place(text: str | None) -> DraftPlace | None:
    """Return the position that a cursor encodes.

    Raises: Invalid
    """
    if text is None:
        return None
    updated_at_us, _, session_id = text.partition(" ")
    if not re.fullmatch("[0-9]{1,18}", updated_at_us):
        raise Invalid("Unknown cursor: it is not from this list. Omit it to start at the beginning.")
    return int(updated_at_us), session_id


def _whole(session: SessionView) -> Response:
    return reply(session.wire(), links=_links(session.session_id), headers=_etag(session))


def _begun(session: SessionView) -> Response:
    return reply(session.new_wire(), status=201, links=_links(session.session_id), headers=_etag(session))


async def _wanted(served: Surface, session_id: str, if_match: str | None) -> int | None:
    """Return the revision that a session must have; if several are accepted, its current one.

    Raises: Invalid; Stale.
    """
    revisions = wanted_revisions(if_match)
    if revisions is None or len(revisions) == 1:
        return None if revisions is None else revisions[0]
    try:
        current = (await served.p.forge.get(session_id)).revision
    except NotFound:
        return revisions[0]  # the call itself reports the state of the session
    return current if current in revisions else revisions[0]


def _stale(error: Conflict, wanted: int | None) -> Conflict:
    """Return the error of a conditional request that found another revision."""
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
