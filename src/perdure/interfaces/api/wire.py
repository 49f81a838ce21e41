"""The two protocols of uvicorn with an end to their patience, so that nobody can hold a connection for nothing."""

import asyncio
import logging
import resource
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import h11
import orjson
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from perdure.interfaces.api.envelope import Asked
from perdure.interfaces.api.gate import ON_EVERY_ANSWER
from perdure.interfaces.api.lines import Ending
from perdure.interfaces.api.problems import BrokenRequest

MOST_FRAGMENTS = 1024
"""A message comes in so many parts at most; empty ones cost a byte or two, and count towards no size."""

log = logging.getLogger(__name__)
log.setLevel(logging.ERROR)  # below that is what strangers send, and every query: nothing that belongs into a log


def _refusal(why: str) -> bytes:
    """Write the answer to bytes that are no request: nothing of ours ever sees them."""
    asked = Asked.now("", b"")
    body = orjson.dumps({**BrokenRequest(why).problem(), "instance": "", "meta": asked.meta()})
    headers = {
        **ON_EVERY_ANSWER,
        b"content-type": b"application/problem+json",
        b"content-length": b"%d" % len(body),
        b"x-request-id": asked.request_id.encode(),
        b"connection": b"close",
    }
    lines = [b"HTTP/1.1 400 Bad Request", *(b"%s: %s" % pair for pair in headers.items()), b"", body]
    return b"\r\n".join(lines)


class Config(uvicorn.Config):
    """What uvicorn is told, and how patient it is."""

    def __init__(self, app: Any, patience_s: float, most_connections: int | None, **more: Any) -> None:
        super().__init__(app, http=PatientHttp, ws=PatientSocket, **more)
        self.patience_s = patience_s
        """So long somebody has to send a request whole, or to take some of what we send."""
        self.most_connections = most_connections or max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        """So many may be open at once; half of the files that we may open are for our work."""


class _Deadline:
    """Something that happens unless it is called off in time."""

    def __init__(self, after_s: float, then: Callable[[], None]) -> None:
        self._after_s = after_s
        self._then = then
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Let the time run, if it does not yet."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._after_s, self._strike)

    def call_off(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _strike(self) -> None:
        self._timer = None
        self._then()


class _Stall:
    """Ends a connection whose other side takes nothing of what we send; one that takes it slowly is kept."""

    def __init__(self, after_s: float, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._left = 0
        self._deadline = _Deadline(after_s, self._look)

    def begin(self) -> None:
        self._left = self._transport.get_write_buffer_size()
        self._deadline.begin()

    def call_off(self) -> None:
        self._deadline.call_off()

    def _look(self) -> None:
        if self._transport.get_write_buffer_size() >= self._left:
            self._transport.abort()
        else:
            self.begin()


class PatientHttp(H11Protocol):
    """Ends a connection on which no whole request comes in time, or whose answer nobody takes."""

    config: Config

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.logger = log
        self.access_log = False  # uvicorn asks its logger, whoever has changed that

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._stall = _Stall(self.config.patience_s, transport)
        self._request = _Deadline(self.config.patience_s, transport.abort)
        self._request.begin()
        if len(self.connections) > self.config.most_connections:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._request.call_off()
        self._stall.call_off()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_protocol() is self and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._request.begin()
        else:
            self._request.call_off()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, in the form of every other refusal."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(_refusal(msg))
        self.transport.close()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._request.call_off()
        self._stall.call_off()
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.call_off()


class PatientSocket(WebSocketsSansIOProtocol):
    """Ends a socket whose other side takes nothing, or sends what is no message and no request for a socket."""

    config: Config

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.logger = log

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._stall = _Stall(self.config.patience_s, self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stall.call_off()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self.handshake_initiated:  # it came whole, and could not be read
            self._refuse()

    def handle_connect(self, event: Request) -> None:
        """Open a socket; what is no request for one is answered like everything else."""
        if self.conn.accept(event).status_code == HTTPStatus.SWITCHING_PROTOCOLS:
            super().handle_connect(event)
        else:
            self._refuse()

    def _refuse(self) -> None:
        self.close_sent = self.handshake_initiated = self.handshake_complete = True
        self.transport.write(_refusal("This is no request for a WebSocket."))
        self.transport.close()

    def shutdown(self) -> None:
        """Close because the server ends, with the code that says so; uvicorn would say that it starts again."""
        if self.handshake_complete and not self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": Ending.SHUTDOWN})
            self.conn.send_close(Ending.SHUTDOWN, Ending.SHUTDOWN.name.lower())
            self.transport.write(b"".join(self.conn.data_to_send()))
            self.close_sent = True
        super().shutdown()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.call_off()

    def handle_ping(self) -> None:
        """Answer, unless so many answers wait to be taken already that there is no end to them."""
        answer = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(answer))

    def handle_cont(self, event: Frame) -> None:
        if len(self.frames) < MOST_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, f"more than {MOST_FRAGMENTS} fragments")
            self.handle_parser_exception()

    def handle_parser_exception(self) -> None:
        """Close; what comes before the socket is open is not answered, because there is no socket yet."""
        if self.conn.close_sent is not None:
            super().handle_parser_exception()
            return
        self.queue.put_nowait({"type": "websocket.disconnect", "code": CloseCode.ABNORMAL_CLOSURE})
        self.close_sent = self.handshake_complete = True
        self.transport.abort()

    async def send(self, message: Any) -> None:
        """Send; a refusal is an end of the handshake too, which uvicorn would complain about."""
        await super().send(message)
        is_refusal = message["type"] == "websocket.http.response.body" and not message.get("more_body", False)
        self.handshake_complete = self.handshake_complete or is_refusal
