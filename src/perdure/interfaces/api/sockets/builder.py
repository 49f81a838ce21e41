"""The Forge chat: one socket speaks to one session, and every turn is saved before it is sent."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, WebSocket
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocketDisconnect

from perdure.app.builder.sessions import SessionOver, SessionView, known_form
from perdure.app.builder.skills import SkillView
from perdure.errors import Conflict, Invalid, KeyTaken, NotFound, PerdureError, Unavailable
from perdure.interfaces.api.connections import Line
from perdure.interfaces.api.dependencies import Served, Surface
from perdure.interfaces.api.json_body import MOST_ON_LOOP_BYTES, parse_json
from perdure.interfaces.api.sockets.push import refuse, until_ended
from perdure.kernel.ports import IdempotentCall
from perdure.text.strict_json import SYNTAX
from perdure.text.strict_json import parse_json as parse_strictly

router = APIRouter()

_MOST_REPLIES = 64
"""Maximum number of replies that a socket keeps for frames that are sent again; the oldest is dropped first."""

_LONGEST_ID = 100

Plain = dict[str, Any]


class _Frame(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: Annotated[str, Field(min_length=1, max_length=_LONGEST_ID, pattern=r"^[!-~]+$")] | None = None


class Start(_Frame):
    """Begin the interview."""

    type: Literal["start", "start_bot"]
    description: Annotated[str, Field(max_length=100_000)]
    mode: Literal["bot"] = "bot"


class StartSkill(_Frame):
    """Create a skill from a description; no session is needed."""

    type: Literal["start_skill"]
    description: Annotated[str, Field(max_length=100_000)]
    name: str | None = None
    capabilities: list[str] | None = None


class Reconfigure(_Frame):
    """Begin an interview about an existing bot: the one that this session made, unless another is named."""

    type: Literal["reconfigure"]
    bot_slug: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    description: Annotated[str, Field(max_length=100_000)] = ""


class Answer(_Frame):
    """Answer the pending turn."""

    type: Literal["answer"]
    answer: Any


class Assemble(_Frame):
    """Build the bot."""

    type: Literal["assemble"]
    config: Plain | None = None


class CreateSkill(_Frame):
    """Make a skill of a description."""

    type: Literal["create_skill"]
    skill_request: Plain


class Resume(_Frame):
    """Ask for the pending turn again."""

    type: Literal["resume"]


class Ping(_Frame):
    """Ask whether anybody is there."""

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
    """Talk about one session; a draft that is there is taken up where it was left."""
    try:
        known = known_form(session_id)
    except NotFound as error:
        await refuse(socket, error)
        return
    await socket.accept()
    with served.lines.open() as line:
        await until_ended(socket, line, _Chat(socket, served, known).run(line))


@dataclass(frozen=True)
class _Replied:
    """A frame with an id, and the reply that it gets however often it is sent on this socket.

    This is beside the keys of `app/idempotency.py`, which `_once` gives to frames that change something. A key is
    stored, holds for every socket and process, and makes a change once; a repetition is answered with what there is
    now, and a rejected call leaves its key free, so that the repetition is executed. On one socket the latter would be
    wrong: the rejection of an answer names the turn that is pending now, and the same frame sent again would answer
    that turn, which its sender had not seen. So here a repetition gets the very reply, a rejection too.
    """

    frame: Frame
    reply: Plain


class _Chat:
    """One socket: reads a frame, does what it says, sends the reply, and reads the next."""

    def __init__(self, socket: WebSocket, served: Surface, session_id: str) -> None:
        self._socket = socket
        self._forge = served.p.forge
        self._skills = served.p.skills
        self._session_id = session_id
        self._revision: int | None = None
        """That of the last turn that was sent here."""
        self._replies: dict[str, _Replied] = {}

    async def run(self, line: Line) -> None:
        found = await self._found()
        if found is not None:
            await self._send(found)
        while line.ending is None:
            await self._send(await self._reply(await _received(self._socket)))

    async def _found(self) -> Plain | None:
        """Return what a client is told on connect: the pending turn, or the bot that the session has made."""
        try:
            return _resumed(await self._forge.get(self._session_id))
        except SessionOver:
            return await self._done(Assemble(type="assemble"))  # builds nothing: the bot is there
        except NotFound:
            return None
        except PerdureError as error:
            return _error(error)

    async def _reply(self, received: str | None) -> Plain:
        """Return the reply to a frame; whatever is wrong with it, the socket stays usable."""
        try:
            frame = _read(await _said(received))
        except PerdureError as error:
            return _error(error) | _reply_to(received)
        if frame.id is None:
            return await self._done(frame)
        known = self._replies.get(frame.id)
        if known is not None and known.frame != frame:
            taken = KeyTaken(f"The id {frame.id!r} was used for another frame. Use a new one.")
            return _error(taken) | {"reply_to": frame.id}
        if known is None:
            known = _Replied(frame, {**await self._done(frame), "reply_to": frame.id})
            if known.reply.get("code") != Unavailable.code:  # nothing was done, and may be when it is sent again
                self._replies[frame.id] = known
            if len(self._replies) > _MOST_REPLIES:
                del self._replies[next(iter(self._replies))]
        return known.reply

    async def _done(self, frame: Frame) -> Plain:
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
                return {"type": "skill_created", "result": (await self._create_skill(frame)).made()}
            case _:
                return await self._talk(frame)

    async def _talk(self, frame: Start | Reconfigure | Answer) -> Plain:
        """Begin a session, or answer; a change of the bot that this session made is a session of its own."""
        once = self._once(frame)
        match frame:
            case Start():
                return _turn(await self._forge.start(frame.description, frame.mode, self._session_id, once=once))
            case Answer():
                return _turn(await self._forge.answer(self._session_id, frame.answer, self._revision, once=once))
            case Reconfigure():
                begun = await self._forge.reconfigure_from(
                    self._session_id, frame.bot_slug, frame.description, once=once
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
        """Name the call of a frame with an id, so that it is done once, also when it is sent again on a new socket."""
        if frame.id is None:
            return None
        said = orjson.dumps(frame.model_dump(), option=orjson.OPT_SORT_KEYS)
        key = f"socket/{self._session_id}/{frame.id}"
        return IdempotentCall(key, f"{frame.type} {self._session_id}", hashlib.sha256(said).digest())

    async def _send(self, frame: Mapping[str, Any]) -> None:
        self._revision = frame.get("revision", self._revision)
        await self._socket.send_text(orjson.dumps(frame).decode())


async def _received(socket: WebSocket) -> str | None:
    """Return the text of the next frame; None for one of bytes.

    Raises: WebSocketDisconnect
    """
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text: str | None = message.get("text")
    return text


async def _said(received: str | None) -> Any:
    """Return what the text of a frame says.

    Raises: Invalid; BrokenJson.
    """
    if received is None:
        raise Invalid("A frame of text was expected, found one of bytes.")
    return await parse_json(received.encode("utf-8", "surrogatepass"), "The frame")


def _reply_to(received: str | None) -> Plain:
    """Return the id of a rejected frame, whatever else is wrong with it: its sender waits for a reply to that id.

    A large frame is not read a second time: that would be done on the event loop.
    """
    try:
        said = (
            parse_strictly(received or "", "The frame", SYNTAX) if len(received or "") <= MOST_ON_LOOP_BYTES else None
        )
    except Invalid:
        return {}
    given = said.get("id") if isinstance(said, dict) else None
    is_id = isinstance(given, str | int) and len(str(given)) <= _LONGEST_ID
    return {"reply_to": given} if is_id else {}


def _read(said: Any) -> Frame:
    """Read a frame.

    Raises: Invalid
    """
    if isinstance(said, dict) and isinstance(said.get("type"), str):
        said = {**said, "type": _SPELLINGS.get(said["type"], said["type"])}
    try:
        return _FRAME.validate_python(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Invalid(f"The frame does not fit: {where + ': ' if where else ''}{first['msg']}.") from None


def _turn(session: SessionView) -> Plain:
    return {"type": "turn", "turn": session.turn_wire(), "revision": session.revision}


def _resumed(session: SessionView) -> Plain:
    """Return the pending turn with all that a page needs to draw itself again."""
    return {"type": "turn", **session.wire()}


def _error(error: PerdureError) -> Plain:
    frame: Plain = {"type": "error", "code": error.code, "message": error.detail}
    current = error.current if isinstance(error, Conflict) else None
    if current is not None:
        frame |= {"turn": current["turn"], "revision": current["revision"]}
    return frame
