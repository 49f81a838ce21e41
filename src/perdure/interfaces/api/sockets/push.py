"""What sockets have in common: how one is refused, how it ends, and how one works that only tells."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from perdure.errors import Damaged, NotFound, PerdureError
from perdure.interfaces.api.connections import Ending, Line
from perdure.interfaces.api.envelope import problem

log = logging.getLogger(__name__)


async def refuse(socket: WebSocket, error: PerdureError) -> None:
    """Answer an upgrade with a problem instead."""
    await socket.send_denial_response(problem(error))


async def until_ended(socket: WebSocket, line: Line, *work: Coroutine[Any, Any, None]) -> None:
    """Work until one of the parts is done, the client goes, or the connection has to end; then close it."""
    tasks = [asyncio.create_task(part) for part in (*work, line.ended())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, PerdureError):
            log.warning("a socket ends: %s", result.detail)
            line.end(_ending(result))
        elif isinstance(result, Exception) and not isinstance(result, WebSocketDisconnect):
            raise result
    why = line.ending or Ending.DONE
    with suppress(RuntimeError, WebSocketDisconnect):  # the client was quicker
        await socket.close(why, why.name.lower())


def _ending(error: PerdureError) -> Ending:
    match error:
        case NotFound():
            return Ending.GONE
        case Damaged():
            return Ending.DAMAGED
        case _:
            return Ending.LATER


async def tell(socket: WebSocket, line: Line, texts: AsyncIterator[str]) -> None:
    """Send texts until there are no more; each is asked for when the one before was taken, so that nothing piles up."""
    await until_ended(socket, line, _send(socket, texts), _hear(socket))


async def _send(socket: WebSocket, texts: AsyncIterator[str]) -> None:
    async for text in texts:
        await socket.send_text(text)


async def _hear(socket: WebSocket) -> None:
    """Read until the client goes; nothing that it says changes anything."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return
