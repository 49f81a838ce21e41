"""WebSocket of uvicorn and websockets, with limits on what a client may send and on how long it may take."""

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request
from websockets.protocol import OPEN

from perdure.interfaces.api.auth.security_middleware import ON_TOKEN
from perdure.interfaces.api.connections import Ending
from perdure.interfaces.api.problems import BrokenRequest
from perdure.interfaces.api.protocols.patience import LINGER_S, Allowance, Stall, end_writing
from perdure.interfaces.api.protocols.refusal import log, refusal

if TYPE_CHECKING:
    from perdure.interfaces.api.protocols.config import Config

MOST_FRAGMENTS = 1024
"""Maximum number of fragments of a message; empty ones cost a byte or two and do not count towards its size."""

CONTROL_FRAMES_AT_ONCE = 32
CONTROL_FRAMES_PER_SECOND = 10.0
"""Pings and pongs beyond these close the socket: a heartbeat needs one in some seconds."""

_MOST_PATIENCE = 10
"""A peer that has stalled, and reads again, has so much longer to take what was written for it."""


class PatientSocket(WebSocketsSansIOProtocol):
    """Ends a socket whose peer takes nothing, or sends what is not a message or not a request for a socket."""

    config: "Config"

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.logger = log
        self.app_state = {**self.app_state, ON_TOKEN: self._trust}
        self._is_over = False
        self._control = Allowance(CONTROL_FRAMES_AT_ONCE, CONTROL_FRAMES_PER_SECOND)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._stall = Stall(self.config.patience_s, self.transport, self._resync)
        self._last_stall = Stall(self.config.patience_s, self.transport, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stall.call_off()
        self._last_stall.call_off()
        self.config.connections.remove(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over:  # and the peer has not noticed yet
            return
        super().data_received(data)
        if not self.handshake_initiated:  # it came whole, and could not be read
            self._refuse()

    def handle_connect(self, event: Request) -> None:
        """Open a socket; what is not a request for one is answered like everything else."""
        if self.conn.accept(event).status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            super().handle_connect(event)
        else:
            self._refuse()

    def _refuse(self) -> None:
        self.close_sent = self.handshake_initiated = self.handshake_complete = True
        self.transport.write(refusal(BrokenRequest("The request is not a WebSocket handshake.")))
        self.transport.close()

    def shutdown(self) -> None:
        """Close because the server ends, with the code that says so; uvicorn would say that it starts again."""
        if self.handshake_complete and not self.close_sent:
            self._send_close(Ending.SHUTDOWN)
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.call_off()

    def end_closing(self) -> None:
        """Watch a socket that is being closed: a peer that takes nothing would keep it open for ever."""
        self._last_stall.begin()

    def keepalive_timeout(self) -> None:
        """Close a socket whose ping was not answered; one that takes nothing has to read on from where it was."""
        if self.transport.get_write_buffer_size():
            self._resync()
        else:
            super().keepalive_timeout()

    def handle_ping(self) -> None:
        """Send an answer, unless too many answers already wait to be read."""
        answer = self.conn.data_to_send()
        if self._may_control() and self.writable.is_set():
            self.transport.write(b"".join(answer))

    def handle_pong(self, event: Frame) -> None:
        if self._may_control():
            super().handle_pong(event)

    def _may_control(self) -> bool:
        """Count a control frame; close the socket when there are too many."""
        if self.close_sent:
            return False
        if not self._control.take():
            self._fail(CloseCode.POLICY_VIOLATION, "too many control frames")
            return False
        return True

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self._fail(CloseCode.MESSAGE_TOO_BIG, f"more than {MOST_FRAGMENTS} fragments")

    def send_receive_event_to_app(self) -> None:
        """Hand a message on; a text that is not UTF-8 closes the socket, and is nothing that belongs into a log."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self._fail(CloseCode.INVALID_DATA, "the text is not UTF-8")
                return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """Close; what comes before the socket is open is not answered, because there is no socket yet."""
        self.close_sent = self.handshake_complete = True
        if self.conn.close_sent is None:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.ABNORMAL_CLOSURE})
            self.transport.abort()
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": self.conn.close_sent.code})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self._hang_up(LINGER_S)

    async def send(self, message: Any) -> None:
        """Send, and return when the peer has taken most of it: nothing is made for a peer that does not read.

        A refusal is an end of the handshake too, which uvicorn would complain about.
        """
        if self.close_sent and message["type"] == "websocket.send":
            raise ClientDisconnected
        await super().send(message)
        is_refusal = message["type"] == "websocket.http.response.body" and not message.get("more_body", False)
        self.handshake_complete = self.handshake_complete or is_refusal
        await self.writable.wait()

    async def receive(self) -> Any:
        """Return the next message; others have a turn between two messages of one socket."""
        message = await super().receive()
        await asyncio.sleep(0)
        return message

    def _resync(self) -> None:
        """Close a socket whose peer takes nothing; should it read again, it is told to connect again."""
        if self.close_sent or self.conn.state is not OPEN:
            self.transport.abort()
            return
        self._send_close(Ending.RESYNC)
        self.writable.set()
        self._last_stall.begin()
        self._hang_up(_MOST_PATIENCE * self.config.patience_s)

    def _hang_up(self, after_s: float) -> None:
        """Send nothing after what was written, and drop what arrives, until the peer closes or a time is over.

        See Farewell. uvicorn leaves a connection open while it has a `close_timer`.
        """
        self._is_over = True
        if end_writing(self.transport):
            self.transport.resume_reading()
            self.close_timer = self.loop.call_later(after_s, self.transport.abort)

    def _send_close(self, why: Ending) -> None:
        self.queue.put_nowait({"type": "websocket.disconnect", "code": why})
        self.conn.send_close(why, why.name.lower())
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True

    def _fail(self, code: CloseCode, why: str) -> None:
        self.conn.fail(code, why)
        self.handle_parser_exception()

    def _trust(self) -> None:
        self.config.connections.trust(self.transport)
