"""The client that the mind asks: retries, deadlines, circuit breakers and fallbacks around single attempts."""

import asyncio
import importlib
import logging
import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from perdure.errors import Damaged, Denied, Invalid, Unavailable
from perdure.kernel.conversation.parts import TokenUsage
from perdure.kernel.ports import Clock
from perdure.minds.model.ports import DeltaReset, ModelAnswer, ModelFailed, ModelRequest, OnDelta
from perdure.minds.model.providers.breaker import Breakers
from perdure.minds.model.providers.failures import AttemptFailed, Failure, login_command, no_extra
from perdure.minds.model.providers.keys import Keys, Secrets
from perdure.minds.model.providers.names import BUILT_IN, ModelName, parse_model_name, with_whole_names
from perdure.minds.model.providers.prices import Prices
from perdure.minds.model.providers.retries import ATTEMPTS, REQUEST_S, Wait, after_failure
from perdure.model_settings import ModelDefaults

if TYPE_CHECKING:
    from perdure.minds.model.providers.requests.connections import Connections
    from perdure.minds.model.providers.requests.streams import Arrived

log = logging.getLogger(__name__)
_REQUESTS = "perdure.minds.model.providers.requests"


class ProviderClient:
    """Asks the providers of models. See ModelClient."""

    def __init__(
        self,
        settings: ModelDefaults,
        secrets: Secrets,
        clock: Clock,
        environment: Mapping[str, str],
        *,
        attempts: int | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        settings = with_whole_names(settings)
        self._keys = Keys(settings, environment, secrets)
        self._prices = Prices(settings)
        self._clock = clock
        self._environment = environment
        self._attempts = ATTEMPTS if attempts is None else attempts
        self._chance = chance
        self._breakers = Breakers(clock)
        self._connections: Connections | None = None

    async def answer(self, request: ModelRequest, on_delta: OnDelta) -> ModelAnswer:
        """See ModelClient.answer."""
        names = [parse_model_name(each) for each in dict.fromkeys([request.model, *request.fallbacks])]
        if names[0].provider == BUILT_IN:
            raise Invalid(f"{BUILT_IN!r} is not a model that can be asked. Choose one with `perdure model list`.")
        failed: list[ModelFailed] = []
        begun_s = self._clock.boottime_s()
        for name in names:
            asked = _Asked(name, request, on_delta, begun_s)
            try:
                return await self._ask(asked, sum(each.attempts for each in failed))
            except ModelFailed as error:
                log.warning("%s has failed (%s): %s", name.text, error.failure_code, error.message)
                failed.append(error)
        raise _first_of(failed)

    def context_window(self, model: str) -> int:
        """See ModelClient.context_window."""
        return self._prices.context_window(parse_model_name(model))

    def cost_usd(self, model: str, usage: TokenUsage) -> float | None:
        """See ModelClient.cost_usd."""
        return self._prices.cost_usd(parse_model_name(model), usage)

    async def close(self) -> None:
        """See ModelClient.close."""
        if self._connections is not None:
            await self._connections.close()

    async def _ask(self, asked: "_Asked", attempts_before: int) -> ModelAnswer:
        """Ask one model, as often as it is worth it.

        Raises: ModelFailed; Invalid
        """
        name = asked.name
        if (open_s := self._breakers.open_for_s(name.service)) > 0:
            last = self._breakers.last_failure(name.service)
            code = "unreachable" if last is None else last.code
            failure = Failure(code, f"{name.text} has failed {_FAILED_OFTEN}; it is asked again in {open_s:.0f} s.")
            raise self._failed(asked, failure, 0, open_s)
        attempt = 0
        while True:
            attempt += 1
            try:
                answer = await self._attempt(asked, attempt, attempts_before)
            except AttemptFailed as error:
                failure = error.failure
            else:
                self._breakers.record(name.service, None)
                return answer
            decided = after_failure(failure, attempt, asked.left_s(self._clock), self._chance, self._attempts)
            if not isinstance(decided, Wait):
                self._breakers.record(name.service, failure)
                raise self._failed(asked, failure, attempt, decided.retry_after_s)
            log.info(
                "attempt %d for %s failed, again in %.1f s: %s", attempt, name.text, decided.seconds, failure.message
            )
            await self._clock.sleep(decided.seconds)

    async def _attempt(self, asked: "_Asked", attempt: int, attempts_before: int) -> ModelAnswer:
        name = asked.name
        connections = await self._connect(name)
        asked.start(self._clock)
        key = self._key(name)
        model = await connections.model(name, key)
        # Imported here, on the loop, without delay: `_connected` has imported them on a thread.
        from perdure.minds.model.providers.requests.attempts import Attempt
        from perdure.minds.model.providers.requests.messages import prepare
        from perdure.minds.model.providers.requests.streams import Arrival

        prepared = prepare(asked.request, model, name.service)
        arrival = Arrival(asked.request, prepared, asked.on_delta)
        made = Attempt(name, model, key, self._clock)
        begun_s = self._clock.boottime_s()
        try:
            arrived = await made.run(prepared, arrival, asked.left_s(self._clock))
        except AttemptFailed:
            if arrival.has_begun:
                asked.on_delta(DeltaReset())
            raise
        first_s = None if made.first_token_s is None else made.first_token_s - begun_s
        return self._answer(asked, arrived, attempts_before + attempt, first_s)

    def _key(self, name: ModelName) -> str | None:
        """Return the key of a model.

        Raises: AttemptFailed when a stored key cannot be read: a person can fix that, and the goal is to wait for it.
        """
        try:
            return self._keys.find(name)
        except (Damaged, Denied, Unavailable) as error:
            raise AttemptFailed(Failure("auth", error.detail, next=login_command(name))) from error

    async def _connect(self, name: ModelName) -> "Connections":
        """Import the packages of the providers, on a thread: that takes longer than a loop may stand still.

        Raises: AttemptFailed when they are not installed.
        """
        if self._connections is None:
            try:
                for module in ("connections", "attempts"):
                    await asyncio.to_thread(importlib.import_module, f"{_REQUESTS}.{module}")
            except ImportError as error:
                log.info("the packages of the extra %r cannot be imported", name.extra, exc_info=error)
                raise AttemptFailed(no_extra(name)) from None
            from perdure.minds.model.providers.requests.connections import Connections

            self._connections = self._connections or Connections(self._keys, self._prices, self._environment)
        return self._connections

    def _answer(self, asked: "_Asked", arrived: "Arrived", attempts: int, first_s: float | None) -> ModelAnswer:
        return ModelAnswer(
            parts=arrived.parts,
            finish_reason=arrived.finish_reason,
            usage=arrived.usage,
            cost_usd=self._prices.cost_usd(asked.name, arrived.usage),
            model=asked.name.text,
            provider=asked.name.service,
            response_id=arrived.response_id,
            duration_ms=_ms(self._clock.boottime_s() - asked.begun_s),
            first_token_ms=None if first_s is None else _ms(first_s),
            attempts=attempts,
            truncated=arrived.is_truncated,
        )

    def _failed(self, asked: "_Asked", failure: Failure, attempts: int, retry_after_s: float | None) -> ModelFailed:
        retry_at_us = None if retry_after_s is None else self._clock.now_us() + round(retry_after_s * 1_000_000)
        return ModelFailed(
            failure.code,
            failure.message,
            model=asked.name.text,
            provider=asked.name.service,
            attempts=attempts,
            retry_at_us=retry_at_us,
            next=failure.next,
        )


_FAILED_OFTEN = "several times in a row"


class _Asked:
    """One request to one model, with the deadline that begins at its first attempt."""

    def __init__(self, name: ModelName, request: ModelRequest, on_delta: OnDelta, begun_s: float) -> None:
        self.name = name
        self.request = request
        self.on_delta = on_delta
        self.begun_s = begun_s
        self._deadline_s: float | None = None

    def start(self, clock: Clock) -> None:
        """Let the deadline begin, unless it has begun."""
        if self._deadline_s is None:
            self._deadline_s = clock.boottime_s() + REQUEST_S

    def left_s(self, clock: Clock) -> float:
        """Return the seconds until the deadline."""
        return REQUEST_S if self._deadline_s is None else max(0.0, self._deadline_s - clock.boottime_s())


def _first_of(failed: list[ModelFailed]) -> ModelFailed:
    """Return the failure of the model that was wanted, with what became of its fallbacks."""
    first, *others = failed
    if not others:
        return first
    moments = [each.retry_at_us for each in failed if each.retry_at_us is not None]
    return ModelFailed(
        first.failure_code,
        " ".join([first.message, "The fallbacks have failed too:", *(each.message for each in others)]),
        model=first.model,
        provider=first.provider,
        attempts=sum(each.attempts for each in failed),
        retry_at_us=min(moments, default=None),
        next=first.next,
    )


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
