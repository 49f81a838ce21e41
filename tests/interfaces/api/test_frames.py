"""What a peer sends over a socket: what breaks the protocol, or comes too often, closes it, and leaves no trace."""

import asyncio
import logging
from dataclasses import dataclass

import pytest

from perdure.interfaces.api.protocols.http import READ_BYTES
from perdure.interfaces.api.protocols.sockets import CONTROL_FRAMES_AT_ONCE
from perdure.interfaces.api.server import Running
from tests.interfaces.api.test_wire import UPGRADE, Peer, connected, request, rest

MASK = bytes(4)
PING = b"\x89\x80" + MASK
PONG = b"\x8a\x80" + MASK
UNKNOWN = "01890000-0000-7000-8000-000000000000"

BROKEN = {
    "text that is not UTF-8": (b"\x81\x82" + MASK + b"\xc3\x28", 1007),
    "text that is not UTF-8, in parts": (b"\x01\x81" + MASK + b"\xc3" + b"\x80\x81" + MASK + b"\x28", 1007),
    "text with a surrogate": (b"\x81\x83" + MASK + b"\xed\xa0\x80", 1007),
    "an unknown opcode": (b"\x83\x80" + MASK, 1002),
    "an unknown control opcode": (b"\x8b\x80" + MASK, 1002),
    "a reserved bit": (b"\xc1\x80" + MASK, 1002),
    "a frame without a mask": (b"\x81\x02{}", 1002),
    "a frame that is too large": (b"\x81\xff" + (1 << 40).to_bytes(8, "big") + MASK, 1009),
    "a ping in parts": (b"\x09\x80" + MASK, 1002),
    "a long ping": (b"\x89\xfe\x00\x7e" + MASK + b"x" * 126, 1002),
    "a part of nothing": (b"\x80\x80" + MASK, 1002),
    "a message within a message": (b"\x01\x80" + MASK + b"\x01\x80" + MASK, 1002),
    "a close with half a code": (b"\x88\x81" + MASK + b"\x03", 1002),
    "a close with a code that may not be sent": (b"\x88\x82" + MASK + (1005).to_bytes(2, "big"), 1002),
    "a close with a reason that is not UTF-8": (b"\x88\x84" + MASK + (1000).to_bytes(2, "big") + b"\xc3\x28", 1007),
}


@dataclass
class Frame:
    """A frame as a server sends it."""

    opcode: int
    content: bytes

    @property
    def code(self) -> int:
        return int.from_bytes(self.content[:2], "big")


def frames(data: bytes) -> list[Frame]:
    found = []
    while data:
        size, at = data[1], 2
        if size >= 126:
            at = 4 if size == 126 else 10
            size = int.from_bytes(data[2:at], "big")
        found.append(Frame(data[0] & 0x0F, data[at : at + size]))
        data = data[at + size :]
    return found


@pytest.fixture(params=["sqlite"])
def backend(request: pytest.FixtureRequest) -> str:
    """What is tried here has nothing to do with the database."""
    return str(request.param)


async def opened(server: Running, path: str) -> Peer:
    peer = await connected(server, request(server, f"GET {path}", UPGRADE))
    assert b"101" in await peer[0].readuntil(b"\r\n\r\n")
    return peer


@pytest.mark.parametrize(("sent", "code"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("path", ["/ws/events", f"/ws/builder/{UNKNOWN}"])
async def test_a_frame_that_breaks_the_protocol_closes_the_socket_and_leaves_nothing_in_the_log(
    server: Running, caplog: pytest.LogCaptureFixture, path: str, sent: bytes, code: int
) -> None:
    with caplog.at_level(logging.WARNING):
        reader, writer = await opened(server, path)
        writer.write(sent)
        last = frames(await rest((reader, writer)))[-1]
    assert (last.opcode, last.code) == (0x8, code)
    assert caplog.records == []


@pytest.mark.parametrize("frame", [PING, PONG], ids=["pings", "pongs"])
async def test_a_flood_of_control_frames_closes_the_socket(server: Running, frame: bytes) -> None:
    reader, writer = await opened(server, "/ws/events")
    writer.write(frame * 100_000)
    told = frames(await rest((reader, writer)))
    assert (told[-1].opcode, told[-1].code) == (0x8, 1008)
    assert b"too many control frames" in told[-1].content
    assert sum(frame.opcode == 0xA for frame in told) <= READ_BYTES // len(PING)  # what is read in one turn


async def test_as_many_pings_as_a_client_may_need_are_answered(server: Running) -> None:
    reader, writer = await opened(server, "/ws/events")
    writer.write(PING * (CONTROL_FRAMES_AT_ONCE // 2))
    writer.write(b"\x88\x82" + MASK + (1000).to_bytes(2, "big"))
    told = frames(await rest((reader, writer)))
    assert sum(frame.opcode == 0xA for frame in told) == CONTROL_FRAMES_AT_ONCE // 2
    assert told[-1].code == 1000


async def test_others_have_a_turn_between_the_messages_of_a_flood(server: Running) -> None:
    asked, many = b'{"type":"ping"}', 1_000
    message = b"\x81" + bytes([0x80 | len(asked)]) + MASK + asked
    reader, writer = await opened(server, f"/ws/builder/{UNKNOWN}")
    turns = Turns()
    writer.write(message * many)
    await reader.readexactly(many * (len(asked) + 2))
    assert turns.count >= many
    turns.end()
    writer.transport.abort()


class Turns:
    """Counts the turns of the event loop."""

    def __init__(self) -> None:
        self.count = 0
        self._next = asyncio.get_running_loop().call_soon(self._count)

    def _count(self) -> None:
        self.count += 1
        self._next = asyncio.get_running_loop().call_soon(self._count)

    def end(self) -> None:
        self._next.cancel()
