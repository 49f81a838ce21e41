"""Functions that a test replaces: a step calls the replacement instead of the function."""

import asyncio
import functools
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import MethodType, TracebackType
from typing import Any

from perdure.errors import Invalid
from perdure.testing.clock import ManualClock


class Replacement:
    """A function that `p.replace(fn, fake)` replaces until the `with` block or the home ends."""

    def __init__(self, fn: Callable[..., object], fake: Callable[..., object], active: "list[Replacement]") -> None:
        for function in (fn, fake):
            if not callable(function):
                raise Invalid(f"Expected a function, got {function!r}.")
        self._fn = fn
        self._fake = fake
        self._active = active
        active.append(self)

    def __enter__(self) -> "Replacement":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self in self._active:
            self._active.remove(self)

    def instead_of(self, fn: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return the replacement of a function; None for other functions."""
        if _is_same(fn, self._fn):
            return self._fake
        if isinstance(fn, MethodType) and fn.__func__ is self._fn:
            return functools.partial(self._fake, fn.__self__)  # a method of a class, for all its objects
        return None


class Replacements:
    """The replacements of a test; step timeouts use its clock. See StepCalls."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self._active: list[Replacement] = []

    def add(self, fn: Callable[..., object], fake: Callable[..., object]) -> Replacement:
        """Add a replacement of a function; the newest replacement wins."""
        return Replacement(fn, fake, self._active)

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """See StepCalls.function."""
        for replacement in reversed(self._active):
            if (fake := replacement.instead_of(fn)) is not None:
                return fake
        if isinstance(fn, functools.partial):
            return functools.partial(self.function(fn.func), *fn.args, **fn.keywords)
        return fn

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """See StepCalls.timeout."""
        return self._clock.timeout(seconds)


def _is_same(one: object, other: object) -> bool:
    """Return whether two objects are the same function; each access of a method creates a new object."""
    if isinstance(one, MethodType) and isinstance(other, MethodType):
        return one.__func__ is other.__func__ and one.__self__ is other.__self__
    return one is other
