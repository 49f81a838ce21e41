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
    """One session, over one socket. Each call sends a frame and waits for its reply.

    `turn` and `revision` are what the server has sent last; an answer counts for that turn and for no later one.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._one_at_a_time = asyncio.Lock()
        self.turn: Turn | None = None
        self.revision: int | None = None

    async def start(self, description: str) -> "Turn":
        """Begin the interview, and return its first turn.

        Raises: Conflict, with the turn that is there as `current`, when it has begun already; Unavailable.
        """
        return await self._turn({"type": "start", "description": description})

    async def answer(self, answer: Any) -> "Turn":
        """Answer the last turn, and return the next.

        Raises: Invalid when the answer does not fit; NotFound; Conflict, with the turn that is there as `current`,
        when another client has answered; Unavailable.
        """
        return await self._turn({"type": "answer", "answer": answer})

    async def resume(self) -> "Turn":
        """Return the turn that waits for an answer.

        Raises: NotFound, also when the session is over; Unavailable.
        """
        return await self._turn({"type": "resume"})

    async def assemble(self, config: Mapping[str, Any] | None = None) -> "AssemblyResult":
        """Build the bot, as it was shown or as the config says.

        Raises: NotFound; Invalid; Conflict when the session is not ready, or has moved on; Unavailable.
        """
        return cast("AssemblyResult", (await self._asked({"type": "assemble", "config": config}))["result"])

    async def create_skill(
        self, description: str, *, name: str | None = None, capabilities: Sequence[str] | None = None
    ) -> "CreatedSkill":
        """Make a skill of a description.

        Raises: NotFound; Invalid; Conflict when there is another skill of that name; Unavailable.
        """
        request = {"name": name, "description": description, "capabilities": capabilities}
        reply = await self._asked({"type": "create_skill", "skill_request": request})
        made: CreatedSkill = reply["result"]
        return made

    async def _turn(self, frame: Mapping[str, Any]) -> "Turn":
        return cast("Turn", (await self._asked(frame))["turn"])

    async def _asked(self, frame: Mapping[str, Any]) -> dict[str, Any]:
        """Send a frame, and return its reply; what comes meanwhile is noted.

        Raises: the PerdureError that the reply tells; Invalid when it cannot be sent; Unavailable when the connection
        breaks.
        """
        frame_id = uuid4().hex
        text = to_json({**frame, "id": frame_id}).decode()
        async with self._one_at_a_time:
            try:
                await self._socket.send(text)
                reply = await self._received()
                while not _is_reply(reply, frame_id):
                    reply = await self._received()
            except ConnectionClosed as error:
                raise _broken(error) from error
        if reply["type"] == "error":
            raise told_by_frame(reply)
        return reply

    async def _received(self) -> dict[str, Any]:
        frame: dict[str, Any] = orjson.loads(await self._socket.recv())
        if "turn" in frame:
            self.turn, self.revision = frame["turn"], frame["revision"]
        return frame


def _is_reply(frame: Mapping[str, Any], frame_id: str) -> bool:
    """Tell whether a frame is what was waited for; an error that names no frame is about the only one on its way."""
    is_nameless = frame["type"] == "error" and "reply_to" not in frame
    return is_nameless or bool(frame.get("reply_to") == frame_id)


def _broken(error: ConnectionClosed) -> PerdureError:
    if error.rcvd is not None and error.rcvd.code == CloseCode.MESSAGE_TOO_BIG:
        return Invalid("This is more than one frame may hold. Open another chat and resume: every turn is kept.")
    return Unavailable("The connection broke. Open another chat and resume: every turn is kept.")
