"""The frames that a client sends: received, parsed strictly, and named by their ids when they are rejected."""

from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from perdure.errors import Invalid
from perdure.interfaces.api.json_body import MOST_ON_LOOP_BYTES, parse_json
from perdure.text.strict_json import SYNTAX
from perdure.text.strict_json import parse_json as parse_strictly

LONGEST_ID = 100
"""Maximum number of characters of the id of a frame."""


async def receive(socket: WebSocket) -> str | None:
    """Return the text of the next frame; None for a binary frame.

    Raises: WebSocketDisconnect
    """
    message = await socket.receive()
    if message["type"] == "websocket.disconnect":
        raise WebSocketDisconnect(message.get("code", 1000))
    text: str | None = message.get("text")
    return text


async def parse(received: str | None) -> Any:
    """Parse the text of a frame.

    Raises: Invalid; BrokenJson.
    """
    if received is None:
        raise Invalid("Expected a text frame, got a binary frame.")
    return await parse_json(received.encode("utf-8", "surrogatepass"), "The frame")


def reply_to(received: str | None) -> dict[str, Any]:
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
    is_id = isinstance(given, str | int) and len(str(given)) <= LONGEST_ID
    return {"reply_to": given} if is_id else {}
