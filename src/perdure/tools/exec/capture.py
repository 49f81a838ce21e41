"""Reads the output of a program, and keeps its head and tail and the number of bytes between them."""

import asyncio
import codecs
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

LIMIT_BYTES = 1 << 20
_HALF = LIMIT_BYTES // 2
_CHUNK = 1 << 16
_GAP = re.compile(r"^\[([0-9]{1,18}) bytes left out\]$", re.MULTILINE)


class Capture:
    """The reading end of a pipe, with bounded memory."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._file = -1
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self.error: Exception | None = None
        """The error that ended the reading, so that the output is incomplete."""

    @contextmanager
    def writing_end(self) -> Iterator[int]:
        """Start reading, and yield the writing end; an error in the block ends the reading."""
        self._file, writing = os.pipe()
        try:
            os.set_blocking(self._file, False)
            self._loop.add_reader(self._file, self._read)
            yield writing
        except BaseException:
            self.close()
            raise
        finally:
            with suppress(OSError):  # the program may run by now, and the end is closed in any case
                os.close(writing)

    def drain(self) -> None:
        """Read all available data."""
        while not self.ended.done() and self._read():
            pass

    def close(self) -> None:
        """Stop reading, even if a process still holds the writing end."""
        if not self.ended.done():
            self.ended.set_result(None)
            self._loop.remove_reader(self._file)
            os.close(self._file)

    def _read(self) -> bool:
        """Read once; return whether there was data. An error is stored, because the event loop calls this."""
        try:
            data = os.read(self._file, _CHUNK)
            if data:
                self._take(data)
                return True
        except BlockingIOError:
            return False
        except (OSError, MemoryError) as error:
            self.error = error
        self.close()
        return False

    def _take(self, data: bytes) -> None:
        self._total += len(data)
        room = _HALF - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * _HALF:
            del self._tail[:-_HALF]

    @property
    def is_truncated(self) -> bool:
        return self._total > LIMIT_BYTES

    def text(self) -> str:
        """Return the kept output; invalid UTF-8 is replaced, and no character is split."""
        if not self.is_truncated:
            return (self._head + self._tail).decode(errors="replace")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        head = decoder.decode(bytes(self._head))
        tail = self._tail[-_HALF:]
        del tail[: _continued(tail)]
        left_out = self._total - (len(self._head) - len(decoder.getstate()[0])) - len(tail)
        return f"{head}\n[{left_out} bytes left out]\n{tail.decode(errors='replace')}"


def left_out_bytes(text: str) -> int | None:
    """Return the number of omitted bytes that a kept output states."""
    found = _GAP.search(text)
    return int(found[1]) if found else None


def _continued(data: bytearray) -> int:
    """Return the number of leading bytes that continue a character without its beginning."""
    return next((count for count, byte in enumerate(data[:4]) if byte & 0xC0 != 0x80), 0)
