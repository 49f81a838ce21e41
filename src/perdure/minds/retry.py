"""The retry policy of steps in flows and plans."""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from perdure.errors import Invalid
from perdure.kernel.events import ToolError
from perdure.text.durations import MAX_SECONDS

ErrorKind = type[BaseException] | str
ErrorKinds = ErrorKind | Iterable[ErrorKind]

_LONGEST_S: Final = 3600.0
_HASHED_BYTES: Final = 6


@dataclass(frozen=True, slots=True)
class Retry:
    """The retry policy of a step.

    goal.options(retry=Retry(5, initial=0.5, factor=2, maximum=30, retry_on=ConnectionError)).step(fetch, day)

    `attempts` includes the first one. The second starts `initial` seconds after the first has failed. Each later wait
    is `factor` times the wait before, at most `maximum` seconds (default: an hour, or `initial` if that is longer).
    `jitter`, from 0 to 1, changes each wait by up to that fraction; it is derived from the id of the call, so it is the
    same after a resume. `retry_on` and `give_up_on` are exception classes, or error codes such as `timeout`;
    `give_up_on` takes precedence. No attempt starts more than `deadline` seconds after the start of the first.

    Raises: Invalid
    """

    attempts: int
    _: KW_ONLY
    initial: float = 0.0
    factor: float = 2.0
    maximum: float | None = None
    jitter: float = 0.0
    retry_on: ErrorKinds = Exception
    give_up_on: ErrorKinds = ()
    deadline: float | None = None

    def __post_init__(self) -> None:
        """Validate the policy, and convert kinds of errors to tuples."""
        if not _is_int(self.attempts) or self.attempts < 1:
            raise Invalid(f"Invalid retry: attempts must be a whole number of at least 1, got {self.attempts!r}.")
        _require_number("initial", self.initial, 0, MAX_SECONDS)
        _require_number("factor", self.factor, 1, MAX_SECONDS)
        _require_number("jitter", self.jitter, 0, 1)
        if self.maximum is not None:
            _require_number("maximum", self.maximum, 0, MAX_SECONDS)
            if self.initial > self.maximum:
                raise Invalid(f"Invalid retry: initial ({self.initial:g} s) is above maximum ({self.maximum:g} s).")
        if self.deadline is not None:
            _require_number("deadline", self.deadline, 0, MAX_SECONDS)
        object.__setattr__(self, "retry_on", _kinds("retry_on", self.retry_on))
        object.__setattr__(self, "give_up_on", _kinds("give_up_on", self.give_up_on))
        if not self.retry_on:
            raise Invalid("Invalid retry: retry_on is empty, so nothing would be retried; omit it for all errors.")

    def wait_us(self, failed: int, key: str) -> int:
        """Return the wait in microseconds after a number of failed attempts; `key` is the id of the last one."""
        maximum = max(_LONGEST_S, self.initial) if self.maximum is None else self.maximum
        try:
            wait_s = min(self.initial * self.factor ** (failed - 1), maximum)
        except OverflowError:
            wait_s = maximum
        if self.jitter and wait_s:
            wait_s = min(wait_s * (1 + self.jitter * _share(key)), maximum)
        return round(wait_s * 1_000_000)

    def until_us(self, began_us: int) -> int | None:
        """Return the moment after which no attempt starts, given the start of the first; None without a deadline."""
        return None if self.deadline is None else began_us + round(self.deadline * 1_000_000)

    def retries_class(self, raised: type[BaseException], code: str) -> bool:
        """Return whether an exception of a class is retried, by its class and by its error code.

        Only real base classes count, as in an `except` clause; no code of the classes is run.
        """
        bases: tuple[type, ...] = type.__dict__["__mro__"].__get__(raised)
        found = {code, *(str.__str__(type.__dict__["__name__"].__get__(base)) for base in bases)}
        return self._wants(lambda kind: kind in found if isinstance(kind, str) else any(kind is base for base in bases))

    def retries_error(self, error: ToolError) -> bool:
        """Return whether a recorded error is retried: as recorded, else by its code and class."""
        if error.retryable is not None:
            return error.retryable
        names = {error.code, error.type, (error.type or "").rpartition(":")[2]}

        def fits(kind: ErrorKind) -> bool:
            name = kind if isinstance(kind, str) else f"{kind.__module__}:{kind.__qualname__}"
            return kind is Exception or name in names

        return self._wants(fits)

    def _wants(self, fits: Callable[[ErrorKind], bool]) -> bool:
        return any(map(fits, _listed(self.retry_on))) and not any(map(fits, _listed(self.give_up_on)))


def _is_int(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool)


def _require_number(name: str, given: Any, least: float, most: float) -> None:
    """Check that a value is a number in a range.

    Raises: Invalid
    """
    is_number = isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given)
    if not is_number or not least <= given <= most:
        raise Invalid(f"Invalid retry: {name} must be a number from {least:g} to {most:g}, got {given!r}.")


def _listed(kinds: ErrorKinds) -> tuple[ErrorKind, ...]:
    return (kinds,) if isinstance(kinds, type | str) else tuple(kinds)


def _kinds(name: str, given: object) -> tuple[ErrorKind, ...]:
    """Return kinds of errors as a tuple.

    Raises: Invalid when one is neither an exception class nor an error code.
    """
    if not isinstance(given, type | str | Iterable):
        raise Invalid(f"Invalid retry: {name} must be exception classes or error codes, got {given!r}.")
    kinds = _listed(given)
    for kind in kinds:
        is_class = isinstance(kind, type) and BaseException in kind.__mro__
        if not is_class and not (isinstance(kind, str) and kind.strip()):
            raise Invalid(f"Invalid retry: {name} must be exception classes or error codes, got {kind!r}.")
    return kinds


def _share(key: str) -> float:
    """Return a pseudo-random number from -1 to 1 that depends only on a text."""
    hashed = hashlib.sha256(key.encode(errors="surrogatepass")).digest()[:_HASHED_BYTES]
    return 2 * int.from_bytes(hashed) / float(256**_HASHED_BYTES) - 1


NO_RETRY: Final = Retry(1)
KEYS: Final = ("attempts", "initial", "factor", "maximum", "jitter", "retry_on", "give_up_on", "deadline")
"""The fields of a policy in mappings and plans."""
_EXPECTED: Final = f"expected a number of attempts (with the first), perdure.Retry, or a mapping of {', '.join(KEYS)}"


def retry_of(given: Retry | Mapping[str, Any] | int | None) -> Retry:
    """Return the policy that a flow gave for a step: a policy, its parts by name, or only its number of attempts.

    Raises: Invalid
    """
    match given:
        case None:
            return NO_RETRY
        case Retry():
            return given
        case Mapping():
            unknown = [key for key in given if key not in KEYS]
            if unknown or "attempts" not in given:
                found = f"the unknown key {unknown[0]!r}" if unknown else "no attempts"
                raise Invalid(f"Invalid retry: {_EXPECTED}; got {found} in {given!r}.")
            return Retry(**given)
        case _ if _is_int(given):
            return Retry(given)
        case _:
            raise Invalid(f"Invalid retry: {_EXPECTED}; got {given!r}.")
