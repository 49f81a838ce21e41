"""A chat with Forge over one open socket."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import orjson
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from perdure.client.connection import told_by_frame
from perdure.client.sending import to_json
from perdure.errors import Invalid, PerdureError, Unavailable

if TYPE_CHECKING:
    from perdure.app.wire.resources.bots import CreatedSkill
    from perdure.app.wire.resources.builder import AssemblyResult, Turn


class Chat:
    """The interview of one session over one socket. Each call sends a frame and waits for its reply.

    `turn` and `revision` are those of the last frame of the server; an answer is only valid for that turn.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._one_at_a_time = asyncio.Lock()
        self.turn: Turn | None = None
        self.revision: int | None = None

    async def start(self, description: str) -> "Turn":
        """Start the interview, and return its first turn.

        Raises: Conflict, with the pending turn as `current`, when it has already started; Unavailable.
        """
        return await self._turn({"type": "start", "description": description})

    async def answer(self, answer: Any) -> "Turn":
        """Answer the last turn, and return the next.

        Raises: Invalid when the answer does not fit; NotFound; Conflict, with the pending turn as `current`, when
        another client has answered; Unavailable.
        """
        return await self._turn({"type": "answer", "answer": answer})

    async def resume(self) -> "Turn":
        """Return the pending turn.

        Raises: NotFound, also when the session is over; Unavailable.
        """
        return await self._turn({"type": "resume"})

    async def assemble(self, config: Mapping[str, Any] | None = None) -> "AssemblyResult":
        """Build the bot, by default with the shown configuration.

        Raises: NotFound; Invalid; Conflict when the session is not ready, or is at another revision; Unavailable.
        """
        return cast("AssemblyResult", (await self._ask({"type": "assemble", "config": config}))["result"])

    async def create_skill(
        self, description: str, *, name: str | None = None, capabilities: Sequence[str] | None = None
    ) -> "CreatedSkill":
        """Create a skill from a description.

        Raises: NotFound; Invalid; Conflict when there is another skill of that name; Unavailable.
        """
        request = {"name": name, "description": description, "capabilities": capabilities}
        reply = await self._ask({"type": "create_skill", "skill_request": request})
        made: CreatedSkill = reply["result"]
        return made

    async def _turn(self, frame: Mapping[str, Any]) -> "Turn":
        return cast("Turn", (await self._ask(frame))["turn"])

    async def _ask(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        """Send a frame, and return its reply; the turns of other frames are stored.

        Raises: the PerdureError of the reply; Invalid when the frame cannot be sent; Unavailable when the connection
        breaks.
        """
        frame_id = uuid4().hex
        text = to_json({**frame, "id": frame_id}).decode()
        async with self._one_at_a_time:
            try:
                await self._socket.send(text)
                reply = await self._receive()
                while not _is_reply(reply, frame_id):
                    reply = await self._receive()
            except ConnectionClosed as error:
                raise _broken(error) from error
        if reply["type"] == "error":
            raise told_by_frame(reply)
        return reply

    async def _receive(self) -> dict[str, Any]:
        frame: dict[str, Any] = orjson.loads(await self._socket.recv())
        if "turn" in frame:
            self.turn, self.revision = frame["turn"], frame["revision"]
        return frame


def _is_reply(frame: Mapping[str, Any], frame_id: str) -> bool:
    """Return whether a frame is the awaited reply; an error without a frame id refers to the only pending frame."""
    is_nameless = frame["type"] == "error" and "reply_to" not in frame
    return is_nameless or bool(frame.get("reply_to") == frame_id)


def _broken(error: ConnectionClosed) -> PerdureError:
    if error.rcvd is not None and error.rcvd.code == CloseCode.MESSAGE_TOO_BIG:
        return Invalid("The frame is too large. Open another chat and resume: every turn is stored.")
    return Unavailable("The connection broke. Open another chat and resume: every turn is stored.")
