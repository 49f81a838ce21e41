"""One attempt: a streamed request under its deadlines, and every way in which it can fail as a `Failure`."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from pydantic_ai import exceptions as fault
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelResponseStreamEvent
from pydantic_ai.models import Model, StreamedResponse

from perdure.kernel.ports import Clock
from perdure.minds.model.providers.failures import (
    AttemptFailed,
    Failure,
    broken,
    of_status,
    shown_message,
    test_command,
    timed_out,
    unreachable,
)
from perdure.minds.model.providers.names import ModelName
from perdure.minds.model.providers.requests.messages import Prepared
from perdure.minds.model.providers.requests.streams import Arrival, Arrived, MalformedAnswer
from perdure.minds.model.providers.retries import FIRST_EVENT_S, REQUEST_S

log = logging.getLogger(__name__)


class Attempt:
    """Sends one request to one model, once."""

    def __init__(self, name: ModelName, model: Model[Any], key: str | None, clock: Clock) -> None:
        self._name = name
        self._model = model
        self._key = key
        self._clock = clock
        self.first_token_s: float | None = None
        """When the first piece of the answer came, by the clock."""

    async def run(self, prepared: Prepared, arrival: Arrival, left_s: float) -> Arrived:
        """Return the answer; `left_s` is what is left of the deadline of the request.

        Raises: AttemptFailed
        """
        whole = timed_out(self._name, REQUEST_S, "no whole answer")
        async with self._limited(left_s, whole), self._open(prepared) as stream, self._well_formed():
            await self._read(stream, arrival)
            response = stream.get()
            is_whole = response.state == "complete" and response.finish_reason not in (None, "error")
            if not (is_whole or arrival.is_truncated):
                raise AttemptFailed(broken(self._name, "the stream ended early"))
            return arrival.answer(response, self._name.service)

    @asynccontextmanager
    async def _well_formed(self) -> AsyncIterator[None]:
        try:
            yield
        except MalformedAnswer as error:
            raise AttemptFailed(broken(self._name, shown_message(str(error), self._key))) from error

    async def _read(self, stream: StreamedResponse, arrival: Arrival) -> None:
        events = aiter(stream)
        while (event := await self._next(events)) is not None:
            arrival.take(event)
            if arrival.has_begun and self.first_token_s is None:
                self.first_token_s = self._clock.boottime_s()
            if arrival.is_truncated:
                return

    async def _next(self, events: AsyncIterator[ModelResponseStreamEvent]) -> ModelResponseStreamEvent | None:
        try:
            return await anext(events, None)
        except Exception as error:  # what the packages of vendors raise at a damaged answer has no limits
            raise AttemptFailed(self._meaning(error)) from error

    @asynccontextmanager
    async def _open(self, prepared: Prepared) -> AsyncIterator[StreamedResponse]:
        """Send the request, and wait for the first event of the answer."""
        opening = model_request_stream(
            self._model,
            prepared.messages,
            model_settings=prepared.settings,
            model_request_parameters=prepared.parameters,
        )
        async with self._limited(FIRST_EVENT_S, timed_out(self._name, FIRST_EVENT_S, "nothing")):
            try:
                stream = await opening.__aenter__()
            except Exception as error:  # the same
                raise AttemptFailed(self._meaning(error)) from error
        try:
            yield stream
        finally:
            with contextlib.suppress(httpx2.HTTPError, OSError):  # the connection has broken before
                await opening.__aexit__(None, None, None)

    @asynccontextmanager
    async def _limited(self, seconds: float, failure: Failure) -> AsyncIterator[None]:
        """Cancel a block when some seconds have passed by the clock; one task for the block, whatever it awaits."""
        try:
            async with asyncio.timeout(None) as limit:
                timer = asyncio.create_task(self._expire(seconds, limit))
                try:
                    yield
                finally:
                    timer.cancel()
        except TimeoutError:
            if not limit.expired():
                raise
            raise AttemptFailed(failure) from None

    async def _expire(self, seconds: float, limit: asyncio.Timeout) -> None:
        await self._clock.sleep(seconds)
        limit.reschedule(asyncio.get_running_loop().time())

    def _meaning(self, error: Exception) -> Failure:
        """Return what an error of pydantic-ai, or of the package of a vendor, means."""
        said = self._said(error)
        retry_after_s = error.retry_after if isinstance(error, fault.ModelAPIError) else None
        if isinstance(error, _NEVER_RETRIED):
            return Failure("rejected", f"{self._name.text}: {said}", next=test_command(self._name))
        if isinstance(error, fault.ModelHTTPError):
            return of_status(error.status_code, said, self._name, retry_after_s)
        if isinstance(error, fault.ModelConnectionError):
            return unreachable(self._name, said, self._model.base_url)
        status = next((status for kind, status in _STATUSES if isinstance(error, kind)), None)
        if status is not None:
            return of_status(status, said, self._name, retry_after_s)
        if not isinstance(error, fault.AgentRunError):
            log.info("an answer of %s could not be read", self._name.text, exc_info=error)
        return broken(self._name, said)

    def _said(self, error: Exception) -> str:
        """Return the message of the provider, where it has sent one, else that of the error."""
        found = _provider_message(error.body) if isinstance(error, fault.ModelAPIError) else None
        own = _deepest_cause(error) if isinstance(error, fault.ModelConnectionError) else error
        return shown_message(found or str(own) or type(own).__name__, self._key)


_NEVER_RETRIED = (
    fault.ModelQuotaExceededError,  # a 429 too, but waiting does not help
    fault.ModelContextWindowExceededError,
    fault.ContentFilterError,
    fault.UserError,
)
_STATUSES: tuple[tuple[type[fault.ModelAPIError], int], ...] = (
    (fault.ModelRateLimitError, 429),
    (fault.ModelUnavailableError, 503),
    (fault.ModelServerError, 500),
    (fault.ModelAuthenticationError, 401),
    (fault.ModelNotFoundError, 404),
    (fault.ModelRequestRejectedError, 400),
)
"""The statuses of errors that come without one, for example in a stream."""


def _deepest_cause(error: BaseException) -> BaseException:
    """Return what a broken connection began with: the packages above it say no more than that it is broken."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _provider_message(body: object) -> str | None:
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        message = inner.get("message") if isinstance(inner, Mapping) else inner
        return message if isinstance(message, str) and message else None
    return body if isinstance(body, str) and body else None
