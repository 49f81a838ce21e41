"""How the functions of steps are called: as they are, or as a test wants it."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class StepCalls(Protocol):
    """Knows which function a step calls, and how its timeout is measured."""

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function to call instead of `fn`; without a replacement, `fn` itself."""
        ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """Return a block that is cancelled after some seconds, as `asyncio.timeout`."""
        ...


class DirectCalls:
    """Calls every function itself, and measures timeouts by the event loop. See StepCalls."""

    def function(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """See StepCalls.function."""
        return fn

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """See StepCalls.timeout."""
        return asyncio.timeout(seconds)


DIRECT: StepCalls = DirectCalls()
