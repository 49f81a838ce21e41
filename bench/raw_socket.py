"""A WebSocket of a few lines, so that thousands of clients cost less than the server that is measured."""

import asyncio
import base64
import os
import struct

_HEADERS = (
    "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nAuthorization: Bearer {token}\r\n\r\n"
)
_MASK = bytes(4)
"""A mask of zeros is one, too."""
_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA


class RawSocket:
    """One connection, as a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._texts: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, port: int, path: str, token: str) -> "RawSocket":
        """Raises: ConnectionError when the upgrade is refused."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 12)
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(_HEADERS.format(path=path, port=port, key=key, token=token).encode())
        status = await reader.readline()
        if b" 101 " not in status:
            raise ConnectionError(f"the upgrade was answered with {status!r}")
        while (await reader.readline()).strip():
            pass
        return cls(reader, writer)

    def send(self, text: bytes) -> None:
        """Send a short text."""
        self._writer.write(_framed(_TEXT, text))

    async def recv(self) -> bytes:
        """Return the next text.

        Raises: ConnectionError when the server has closed the connection.
        """
        text = await self._texts.get()
        if text is None:
            raise ConnectionError("the server has closed the connection")
        return text

    async def _read(self) -> None:
        """Read what comes, and answer pings, until the connection is closed."""
        try:
            while True:
                first, second = await self._reader.readexactly(2)
                size = second & 0x7F
                if size == 126:
                    (size,) = struct.unpack("!H", await self._reader.readexactly(2))
                elif size == 127:
                    (size,) = struct.unpack("!Q", await self._reader.readexactly(8))
                content = await self._reader.readexactly(size)
                kind = first & 0x0F
                if kind == _TEXT:
                    self._texts.put_nowait(content)
                elif kind == _PING:
                    self._writer.write(_framed(_PONG, content))
                elif kind == _CLOSE:
                    break
        except (OSError, EOFError):
            pass
        self._texts.put_nowait(None)

    def stop_reading(self) -> None:
        """Leave what comes where it is."""
        self._reading.cancel()

    def close(self) -> None:
        self._reading.cancel()
        self._writer.transport.abort()


def _framed(kind: int, content: bytes) -> bytes:
    size = len(content)
    head = struct.pack("!BB", 0x80 | kind, 0x80 | size) if size < 126 else struct.pack("!BBH", 0x80 | kind, 0xFE, size)
    return head + _MASK + content
