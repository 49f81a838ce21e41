"""Sends an answer to a client: complete or as a stream, with the pauses and faults of the script."""

import asyncio
from dataclasses import dataclass

from perdure.testing.model_server.answers import ScriptedAnswer
from perdure.testing.model_server.http import HttpResponse
from perdure.testing.model_server.incoming import IncomingRequest
from perdure.testing.model_server.record import RecordedRequest
from perdure.testing.model_server.wire_formats import Event, WireFormat, error_type
from perdure.text.strict_json import dump_json


@dataclass(frozen=True)
class Delivery:
    """One answer to send, its wire format, and the record of its outcome."""

    answer: ScriptedAnswer
    request: IncomingRequest
    wire_format: WireFormat
    recorded: RecordedRequest
    released: asyncio.Event

    async def send(self, response: HttpResponse) -> None:
        """Send the answer.

        Raises: ConnectionError when the client has left.
        """
        try:
            await self._send(response)
        except ConnectionError:
            self.recorded.outcome = "hung_up"
            raise

    async def _send(self, response: HttpResponse) -> None:
        answer = self.answer
        if answer.hold_after == 0:
            await response.wait(self.released)
        if answer.first_byte_s:
            await response.wait(answer.first_byte_s)
        if answer.cut_after == 0:
            self.recorded.outcome = "cut"
            response.abort()
        elif answer.raw_bytes is not None:
            self.recorded.outcome = "failed"
            await response.send_raw(answer.raw_bytes)
        elif answer.status != 200:
            await self._send_error(response)
        elif answer.raw is not None:
            self.recorded.outcome = "failed"
            await response.start_stream()
            await response.send_chunk(answer.raw.encode())
            await response.end_stream()
        elif self.request.is_streamed:
            await self._stream(response)
        else:
            complete = self.wire_format.complete(answer, self.request, self.recorded.number)
            await response.send(200, dump_json(complete, "an answer"))
            self.recorded.outcome = "answered"

    async def _send_error(self, response: HttpResponse) -> None:
        answer = self.answer
        self.recorded.outcome = "failed"
        headers = {"retry-after": answer.retry_after} if answer.retry_after else {}
        message = answer.message or f"scripted status {answer.status}"
        error = self.wire_format.error(error_type(answer.status), message)
        await response.send(answer.status, dump_json(error, "an error"), headers)

    async def _stream(self, response: HttpResponse) -> None:
        await response.start_stream()
        sent = 0
        for event in self.wire_format.events(self.answer, self.request, self.recorded.number):
            if is_reached(self.answer.hold_after, sent, event):
                await response.wait(self.released)
            if is_reached(self.answer.cut_after, sent, event):
                self.recorded.outcome = "cut"
                response.abort()
                return
            if is_reached(self.answer.error_after, sent, event):
                self.recorded.outcome = "failed"
                error = self.wire_format.error_event(self.answer.error_type, self.answer.message or "scripted error")
                await response.send_chunk(error.encoded())
                await response.end_stream()
                return
            if is_reached(self.answer.end_after, sent, event):
                self.recorded.outcome = "cut"
                await response.end_stream()
                return
            await response.send_chunk(event.encoded())
            sent += event.is_delta
            if self.answer.between_s and event.is_delta:
                await response.wait(self.answer.between_s)
        self.recorded.outcome = "answered"
        await response.end_stream()


def is_reached(after: int | None, sent: int, event: Event) -> bool:
    """Return whether this many deltas were sent, and the next event comes after the opening of the stream."""
    return after is not None and sent >= after and (event.is_delta or sent > 0)
