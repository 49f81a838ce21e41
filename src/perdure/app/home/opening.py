"""The context manager of `Perdure.open(…)`, and its arguments. Misuse raises an error with the correct usage."""

import re
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from perdure.errors import Invalid

if TYPE_CHECKING:
    from perdure.app import Perdure

_APP = re.compile(r"[a-z0-9_-]{1,40}")
_USE = "async with Perdure.open(…) as p:"


class Opening(AbstractAsyncContextManager["Perdure"]):
    """A home that is open inside an `async with` block."""

    def __init__(self, make: "Callable[[], AbstractAsyncContextManager[Perdure]]") -> None:
        self._make = make
        self._opened: AbstractAsyncContextManager[Perdure] | None = None

    async def __aenter__(self) -> "Perdure":
        if self._opened is not None:
            raise Invalid(f"This Perdure.open(…) was already entered. Call it again: {_USE}")
        self._opened = self._make()
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if self._opened is None:
            raise Invalid(f"This Perdure.open(…) was never entered. Usage: {_USE}")
        return await self._opened.__aexit__(kind, error, traceback)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise Invalid(f"The home is not open yet, so it has no `{name}`. Open it: {_USE}")

    def __await__(self) -> Generator[Any, None, NoReturn]:
        raise Invalid(f"Perdure.open(…) cannot be awaited: only a block closes the home. Usage: {_USE}")

    def __enter__(self) -> NoReturn:
        raise Invalid(f"Perdure.open(…) is an async context manager. Usage: {_USE}")

    def __exit__(self, *_error: object) -> None:
        """Never called: `__enter__` raises."""


def app_queue(app: Any, *, recover: Any) -> str:
    """Return the queue of the goals of an application; without an application, the queue of the command line.

    Raises: Invalid when the name or `recover` is invalid, or `recover` is true without an application.
    """
    if not isinstance(recover, bool):
        raise Invalid(f"Invalid recover: expected True or False, got {recover!r}.")
    if app is None and recover:
        raise Invalid('recover=True needs the name of the application: Perdure.open(app="shop", recover=True).')
    if app is None:
        return "cli"
    if not (isinstance(app, str) and _APP.fullmatch(app)):
        raise Invalid(f"Invalid app: expected 1 to 40 characters of a-z, 0-9, _ and -, got {app!r}.")
    return f"app.{app}"
