"""What a client says on the socket of a goal: messages, stops and decisions, each durable before its `ack`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from perdure.app.wire.resources.vocabulary import PersonDecision
from perdure.app.wire.shown import require_hash
from perdure.errors import Invalid, PerdureError
from perdure.interfaces.api.dependencies import Surface
from perdure.interfaces.api.schemas.chat import MessageText
from perdure.interfaces.api.schemas.goals import ShownSha256
from perdure.interfaces.api.sockets.received import LONGEST_ID, parse, reply_to

_MOST_ACKS = 64
"""Maximum number of acks that a socket keeps for frames that are sent again; the oldest is dropped first."""


class _Ping(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    type: Literal["ping"]


class _Command(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    id: Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=r"^[!-~]+$")]


class _Message(_Command):
    type: Literal["message"]
    text: MessageText


class _Stop(_Command):
    type: Literal["stop"]


class _Decision(_Command):
    type: Literal["decision"]
    call_id: Annotated[str, Field(max_length=500)] | None = None
    decision: PersonDecision
    value: Any = None
    shown_sha256: ShownSha256 = None
    scope: Literal["once"] = "once"


_FRAME: TypeAdapter[_Ping | _Message | _Stop | _Decision] = TypeAdapter(
    Annotated[_Ping | _Message | _Stop | _Decision, Field(discriminator="type")]
)


class GoalCommands:
    """Does what the frames of one socket say about its goal; a frame that is sent again gets the same ack."""

    def __init__(self, served: Surface, goal_id: str) -> None:
        self._served = served
        self._goal_id = goal_id
        self._acks: dict[str, str] = {}

    async def reply(self, received: str | None) -> str:
        """Return the reply to a frame; whatever is wrong with it, the socket stays usable."""
        try:
            frame = _read(await parse(received))
            if isinstance(frame, _Ping):
                return _text({"type": "pong"})
            return await self._acked(frame)
        except PerdureError as error:
            return _text({"type": "error", "code": error.code, "message": error.detail, **reply_to(received)})

    async def _acked(self, frame: _Message | _Stop | _Decision) -> str:
        """Do what a frame says, once for its id, and return the ack.

        A known id is posted again: the store rejects it when it names something else now.
        """
        await self._do(frame)
        if frame.id not in self._acks:
            posted = await self._served.p.goals.conversations.posted(self._goal_id, frame.id)
            self._acks[frame.id] = _text({"type": "ack", "reply_to": frame.id, "seq": posted["seq"]})
        if len(self._acks) > _MOST_ACKS:
            del self._acks[next(iter(self._acks))]
        return self._acks[frame.id]

    async def _do(self, frame: _Message | _Stop | _Decision) -> None:
        goals, worker = self._served.p.goals, self._served.worker
        match frame:
            case _Message():
                goal = await goals.conversations.say(self._goal_id, frame.text, key=frame.id)
                await worker.resume_posted(goal)
            case _Stop():
                await goals.conversations.stop(self._goal_id, key=frame.id)
            case _Decision():
                require_hash(frame.decision, frame.shown_sha256)
                given = {"call_id": frame.call_id, "value": frame.value, "shown_sha256": frame.shown_sha256}
                await goals.decide(self._goal_id, frame.decision, **given, key=frame.id)
                worker.poll_soon()


def _read(said: Any) -> _Ping | _Message | _Stop | _Decision:
    """Read a frame.

    Raises: Invalid
    """
    try:
        return _FRAME.validate_python(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        place = f"{where}: " if where else ""
        raise Invalid(f"The frame does not fit: {place}{first['msg']}.") from None


def _text(frame: Mapping[str, object]) -> str:
    return orjson.dumps(frame).decode()
