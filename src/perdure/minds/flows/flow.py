"""A Python function as a durable goal: `@flow`."""

import functools
import importlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, Generic, NoReturn, ParamSpec, TypeVar, overload

from perdure.errors import Invalid, NotFound
from perdure.minds.flows import validation as asked
from perdure.minds.flows.goal import Goal

_FLOWS: dict[str, "Flow[..., Any]"] = {}

P = ParamSpec("P")
T = TypeVar("T")
_LONGEST_CALL = 200


class Flow(Generic[P, T]):
    """A function that runs as a goal; `p.goals.run(this, …)` starts one."""

    __name__: str
    __wrapped__: Callable[..., Coroutine[Any, Any, Any]]

    def __init__(
        self,
        fn: Callable[Concatenate[Goal, P], Coroutine[Any, Any, T]],
        *,
        name: str | None = None,
        cleanup: bool = False,
    ) -> None:
        asked.flow_function(fn)
        functools.update_wrapper(self, fn)
        self.fn: Callable[..., Coroutine[Any, Any, T]] = fn
        self.name = name or fn.__qualname__
        self.cleanup = cleanup
        """Whether its `finally` blocks run steps when its goal is cancelled."""
        self.path = f"{fn.__module__}:{fn.__qualname__}"
        _FLOWS[self.path] = self

    @property
    def is_of_script(self) -> bool:
        """Whether a script defines it itself, so that only that script can go on with its goals."""
        return self.fn.__module__ == "__main__"

    def __repr__(self) -> str:
        return f"<flow {self.path}>"

    @overload
    def __call__(self, goal: Goal, /, *args: P.args, **kwargs: P.kwargs) -> Awaitable[T]: ...
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
    """Make an async function durable: it is given a `Goal` first, and what it does through that survives a kill.

    `name` is the name of the flow instead of the function's. With `cleanup`, steps in its `finally` blocks run when the
    goal is cancelled.

    Raises: Invalid when it is not an async function, or takes no goal.
    """
    made = functools.partial(Flow, name=name, cleanup=cleanup)
    return made if fn is ... else made(fn)


def loaded_flow(path: str) -> Flow[..., Any] | None:
    """Return the flow `module:function` if this process has defined it; nothing is imported."""
    return _FLOWS.get(path)


def find_flow(path: str) -> Flow[..., Any]:
    """Return the flow `module:function`: one that this process has defined, or the one that the module defines.

    Raises: Invalid when it is no such path; NotFound when there is no such flow here.
    """
    module, _, name = path.partition(":")
    if not module or not name:
        raise Invalid(f"A flow is named module:function, which {path!r} is not.")
    if module.endswith(".py") or "/" in module or module.startswith("."):
        meant = module.removesuffix(".py").lstrip("./").replace("/", ".")
        raise Invalid(f"A flow is named module:function, which {path!r} is not; did you mean {meant}:{name}?")
    if path not in _FLOWS and module == "__main__":
        raise NotFound(f"The flow {name} was defined in a script. Run that script again to go on with its goals.")
    if path not in _FLOWS:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise NotFound(f"The module {module} of the flow {path} cannot be imported: {error}.") from error
    if path not in _FLOWS:
        raise NotFound(f"The module {module} has no flow {name}: an async function under @flow was expected.")
    return _FLOWS[path]
