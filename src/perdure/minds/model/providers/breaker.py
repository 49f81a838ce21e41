"""Circuit breakers: after repeated failures, requests to a service fail at once for some time."""

from dataclasses import dataclass

from perdure.kernel.ports import Clock
from perdure.minds.model.providers.failures import Failure

FAILURES = 5
OPEN_S = 30.0
_OF_THE_SERVICE = frozenset({"unreachable", "overloaded", "timeout", "rate_limited"})


@dataclass(slots=True)
class _State:
    failures: int = 0
    open_until_s: float = 0.0
    last: Failure | None = None


class Breakers:
    """One breaker for each service of this process.

    Five failed requests in a row open it for 30 seconds, in which requests fail at once. The first failure after that
    opens it again; a success, or an answer that says that the request was wrong, closes it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[str, _State] = {}

    def open_for_s(self, service: str) -> float:
        """Return for how long the breaker of a service stays open; 0 when it is closed."""
        state = self._states.get(service)
        return 0.0 if state is None else max(0.0, state.open_until_s - self._clock.boottime_s())

    def last_failure(self, service: str) -> Failure | None:
        """Return the failure that has opened the breaker."""
        state = self._states.get(service)
        return None if state is None else state.last

    def record(self, service: str, failure: Failure | None) -> None:
        """Count the end of a request; None is a success."""
        if failure is None or failure.code not in _OF_THE_SERVICE:
            self._states.pop(service, None)
            return
        state = self._states.setdefault(service, _State())
        state.failures += 1
        state.last = failure
        if state.failures >= FAILURES:
            state.open_until_s = self._clock.boottime_s() + OPEN_S
