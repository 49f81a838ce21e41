"""The `@flow` decorator, which makes a Python function a durable goal."""

import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, overload

from perdure.errors import Invalid
from perdure.minds.flow import validation
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.registry import register, require_flow_name
from perdure.minds.flow.steps.user_errors import described

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_LONGEST_CALL = 200
_FLOW = "__perdure_flow__"
"""The attribute of a function that refers to its flow."""


class Flow(Generic[P, T_co]):
    """A function that runs as a goal; `p.goals.run(flow, …)` starts one."""

    __name__: str
    __wrapped__: Callable[..., Coroutine[Any, Any, Any]]

    def __init__(
        self,
        fn: Callable[Concatenate[Goal, P], Coroutine[Any, Any, T_co]],
        *,
        name: str | None = None,
        cleanup: bool = False,
    ) -> None:
        validation.require_flow_function(fn)
        functools.update_wrapper(self, fn)
        self.fn: Callable[..., Coroutine[Any, Any, T_co]] = fn
        self.has_own_name = name is not None
        self.name = fn.__qualname__ if name is None else require_flow_name(name)
        self.cleanup = cleanup
        """Whether steps in its `finally` blocks run when its goal is cancelled."""
        self.path = f"{fn.__module__}:{fn.__qualname__}"
        vars(self).pop(_FLOW, None)  # of another flow of the same function
        with suppress(AttributeError):  # a method: it lives as long as its flow
            setattr(fn, _FLOW, self)  # a flow is found as long as its function lives
        register(self)

    @property
    def key(self) -> str:
        """The key of the flow in this process: its own name, else `module:function`."""
        return self.name if self.has_own_name else self.path

    @property
    def place(self) -> str:
        """The function with its file and line."""
        return described(self.fn)

    @property
    def is_of_script(self) -> bool:
        """Whether a script defines the flow, so that only that script can resume its goals."""
        return self.fn.__module__ == "__main__"

    def __repr__(self) -> str:
        return f"<flow {self.path}>"

    @overload
    def __call__(self, goal: Goal, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T_co]: ...
    @overload
    def __call__(self) -> NoReturn: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc] # mypy: it accepts all of signature 1
        """Call the function from another flow, with that flow's goal as its first argument.

        Raises: Invalid without a goal: a flow is run by `p.goals.run`.
        """
        if not (args and isinstance(args[0], Goal)):
            given = [self.name, *map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
            shown = f"p.goals.run({', '.join(given)})"
            raise Invalid(f"A flow is not called directly. Run it as a goal: {shown[:_LONGEST_CALL]}")
        return self.fn(*args, **kwargs)


@overload
def flow(fn: Callable[Concatenate[Goal, P], Coroutine[Any, Any, T]], /) -> Flow[P, T]: ...
@overload
def flow(
    *, name: str | None = None, cleanup: bool = False
) -> Callable[[Callable[Concatenate[Goal, P], Coroutine[Any, Any, T]]], Flow[P, T]]: ...
def flow(fn: Any = ..., /, *, name: str | None = None, cleanup: bool = False) -> Any:
    """Make an async function a flow. Its first argument is a `Goal`, whose recorded calls survive a kill.

    `name` replaces the name of the function: goals find the flow by this name even if its code was renamed or moved, so
    it must be unique in a program. With `cleanup`, steps in its `finally` blocks run when the goal is cancelled.

    Raises: Invalid when the function is not async or has no parameter for the goal, or the name is empty or has a
    colon.
    """
    made = functools.partial(Flow, name=name, cleanup=cleanup)
    return made if fn is ... else made(fn)
