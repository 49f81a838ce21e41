"""HTTP/1.1 of uvicorn and h11, with limits on the size, parts and duration of requests."""

import asyncio
import re
from typing import TYPE_CHECKING, Any

import h11
from h11._connection import DEFAULT_MAX_INCOMPLETE_EVENT_SIZE
from starlette.datastructures import Headers
from uvicorn.protocols.http.h11_impl import H11Protocol

from perdure.errors import Unavailable
from perdure.interfaces.api.auth.security_middleware import CLIENT_LEFT, ON_TOKEN, wants_stream
from perdure.interfaces.api.problems import BrokenRequest
from perdure.interfaces.api.protocols.patience import Deadline, Farewell, Stall
from perdure.interfaces.api.protocols.refusal import log, refusal

if TYPE_CHECKING:
    from perdure.interfaces.api.protocols.config import Config

READ_BYTES = 4 * 1024
"""The maximum number of bytes read and parsed in one turn of the event loop, so that other connections get turns."""

MOST_HEADERS = 100
"""The maximum number of headers of a request: a header of 4 bytes needs a hundred times that memory."""

MOST_PARTS = 4096
"""Maximum number of chunks of a body: a chunk of one byte costs as much as one of a thousand."""

_END_OF_HEADERS = re.compile(rb"\n\r?\n")
_FOLDED_LINE = re.compile(rb"\n[ \t]")
_FRAMING = re.compile(rb"^(content-length|transfer-encoding)[ \t]*:[ \t]*(.*?)[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_RETRY_AFTER_S = 1


class StrictConnection(h11.Connection):
    """Rejects requests that two parsers could interpret differently, and bodies in too many parts.

    h11 prefers Transfer-Encoding to a Content-Length in the same request, merges equal Content-Lengths and unfolds
    lines. A proxy in front of this server may interpret them differently, and see a second request in the body (request
    smuggling). RFC 9112 allows a server to reject all of these.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._parts = 0

    def next_event(self) -> Any:
        """See h11.Connection.next_event.

        Raises: h11.RemoteProtocolError
        """
        received = self.trailing_data[0] if self.their_state is h11.IDLE else b""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self._parts = 0
            if len(event.headers) > MOST_HEADERS:
                raise h11.RemoteProtocolError(f"The request has more than {MOST_HEADERS} headers.")
            _require_one_framing(_END_OF_HEADERS.split(received, 1)[0])
            if event.http_version < b"1.1":
                _require_plain_http_1_0(event)
        elif isinstance(event, h11.Data):
            self._parts += 1
            if self._parts > MOST_PARTS:
                raise h11.RemoteProtocolError(f"The body has more than {MOST_PARTS:,} parts.")
        return event


def _require_one_framing(head: bytes) -> None:
    """Check that the length of the body is defined once and unambiguously.

    Raises: h11.RemoteProtocolError
    """
    if _FOLDED_LINE.search(head):
        raise h11.RemoteProtocolError("A header is folded over several lines.")
    framing = _FRAMING.findall(head)
    if len(framing) > 1:
        raise h11.RemoteProtocolError("Content-Length and Transfer-Encoding must not be repeated or combined.")
    for name, value in framing:
        if name.lower() == b"content-length" and not value.isdigit():
            raise h11.RemoteProtocolError("Content-Length is not a number.")


def _require_plain_http_1_0(request: h11.Request) -> None:
    """Check that a request of HTTP/1.0 has no headers that only exist in HTTP/1.1 and that its proxies ignore.

    Raises: h11.RemoteProtocolError
    """
    if any(name in (b"transfer-encoding", b"upgrade") for name, _ in request.headers):
        raise h11.RemoteProtocolError("Transfer-Encoding and Upgrade need HTTP/1.1.")


class TimeoutHttp(H11Protocol):
    """Ends a connection that does not send a whole request in time, or does not read its response."""

    config: "Config"

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.logger = log
        self.access_log = (
            False  # uvicorn derives it from the level of its logger, which another package may have changed
        )
        self.conn = StrictConnection(h11.SERVER, DEFAULT_MAX_INCOMPLETE_EVENT_SIZE)
        self._client_left = asyncio.Event()
        self.app_state = {**self.app_state, ON_TOKEN: self._trust, CLIENT_LEFT: self._client_left}
        self._is_half_closed = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]
        self._stall = Stall(self.config.patience_s, transport, transport.abort)
        self._request = Deadline(self.config.patience_s, transport.abort)
        self._request.begin()
        self._farewell = Farewell(transport)
        if not self.config.connection_limit.admit(transport):
            full = Unavailable("Too many connections are open. Try again later.")
            transport.write(refusal(full, {b"retry-after": b"%d" % _RETRY_AFTER_S}))
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client_left.set()
        self._request.call_off()
        self._stall.call_off()
        self._farewell.call_off()
        self.config.connection_limit.remove(self.transport)
        super().connection_lost(exc)
        self._forget_request()

    def data_received(self, data: bytes) -> None:
        if self._farewell.has_begun:
            return
        super().data_received(data)
        if self.transport.get_protocol() is self and self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._request.begin()
        else:
            self._request.call_off()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep a half-closed connection until its complete requests are answered.

        Otherwise a request would be executed without a response. An incomplete request is dropped. So is an event
        stream, which does not end: most clients close both directions of it, which looks the same to the server.
        """
        self._is_half_closed = True
        self._client_left.set()
        return self._is_answering() and not wants_stream(Headers(raw=self.headers))

    def _is_answering(self) -> bool:
        """Return whether a complete request is not answered yet."""
        is_whole = self.conn.their_state in (h11.DONE, h11.MUST_CLOSE)
        return is_whole and self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        """Continue with the next request, or end the connection if the response was sent before the body was complete.

        The rest of such a body is discarded without parsing: the request was already rejected.
        """
        super().on_response_complete()
        if self._is_half_closed and not self._is_answering():
            self.transport.close()
        elif self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            is_next = self.conn.our_state is h11.SEND_RESPONSE  # a part of a pipelined request has arrived
            end = self._request if is_next else self._farewell
            end.begin()

    def send_400_response(self, msg: str) -> None:
        """Reject bytes that are not a request, with a problem as for any other error."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(refusal(BrokenRequest(msg)))
            self._farewell.begin()
        else:
            self.transport.close()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        self._request.call_off()
        self._stall.call_off()
        super().handle_websocket_upgrade(event)
        self._forget_request()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stall.call_off()

    def end_closing(self) -> None:
        """Watch a closing connection: a peer that reads nothing would keep it open forever."""
        self._stall.begin()

    def _forget_request(self) -> None:
        """Free the memory of the last request.

        uvicorn leaves the keep-alive timer running after a reset, which would keep the parsed headers for another half
        minute, on a connection that no limit counts any more. Reference cycles would keep them until the next garbage
        collection.
        """
        self._unset_keepalive_if_required()
        self.cycle = self.scope = self.headers = None  # type: ignore[assignment]
        self.app_state = {}

    def _trust(self) -> None:
        self.config.connection_limit.trust(self.transport)
