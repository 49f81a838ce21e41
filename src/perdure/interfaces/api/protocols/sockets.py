"""WebSocket of uvicorn and websockets, with limits on the frames and the duration of reads."""

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode as StandardCode
from websockets.frames import Frame
from websockets.http11 import Request
from websockets.protocol import OPEN

from perdure.interfaces.api.auth.security_middleware import ON_TOKEN
from perdure.interfaces.api.connections import CloseCode
from perdure.interfaces.api.problems import BrokenRequest
from perdure.interfaces.api.protocols.patience import LINGER_S, Allowance, Stall, end_writing
from perdure.interfaces.api.protocols.refusal import log, refusal

if TYPE_CHECKING:
    from perdure.interfaces.api.protocols.config import Config

MOST_FRAGMENTS = 1024
"""Maximum number of fragments of a message; empty ones cost a byte or two and do not count towards its size."""

CONTROL_FRAMES_AT_ONCE = 32
CONTROL_FRAMES_PER_SECOND = 10.0
"""The rate limit of pings and pongs; a socket that exceeds it is closed. A heartbeat needs one every few seconds."""

_MOST_PATIENCE = 10
"""The factor of the timeout for a stalled peer that starts to read again."""


class TimeoutSocket(WebSocketsSansIOProtocol):
    """Ends a socket whose peer reads nothing, sends invalid frames, or did not send a handshake."""

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
        self.config.connection_limit.remove(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over:  # the peer may not know yet
            return
        super().data_received(data)
        if not self.handshake_initiated:  # it is complete, but invalid
            self._refuse()

    def handle_connect(self, event: Request) -> None:
        """Open a socket, or reject a request that is not a handshake."""
        if self.conn.accept(event).status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            super().handle_connect(event)
        else:
            self._refuse()

    def _refuse(self) -> None:
        self.close_sent = self.handshake_initiated = self.handshake_complete = True
        self.transport.write(refusal(BrokenRequest("The request is not a WebSocket handshake.")))
        self.transport.close()

    def shutdown(self) -> None:
        """Close with the code of a shutdown; uvicorn would send the code of a restart."""
        if self.handshake_complete and not self.close_sent:
            self._send_close(CloseCode.SHUTDOWN)
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.call_off()

    def end_closing(self) -> None:
        """Watch a closing socket: a peer that reads nothing would keep it open forever."""
        self._last_stall.begin()

    def keepalive_timeout(self) -> None:
        """Close a socket whose ping was not answered; with unread data, ask the client to reconnect and resync."""
        if self.transport.get_write_buffer_size():
            self._resync()
        else:
            super().keepalive_timeout()

    def handle_ping(self) -> None:
        """Send a pong, unless too many unread pongs are buffered."""
        answer = self.conn.data_to_send()
        if self._may_control() and self.writable.is_set():
            self.transport.write(b"".join(answer))

    def handle_pong(self, event: Frame) -> None:
        if self._may_control():
            super().handle_pong(event)

    def _may_control(self) -> bool:
        """Count a control frame and return whether it is allowed; close the socket if there are too many."""
        if self.close_sent:
            return False
        if not self._control.take():
            self._fail(StandardCode.POLICY_VIOLATION, "too many control frames")
            return False
        return True

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self._fail(StandardCode.MESSAGE_TOO_BIG, f"more than {MOST_FRAGMENTS} fragments")

    def send_receive_event_to_app(self) -> None:
        """Pass a message on; close the socket for a text that is not UTF-8, without logging it."""
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.frames = []
                self._fail(StandardCode.INVALID_DATA, "the text is not UTF-8")
                return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """Close after a protocol error; before the handshake, abort the connection without a response."""
        self.close_sent = self.handshake_complete = True
        if self.conn.close_sent is None:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": StandardCode.ABNORMAL_CLOSURE})
            self.transport.abort()
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": self.conn.close_sent.code})
        self.transport.write(b"".join(self.conn.data_to_send()))
        self._hang_up(LINGER_S)

    async def send(self, message: Any) -> None:
        """Send, and return when the peer has read most of it, so that no data is produced for a slow peer.

        A rejection also completes the handshake; otherwise uvicorn would report an error.
        """
        if self.close_sent and message["type"] == "websocket.send":
            raise ClientDisconnected
        await super().send(message)
        is_refusal = message["type"] == "websocket.http.response.body" and not message.get("more_body", False)
        self.handshake_complete = self.handshake_complete or is_refusal
        await self.writable.wait()

    async def receive(self) -> Any:
        """Return the next message, after yielding to other tasks between two messages of one socket."""
        message = await super().receive()
        await asyncio.sleep(0)
        return message

    def _resync(self) -> None:
        """Close a socket whose peer reads nothing; if it reads again, the close code asks it to reconnect."""
        if self.close_sent or self.conn.state is not OPEN:
            self.transport.abort()
            return
        self._send_close(CloseCode.RESYNC)
        self.writable.set()
        self._last_stall.begin()
        self._hang_up(_MOST_PATIENCE * self.config.patience_s)

    def _hang_up(self, after_s: float) -> None:
        """Close the writing side, and discard arriving data until the peer closes or a time is over.

        See Farewell. uvicorn leaves a connection open while it has a `close_timer`.
        """
        self._is_over = True
        if end_writing(self.transport):
            self.transport.resume_reading()
            self.close_timer = self.loop.call_later(after_s, self.transport.abort)

    def _send_close(self, why: CloseCode) -> None:
        self.queue.put_nowait({"type": "websocket.disconnect", "code": why})
        self.conn.send_close(why, why.name.lower())
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True

    def _fail(self, code: StandardCode, why: str) -> None:
        self.conn.fail(code, why)
        self.handle_parser_exception()

    def _trust(self) -> None:
        self.config.connection_limit.trust(self.transport)
