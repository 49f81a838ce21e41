"""The subset of HTTP/1.1 that a model server needs: requests with a length, responses complete or in chunks."""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

_LONGEST_BODY = 64 << 20


class BadRequest(Exception):
    """The received bytes are not a request that this server supports."""


@dataclass(frozen=True)
class HttpRequest:
    """One request; the names of headers are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """Read the next request of a connection; None when the client has closed it.

    Raises: BadRequest
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError as error:
        raise BadRequest("The head of the request is too long.") from error
    first, *rest = head.decode("latin-1").split("\r\n")[:-2]
    words = first.split(" ")
    if len(words) != 3:
        raise BadRequest("The first line of the request is not valid HTTP.")
    pairs = [line.partition(":") for line in rest]
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length", "0")
    if not length.isdigit() or int(length) > _LONGEST_BODY or "transfer-encoding" in headers:
        raise BadRequest(f"The body of a request must have a Content-Length of at most {_LONGEST_BODY}.")
    try:
        body = await reader.readexactly(int(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return HttpRequest(words[0], words[1].partition("?")[0], headers, body)


class HttpResponse:
    """The response on a connection.

    Raises: ConnectionError when the client has left.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole response."""
        length = {"content-length": str(len(body))}
        self._writer.write(_head(status, {"content-type": "application/json", **(headers or {}), **length}) + body)
        await self._drain()

    async def start_stream(self) -> None:
        """Send the head of a stream of events."""
        headers = {"content-type": "text/event-stream", "cache-control": "no-store", "transfer-encoding": "chunked"}
        self._writer.write(_head(200, headers))
        await self._drain()

    async def send_chunk(self, data: bytes) -> None:
        """Send a part of a stream."""
        if data:
            self._writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            await self._drain()

    async def end_stream(self) -> None:
        """End a stream properly."""
        self._writer.write(b"0\r\n\r\n")
        await self._drain()

    async def send_raw(self, data: bytes) -> None:
        """Send bytes that are not an HTTP response, and close the connection."""
        self._writer.write(data)
        await self._drain()
        self._writer.close()

    def abort(self) -> None:
        """Cut the connection; what was not sent yet is lost."""
        self._writer.transport.abort()

    async def wait(self, awaited: asyncio.Event | float) -> None:
        """Wait for an event or a number of seconds, or until the client has left."""
        pause = asyncio.sleep(awaited) if isinstance(awaited, float) else awaited.wait()
        waiting = asyncio.ensure_future(pause)
        leaving = asyncio.ensure_future(self._reader.read(1))
        try:
            await asyncio.wait((waiting, leaving), return_when=asyncio.FIRST_COMPLETED)
            if leaving.done() and not waiting.done():
                raise ConnectionResetError("the client has left")
        finally:
            for each in (waiting, leaving):
                each.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    await each

    async def _drain(self) -> None:
        await self._writer.drain()
        if self._reader.at_eof() or self._writer.is_closing():
            raise ConnectionResetError("the client has left")


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    known = {each.value: each.phrase for each in HTTPStatus}
    lines = [
        f"HTTP/1.1 {status} {known.get(status, 'Unknown')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
