"""Finds calls of a flow that were never awaited: without `await`, a step is silently not run."""

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

from perdure.errors import Invalid

M = TypeVar("M", bound=Callable[..., Coroutine[Any, Any, Any]])


class Unawaited:
    """The calls of one goal whose coroutines have not begun."""

    def __init__(self) -> None:
        self._made: dict[object, tuple[str, tuple[Any, ...], Coroutine[Any, Any, Any]]] = {}

    def make(
        self, name: str, args: tuple[Any, ...], begin: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Coroutine[Any, Any, Any]:
        """Return a coroutine that calls `begin` when it is awaited, and is tracked until then."""
        token = object()
        coroutine = self._begin(token, begin)
        self._made[token] = name, args, coroutine
        return coroutine

    async def _begin(self, token: object, begin: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        del self._made[token]
        return await begin()

    def require_none(self) -> None:
        """Check that all calls were awaited; close the others.

        Raises: Invalid, which names the calls.
        """
        left = []
        for name, args, coroutine in self._made.values():
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                left.append(_called(name, args))
                coroutine.close()
        self._made.clear()
        if left:
            first = left[0] if len(left) == 1 else f"{', '.join(left[:-1])} and {left[-1]}"
            was = "was" if len(left) == 1 else "were"
            raise Invalid(f"The flow returned, but {first} {was} never awaited and did not run: write `await`.")


def must_be_awaited(method: M) -> M:
    """Decorate a method of Goal so that a flow fails if it does not await the call."""

    @functools.wraps(method)
    def call(goal: Any, /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        unawaited: Unawaited = goal.unawaited
        return unawaited.make(method.__name__, args, lambda: method(goal, *args, **kwargs))

    return cast("M", call)


def _called(name: str, args: tuple[Any, ...]) -> str:
    """Return a call of a method of the goal as text: a step with its function, a question with its text."""
    shown = [str(getattr(each, "__name__", repr(each))) for each in args[:1] if name != "gather"]
    return f"goal.{name}({', '.join(shown)})"
