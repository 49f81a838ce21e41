"""A Python function as a durable goal: `@flow`, and the `goal` that such a function is given."""

import functools
import importlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from perdure.errors import Invalid, NotFound, StepFailed
from perdure.kernel.events import Effect
from perdure.minds.flows import validation as asked
from perdure.minds.flows.failed_steps import tag_with_others
from perdure.minds.flows.requests import KEY, Pause, Question, Work
from perdure.minds.flows.unawaited import Unawaited, must_be_awaited
from perdure.minds.flows.values import arguments_to_json, digest, reader_of

if TYPE_CHECKING:
    from perdure.minds.flows.mind import FlowMind

_FLOWS: dict[str, "Flow"] = {}

T = TypeVar("T")
_LONGEST_CALL = 200


class Flow:
    """A function that runs as a goal; `p.goals.run(this, …)` starts one."""

    __name__: str
    __wrapped__: Callable[..., Coroutine[Any, Any, Any]]

    def __init__(self, fn: Callable[..., Coroutine[Any, Any, Any]]) -> None:
        asked.flow_function(fn)
        functools.update_wrapper(self, fn)
        self.fn = fn
        self.name = fn.__qualname__
        self.path = f"{fn.__module__}:{fn.__qualname__}"
        _FLOWS[self.path] = self

    @property
    def is_of_script(self) -> bool:
        """Whether a script defines it itself, so that only that script can go on with its goals."""
        return self.fn.__module__ == "__main__"

    def __repr__(self) -> str:
        return f"<flow {self.path}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Any]:
        """Call the function from another flow, with that flow's goal as its first argument.

        Raises: Invalid without a goal: a flow is run by `p.goals.run`.
        """
        if not (args and isinstance(args[0], Goal)):
            given = [self.name, *map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
            shown = f"p.goals.run({', '.join(given)})"
            raise Invalid(f"A flow is not called directly. Run it as a goal: {shown[:_LONGEST_CALL]}")
        return self.fn(*args, **kwargs)


@overload
def flow(fn: Callable[..., Coroutine[Any, Any, Any]]) -> Flow: ...


@overload
def flow() -> Callable[[Callable[..., Coroutine[Any, Any, Any]]], Flow]: ...


def flow(fn: Any = ...) -> Any:
    """Make an async function durable: it is given a `Goal` first, and what it does through that survives a kill.

    Raises: Invalid when it is no async function, or takes no goal.
    """
    return Flow if fn is ... else Flow(fn)


def find_flow(path: str) -> Flow:
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


def idempotency_key() -> str:
    """Return the key of the step that is running, for systems that accept one: `<goal id>/<call id>`.

    It is the same when the same try is run again after a crash, and in the `check` that asks about it; another try
    (`retry`) and a fork have others. It is known in the function of a step, on the thread that a sync one is given too,
    and in what that awaits; a thread that the function starts by itself has to be told.

    Raises: Invalid outside of a step.
    """
    try:
        return KEY.get()
    except LookupError:
        raise Invalid("There is an idempotency key inside a step only.") from None


class Goal:
    """What a flow is given: everything that it does through it is recorded, and happens once.

    @flow
    async def nightly(goal: Goal, day: str) -> str:
        data = await goal.step(fetch, day, effect="idempotent")
        if await goal.ask("Publish?", ["yes", "no"]) == "yes":
            await goal.step(publish, data)
        return day
    """

    def __init__(self, goal_id: str, mind: "FlowMind") -> None:
        self.id = goal_id
        self._mind = mind
        self.unawaited = Unawaited()

    @property
    def idempotency_key(self) -> str:
        """What `idempotency_key()` returns, for a function that sees the goal."""
        return idempotency_key()

    @must_be_awaited
    async def step(
        self,
        fn: Callable[..., Any],
        *args: Any,
        effect: Effect = "once",
        name: str | None = None,
        retry: int | Mapping[str, int] | None = None,
        timeout_s: float | None = None,
        check: Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a function, sync (in a thread) or async, as a step, and return its result as JSON has it.

        `effect` says what may happen again after a crash: `pure` and `idempotent` steps are run again; a `once` step
        becomes unknown, unless `check(*args, **kwargs)` tells that it happened (True) or did not (False).
        `retry` is a number of further tries, or `{"times": 3, "wait": 10}` with the seconds between them.

        Raises: StepFailed when it failed for good; Invalid when arguments do not go through JSON.
        """
        asked.step(fn, effect, name, timeout_s, check)
        tries = asked.retry(retry)
        called = name or getattr(fn, "__name__", type(fn).__name__).strip("<>")
        given = arguments_to_json(called, fn, args, kwargs)
        arguments = {**given, "digest": digest(given)}
        work = Work(fn, args, kwargs, arguments, effect, timeout_s, check, reader_of(fn))
        value = await self._mind.request(called, work, tries)
        try:
            return work.read(value)
        except ValueError as error:
            raise StepFailed("invalid", f"What {called} returned is not what it says it returns: {error}") from error

    @must_be_awaited
    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds, over restarts too."""
        await self._mind.request("sleep", Pause(seconds=asked.seconds(seconds)))

    @must_be_awaited
    async def ask(self, question: str, options: Sequence[str] | None = None) -> Any:
        """Ask a person, and return the answer: one of the options, where there are some."""
        wanted = Question(asked.text("A question", question), asked.options(options))
        return await self._mind.request("ask", wanted)

    @must_be_awaited
    async def signal(self, name: str) -> Any:
        """Wait for a signal of a name and return its payload; one that came before is taken first."""
        return await self._mind.request("signal", Pause(signal=asked.text("The name of a signal", name)))

    @must_be_awaited
    async def gather(self, *coroutines: Awaitable[T]) -> list[T]:
        """Run coroutines side by side, each in a branch of its own, and return their results in order.

        All of them come to their end; then the first that failed, in the order of the arguments, is raised.
        """
        done = await self._mind.side_by_side(asked.awaitables(coroutines))
        failures = [result for result in done if isinstance(result, BaseException)]
        if failures:
            raise tag_with_others(failures)
        return [result for result in done if not isinstance(result, BaseException)]
