"""The port through which the functions of steps are called; tests may replace them."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class StepCalls(Protocol):
    """Selects the function that a step calls, and measures its timeout."""

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function to call instead of `fn`; without a replacement, `fn` itself."""
        ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Return a block that is cancelled after some seconds, like `asyncio.timeout`."""
        ...


class DirectCalls:
    """Calls the original functions, and measures timeouts by the event loop. See StepCalls."""

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """See StepCalls.function."""
        return fn

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """See StepCalls.timeout."""
        return asyncio.timeout(seconds)


DIRECT: StepCalls = DirectCalls()
