"""The socket for an interview of Forge; every turn is stored before it is sent."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perdure.app.builder.sessions import SessionOver, SessionView, stored_form
from perdure.app.builder.skills import SkillView
from perdure.app.builder.vocabulary import EngineName
from perdure.app.idempotency import IdempotentCall
from perdure.errors import Conflict, Invalid, KeyTaken, NotFound, PerdureError, Unavailable
from perdure.interfaces.api.connections import LiveConnection
from perdure.interfaces.api.dependencies import Served, Surface
from perdure.interfaces.api.sockets.push import refuse, until_ended
from perdure.interfaces.api.sockets.received import LONGEST_ID, parse, receive, reply_to

router = APIRouter()

_MOST_REPLIES = 64
"""Maximum number of replies that a socket keeps for repeated frames; the oldest is dropped first."""

Plain = dict[str, Any]


class _Frame(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=r"^[!-~]+$")] | None = None


class Start(_Frame):
    """Start the interview."""

    type: Literal["start", "start_bot"]
    description: Annotated[str, Field(max_length=100_000)]
    mode: Literal["bot"] = "bot"
    engine: EngineName | None = None


class StartSkill(_Frame):
    """Create a skill from a description, without a session."""

    type: Literal["start_skill"]
    description: Annotated[str, Field(max_length=100_000)]
    name: str | None = None
    capabilities: list[str] | None = None


class Reconfigure(_Frame):
    """Start an interview about an existing bot (default: the bot that this session built)."""

    type: Literal["reconfigure"]
    bot_slug: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    description: Annotated[str, Field(max_length=100_000)] = ""
    engine: EngineName | None = None


class Answer(_Frame):
    """Answer the pending turn."""

    type: Literal["answer"]
    answer: Any
    engine: EngineName | None = None


class Assemble(_Frame):
    """Build the bot."""

    type: Literal["assemble"]
    config: Plain | None = None


class CreateSkill(_Frame):
    """Create a skill from a description, in this session."""

    type: Literal["create_skill"]
    skill_request: Plain


class Resume(_Frame):
    """Request the pending turn again."""

    type: Literal["resume"]


class Ping(_Frame):
    """Request a pong."""

    type: Literal["ping"]


Frame = Annotated[
    Start | StartSkill | Reconfigure | Answer | Assemble | CreateSkill | Resume | Ping, Field(discriminator="type")
]
_FRAME: TypeAdapter[Frame] = TypeAdapter(Frame)
_TYPES = frozenset(
    {"start", "start_bot", "start_skill", "reconfigure", "answer", "assemble", "create_skill", "resume", "ping"}
)
_SPELLINGS = {"".join(map(str.capitalize, name.split("_"))): name for name in _TYPES}
"""The types of frames in PascalCase."""


@router.websocket("/ws/builder/{session_id}")
async def chat(socket: WebSocket, session_id: str, served: Served) -> None:
    """Run the interview of one session; an existing draft is resumed at its pending turn."""
    try:
        known = stored_form(session_id)
    except NotFound as error:
        await refuse(socket, error)
        return
    await socket.accept()
    with served.connections.open() as connection:
        await until_ended(socket, connection, _Chat(socket, served, known).run(connection))


@dataclass(frozen=True)
class _Replied:
    """A frame with an id and its reply, which repetitions of the frame on this socket get again.

    This complements the keys of `app/idempotency.py`, which `_once` assigns to frames that change something. A key is
    stored and valid for all sockets and processes; a repetition returns the present state, and after a rejected call it
    is executed. On one socket the latter would be wrong: the rejection of an answer contains the turn that is pending
    now, and a repetition would answer that turn, which its sender had not seen. So a repetition gets the same reply
    here, even a rejection.
    """

    frame: Frame
    reply: Plain


class _Chat:
    """One socket: reads a frame, executes it, sends the reply, and reads the next frame."""

    def __init__(self, socket: WebSocket, served: Surface, session_id: str) -> None:
        self._socket = socket
        self._forge = served.p.forge
        self._skills = served.p.skills
        self._session_id = session_id
        self._revision: int | None = None
        """The revision of the last turn that was sent on this socket."""
        self._replies: dict[str, _Replied] = {}

    async def run(self, connection: LiveConnection) -> None:
        found = await self._first_frame()
        if found is not None:
            await self._send(found)
        while connection.ending is None:
            await self._send(await self._reply(await receive(self._socket)))

    async def _first_frame(self) -> Plain | None:
        """Return the first frame of a connection: the pending turn, or the bot that the session built."""
        try:
            return _resumed(await self._forge.get(self._session_id))
        except SessionOver:
            return await self._reply_of(Assemble(type="assemble"))  # returns the existing bot
        except NotFound:
            return None
        except PerdureError as error:
            return _error(error)

    async def _reply(self, received: str | None) -> Plain:
        """Return the reply to a frame; an invalid frame gets an error, and the socket stays open."""
        try:
            frame = _read(await parse(received))
        except PerdureError as error:
            return _error(error) | reply_to(received)
        if frame.id is None:
            return await self._reply_of(frame)
        known = self._replies.get(frame.id)
        if known is not None and known.frame != frame:
            taken = KeyTaken(f"The id {frame.id!r} was used for another frame. Use a new one.")
            return _error(taken) | {"reply_to": frame.id}
        if known is None:
            known = _Replied(frame, {**await self._reply_of(frame), "reply_to": frame.id})
            if known.reply.get("code") != Unavailable.code:  # nothing was executed, so a repetition may be
                self._replies[frame.id] = known
            if len(self._replies) > _MOST_REPLIES:
                del self._replies[next(iter(self._replies))]
        return known.reply

    async def _reply_of(self, frame: Frame) -> Plain:
        try:
            return await self._do(frame)
        except PerdureError as error:
            return _error(error)

    async def _do(self, frame: Frame) -> Plain:
        match frame:
            case Ping():
                return {"type": "pong"}
            case Resume():
                return _resumed(await self._forge.get(self._session_id))
            case Assemble():
                result = await self._forge.assemble(self._session_id, frame.config, self._revision)
                return {"type": "assembled", "result": result.model_dump(mode="json")}
            case CreateSkill() | StartSkill():
                return {"type": "skill_created", "result": (await self._create_skill(frame)).created_wire()}
            case _:
                return await self._talk(frame)

    async def _talk(self, frame: Start | Reconfigure | Answer) -> Plain:
        """Start a session, or answer; changing the bot that this session built starts a new session."""
        once = self._once(frame)
        match frame:
            case Start():
                begun = await self._forge.start(
                    frame.description, frame.mode, self._session_id, engine=frame.engine, once=once
                )
                return _turn(begun)
            case Answer():
                answered = await self._forge.answer(
                    self._session_id, frame.answer, self._revision, engine=frame.engine, once=once
                )
                return _turn(answered)
            case Reconfigure():
                begun = await self._forge.reconfigure_from(
                    self._session_id, frame.bot_slug, frame.description, engine=frame.engine, once=once
                )
                self._session_id = begun.session_id
                return {**_turn(begun), "session_id": begun.session_id}

    async def _create_skill(self, frame: CreateSkill | StartSkill) -> SkillView:
        once = self._once(frame)
        if isinstance(frame, CreateSkill):
            return await self._forge.create_skill(self._session_id, frame.skill_request, once=once)
        request = frame.model_dump(include={"name", "description", "capabilities"})
        return await self._skills.create(request, once=once)

    def _once(self, frame: Frame) -> IdempotentCall | None:
        """Return the idempotent call of a frame with an id, so that a repetition on a new socket is recognised."""
        if frame.id is None:
            return None
        said = orjson.dumps(frame.model_dump(), option=orjson.OPT_SORT_KEYS)
        key = f"socket/{self._session_id}/{frame.id}"
        return IdempotentCall(key, f"{frame.type} {self._session_id}", hashlib.sha256(said).digest())

    async def _send(self, frame: Mapping[str, Any]) -> None:
        self._revision = frame.get("revision", self._revision)
        await self._socket.send_text(orjson.dumps(frame).decode())


def _read(said: Any) -> Frame:
    """Validate a frame.

    Raises: Invalid
    """
    if isinstance(said, dict) and isinstance(said.get("type"), str):
        said = {**said, "type": _SPELLINGS.get(said["type"], said["type"])}
    try:
        return _FRAME.validate_python(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Invalid(f"Invalid frame: {where + ': ' if where else ''}{first['msg']}.") from None


def _turn(session: SessionView) -> Plain:
    return {"type": "turn", "turn": session.turn_wire(), "revision": session.revision}


def _resumed(session: SessionView) -> Plain:
    """Return the pending turn with all data that a page needs to restore its state."""
    return {"type": "turn", **session.wire()}


def _error(error: PerdureError) -> Plain:
    frame: Plain = {"type": "error", "code": error.code, "message": error.detail}
    current = error.current if isinstance(error, Conflict) else None
    if current is not None:
        frame |= {"turn": current["turn"], "revision": current["revision"]}
    return frame
