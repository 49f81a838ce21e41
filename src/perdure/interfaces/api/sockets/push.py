"""Helpers of sockets: reject an upgrade, close a socket, and push texts."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from perdure.errors import Damaged, NotFound, PerdureError
from perdure.interfaces.api.connections import CloseCode, LiveConnection
from perdure.interfaces.api.envelope import problem
from perdure.interfaces.api.sockets.received import receive

log = logging.getLogger(__name__)


async def refuse(socket: WebSocket, error: PerdureError) -> None:
    """Reject an upgrade with a problem."""
    await socket.send_denial_response(problem(error))


async def until_ended(socket: WebSocket, connection: LiveConnection, *work: Coroutine[Any, Any, None]) -> None:
    """Run tasks until one is done, the client leaves, or the connection must end; then close the socket."""
    tasks = [asyncio.create_task(part) for part in (*work, connection.ended())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, PerdureError):
            log.warning("closing a socket: %s", result.detail)
            connection.end(_close_code(result))
        elif isinstance(result, Exception) and not isinstance(result, WebSocketDisconnect):
            raise result
    why = connection.ending or CloseCode.DONE
    with suppress(RuntimeError, WebSocketDisconnect):  # the client has closed it
        await socket.close(why, why.name.lower())


def _close_code(error: PerdureError) -> CloseCode:
    match error:
        case NotFound():
            return CloseCode.GONE
        case Damaged():
            return CloseCode.DAMAGED
        case _:
            return CloseCode.LATER


async def tell(socket: WebSocket, connection: LiveConnection, texts: AsyncIterator[str]) -> None:
    """Send texts until there are no more; each is produced after the one before was sent, which bounds the memory."""
    await until_ended(socket, connection, _send(socket, texts), _hear(socket))


class Replies(Protocol):
    """What answers the frames that a client sends on a socket that follows something."""

    async def reply(self, received: str | None) -> str:
        """Return the reply to a frame of text; None stands for one of bytes. It raises nothing."""
        ...


async def converse(socket: WebSocket, connection: LiveConnection, texts: AsyncIterator[str], replies: Replies) -> None:
    """Send texts until there are no more, as `tell` does, and reply to what the client sends meanwhile."""
    sending = asyncio.Lock()
    await until_ended(socket, connection, _send(socket, texts, sending), _answer(socket, replies, sending))


async def _answer(socket: WebSocket, replies: Replies, sending: asyncio.Lock) -> None:
    while True:
        reply = await replies.reply(await receive(socket))
        async with sending:
            await socket.send_text(reply)


async def _send(socket: WebSocket, texts: AsyncIterator[str], sending: asyncio.Lock | None = None) -> None:
    sending = sending or asyncio.Lock()
    async for text in texts:
        async with sending:
            await socket.send_text(text)


async def _hear(socket: WebSocket) -> None:
    """Read and ignore messages until the client leaves."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
