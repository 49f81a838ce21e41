"""The server: a thread with its own event loop, a port of this machine, and a record of the requests."""

import asyncio
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from perdure.errors import Invalid
from perdure.testing.model_server.anthropic import Anthropic
from perdure.testing.model_server.delivery import Delivery
from perdure.testing.model_server.http import BadRequest, HttpRequest, HttpResponse, read_request
from perdure.testing.model_server.incoming import adapt
from perdure.testing.model_server.openai_chat import OpenAIChat
from perdure.testing.model_server.openai_responses import OpenAIResponses
from perdure.testing.model_server.record import RecordedRequest, digest, repeated_requests
from perdure.testing.model_server.script import Script
from perdure.testing.model_server.wire_formats import WireFormat
from perdure.text.strict_json import SYNTAX, dump_json, parse_json

WIRE_FORMATS: Mapping[str, WireFormat] = {
    "/responses": OpenAIResponses(),
    "/chat/completions": OpenAIChat(),
    "/messages": Anthropic(),
}
"""The wire formats by the end of the path, so that a base URL may end in `/v1` or not."""


class ModelServer:
    """A server on 127.0.0.1 that answers from a script; it is closed at the end of the `with`."""

    def __init__(self, script: Script | None = None, *, port: int = 0) -> None:
        self.script = script or Script()
        self.requests: list[RecordedRequest] = []
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._released = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="model-server", daemon=True)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        try:
            listening = socket.create_server(("127.0.0.1", self._port))
        except OSError as error:
            self._loop.close()
            raise Invalid(f"The model server cannot listen on port {self._port}: {error.strerror}.") from error
        # Connections inherit it; asyncio sets it for sockets that it has made itself only, and deltas would wait 40 ms.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._port = listening.getsockname()[1]
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(listening), self._loop).result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """The address, for `OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL` and `OLLAMA_HOST` alike."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def repeated_requests(self) -> list[str]:
        """The digests of requests that were answered completely more than once."""
        return repeated_requests(self.requests)

    def release(self) -> None:
        """Continue the held responses, and hold none from now on."""
        self._loop.call_soon_threadsafe(self._released.set)

    def hold(self) -> None:
        """Hold responses with `hold_after` again, after a call of `release`."""
        self._loop.call_soon_threadsafe(self._released.clear)

    def settle(self) -> None:
        """Wait until all connections are closed, so that the record is final."""
        asyncio.run_coroutine_threadsafe(self._settle(), self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self, listening: socket.socket) -> None:
        self._server = await asyncio.start_server(self._on_connection, sock=listening)

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._settle()

    async def _settle(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._serve(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        response = HttpResponse(reader, writer)
        while not writer.is_closing():
            try:
                request = await read_request(reader)
                if request is None:
                    return
                await self._respond(request, response)
            except BadRequest as error:
                await response.send(400, dump_json({"error": {"message": str(error)}}, "an error"))
                return
            except ConnectionError:
                return

    async def _respond(self, request: HttpRequest, response: HttpResponse) -> None:
        wire_format = next((each for end, each in WIRE_FORMATS.items() if request.path.endswith(end)), None)
        if request.method == "GET" and request.path.endswith("/requests"):
            await response.send(200, dump_json([each.wire() for each in self.requests], "the requests"))
        elif request.method != "POST" or wire_format is None:
            await response.send(404, dump_json({"error": {"message": f"There is no {request.path} here."}}, "an error"))
        else:
            await self._answer(request, wire_format, response)

    async def _answer(self, http_request: HttpRequest, wire_format: WireFormat, response: HttpResponse) -> None:
        try:
            body = parse_json(http_request.body, "The body", SYNTAX)
        except Invalid as error:
            raise BadRequest(error.detail) from error
        if not isinstance(body, Mapping):
            raise BadRequest("The body is not an object.")
        recorded = self._record(http_request, body)
        request = wire_format.read(body, len(http_request.body))
        answer = adapt(self.script.choose(request), request)
        await Delivery(answer, request, wire_format, recorded, self._released).send(response)

    def _record(self, request: HttpRequest, body: Mapping[str, Any]) -> RecordedRequest:
        sha256 = digest(request.path, request.body)
        recorded = RecordedRequest(len(self.requests) + 1, request.path, request.headers, body, sha256)
        self.requests.append(recorded)
        return recorded
