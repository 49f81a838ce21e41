"""What a program writes, read as it comes and kept within bounds: the head, the tail, and how much lay between."""

import asyncio
import codecs
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LIMIT_BYTES = 1 << 20
_HALF = LIMIT_BYTES // 2


class Capture(asyncio.Protocol):
    """The reading end of a pipe. Memory stays bounded however much is written."""

    def __init__(self) -> None:
        self.ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.ReadTransport | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    @asynccontextmanager
    async def writing_end(self) -> AsyncIterator[int]:
        """Begin to read, and give the block the writing end; a block that fails ends the reading too."""
        reading, writing = os.pipe()
        try:
            pipe = os.fdopen(reading, "rb", buffering=0)
            self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, pipe)
            yield writing
        except BaseException:
            self.close()
            raise
        finally:
            os.close(writing)

    def close(self) -> None:
        """Read no more, whoever still holds the writing end."""
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._total += len(data)
        room = _HALF - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * _HALF:
            del self._tail[:-_HALF]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(exc)

    @property
    def is_truncated(self) -> bool:
        return self._total > LIMIT_BYTES

    def text(self) -> str:
        """Return what was kept; bytes that are not UTF-8 are replaced, and no character is cut in two."""
        if not self.is_truncated:
            return (self._head + self._tail).decode(errors="replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        head = decoder.decode(bytes(self._head))
        tail = self._tail[-_HALF:]
        del tail[: _continued(tail)]
        left_out = self._total - (len(self._head) - len(decoder.getstate()[0])) - len(tail)
        return f"{head}\n[{left_out} bytes left out]\n{tail.decode(errors='replace')}"


def _continued(data: bytearray) -> int:
    """Count the bytes at the front that go on with a character whose beginning is missing."""
    return next((count for count, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
