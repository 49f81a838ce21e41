"""The goal, the first argument of a flow: its calls are recorded and survive a kill."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, overload
from uuid import UUID

from perdure.errors import StepFailed
from perdure.kernel.events import Effect, Limits
from perdure.kernel.history.frozen import constructor
from perdure.minds.flow import validation
from perdure.minds.flow.children import child_goal, require_flow
from perdure.minds.flow.determinism import next_random, next_uuid, time_of
from perdure.minds.flow.execution.branches import race, side_by_side
from perdure.minds.flow.execution.deadlines import Deadline
from perdure.minds.flow.execution.unawaited import Unawaited, must_be_awaited
from perdure.minds.flow.requests import Pause, Question, StepFunction
from perdure.minds.flow.steps.failed_steps import tag_with_others
from perdure.minds.flow.values.arguments import recorded_arguments
from perdure.minds.flow.values.values import arguments_to_json, reader_of
from perdure.minds.flow.versions import choose_version
from perdure.minds.retry import NO_RETRY, Retry, retry_of

if TYPE_CHECKING:
    from perdure.minds.flow.flow import Flow
    from perdure.minds.flow.mind import FlowMind

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")


class First(NamedTuple, Generic[T]):
    """The position, from 0, of the awaitable that finished first, and its result."""

    position: int
    value: T


class Goal:
    """The first argument of a flow. Its calls are recorded, so they happen once. `goal.id` is the id of the goal.

    @flow
    async def nightly(goal: Goal, day: str) -> str:
        data = await goal.options(effect="idempotent").step(fetch, day)
        if await goal.ask("Publish?", ["yes", "no"], timeout_s=3600) == "yes":
            await goal.step(publish, data)
        return day
    """

    def __init__(self, goal_id: str, mind: "FlowMind") -> None:
        self.id = goal_id
        self.mind = mind
        self.unawaited = Unawaited()

    def __repr__(self) -> str:
        return f"<goal {self.id}>"

    def options(  # noqa: PLR0913 (each is an option of a call)
        self,
        *,
        effect: Effect = "once",
        name: str | None = None,
        id: str | None = None,  # noqa: A002 (the word that a flow's author looks for)
        retry: Retry | Mapping[str, Any] | int | None = None,
        timeout_s: float | None = None,
        check: Callable[..., Any] | None = None,
        key: str | None = None,
        limits: Limits | None = None,
    ) -> "CallOptions":
        """Return options for `step` and `child`, which take only the function or flow and its arguments.

        `effect` determines what happens after a crash: `pure` and `idempotent` steps are run again. The outcome of a
        `once` step is unknown, unless `check(*args, **kwargs)` returns that it happened (True, or `Happened(value)`
        with the result of the step) or did not happen (False). `name` replaces the name of the function. `id`
        identifies the step independently of the order of steps; it must be unique in the goal. `retry` is a `Retry`, a
        mapping of its fields, or the number of attempts including the first. `timeout_s` limits each attempt, across
        restarts. Options of a child are `name`, `id`, `key` (its start key) and `limits`.

        Raises: Invalid
        """
        validation.require_step_options(effect, name, id, timeout_s, check)
        validation.require_child_options(key, limits)
        return _call_options(self, effect, name, id, retry_of(retry), timeout_s, check, key, limits)

    @overload
    async def step(self, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def step(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def step(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Run a function, sync (on a thread) or async, as a step with effect `once`, and return its result.

        Options come first: `goal.options(effect="idempotent", retry=3).step(fetch, day)`.

        Raises: the exception of the function; StepFailed; TimeoutError; Invalid when an argument cannot be stored.
        """
        return CallOptions(self).step(fn, *args, **kwargs)

    @must_be_awaited
    async def sleep(self, seconds: float) -> None:
        """Sleep for some seconds. The end of the sleep is recorded, so a restart does not prolong it."""
        await self.mind.request("sleep", Pause(seconds=validation.seconds(seconds)))

    @overload
    async def ask(self, question: str, options: Sequence[str], *, timeout_s: float | None = None) -> str: ...
    @overload
    async def ask(self, question: str, options: None = None, *, timeout_s: float | None = None) -> Any: ...
    @must_be_awaited
    async def ask(self, question: str, options: Sequence[str] | None = None, *, timeout_s: float | None = None) -> Any:
        """Ask a person, and return the answer: one of the options, if there are any.

        Raises: TimeoutError when there is no answer in time.
        """
        wanted = Question(
            validation.text("A question", question), validation.options(options), validation.timeout(timeout_s)
        )
        return await self.mind.request("ask", wanted)

    @must_be_awaited
    async def signal(self, name: str, *, timeout_s: float | None = None) -> Any:
        """Wait for a signal, and return its payload. A signal that came before the wait is used first.

        Raises: TimeoutError when it does not come in time.
        """
        wanted = Pause(signal=validation.text("The name of a signal", name), timeout_s=validation.timeout(timeout_s))
        return await self.mind.request("signal", wanted)

    def timeout(self, seconds: float) -> Deadline:
        """Limit the time of an `async with` block. The deadline is recorded, and survives parking and restarts.

        async with goal.timeout(3600):
            answer = await goal.ask("Publish?")

        The block raises TimeoutError when the deadline passes; what it waits for is cancelled.
        """
        return Deadline(self.mind, validation.seconds(seconds))

    @overload
    async def gather(self, a: Awaitable[A], /) -> tuple[A]: ...
    @overload
    async def gather(self, a: Awaitable[A], b: Awaitable[B], /) -> tuple[A, B]: ...
    @overload
    async def gather(self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /) -> tuple[A, B, C]: ...
    @overload
    async def gather(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], /
    ) -> tuple[A, B, C, D]: ...
    @overload
    async def gather(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], e: Awaitable[E], /
    ) -> tuple[A, B, C, D, E]: ...
    @overload
    async def gather(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], e: Awaitable[E], f: Awaitable[F], /
    ) -> tuple[A, B, C, D, E, F]: ...
    @overload
    async def gather(self, *awaitables: Awaitable[T]) -> list[T]: ...
    @must_be_awaited
    async def gather(self, *awaitables: Awaitable[Any]) -> Any:
        """Run awaitables concurrently, each in its own branch, and return their results in order.

        All of them run to their end. Then the first failure, in the order of the arguments, is raised. The result is a
        list. As with `asyncio.gather`, a type checker sees a tuple for up to six awaitables, so that each result keeps
        its own type.
        """
        done = await side_by_side(validation.awaitables("gather", awaitables))
        failures = [result for result in done if isinstance(result, BaseException)]
        if failures:
            raise tag_with_others(failures)
        return [result for result in done if not isinstance(result, BaseException)]

    @overload
    async def first(self, a: Awaitable[A], b: Awaitable[B], /) -> First[A | B]: ...
    @overload
    async def first(self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], /) -> First[A | B | C]: ...
    @overload
    async def first(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], /
    ) -> First[A | B | C | D]: ...
    @overload
    async def first(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], e: Awaitable[E], /
    ) -> First[A | B | C | D | E]: ...
    @overload
    async def first(
        self, a: Awaitable[A], b: Awaitable[B], c: Awaitable[C], d: Awaitable[D], e: Awaitable[E], f: Awaitable[F], /
    ) -> First[A | B | C | D | E | F]: ...
    @overload
    async def first(self, *awaitables: Awaitable[T]) -> First[T]: ...
    @must_be_awaited
    async def first(self, *awaitables: Awaitable[Any]) -> First[Any]:
        """Run awaitables concurrently, each in its own branch, and return the result of the first to finish.

        The others are cancelled, and have ended when this returns. If the first to finish failed, its exception is
        raised.
        """
        position, value = await race(validation.awaitables("first", awaitables))
        return First(position, value)

    def child(self, flow: "Flow[P, T]", /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, object, T]:
        """Run a flow as a child goal with its own history, and return its result.

        Options come first: `goal.options(limits=Limits(usd=1)).child(report, day)`. When this goal or the wait for the
        child is cancelled, the child is cancelled first.

        Raises: GoalFailed when the child failed, GoalCancelled when it was cancelled; Invalid when an argument cannot
        be stored; StepFailed when the child cannot be started.
        """
        return CallOptions(self).child(flow, *args, **kwargs)

    @must_be_awaited
    async def version(self, name: str, latest: int, oldest: int = 1) -> int:
        """Return which version of a changed part of the code this goal runs.

        if await goal.version("invoice-by-mail", 2) == 1:
            await goal.step(print_invoice)
        else:
            await goal.step(mail_invoice)

        It is 1 if the history has later steps that code without this call recorded, else `latest`. The goal keeps the
        version. If no running goal needs an old version any more, `oldest` may be raised or the call removed.

        Raises: Invalid. When the goal runs a version below `oldest` or above `latest`, its run ends with Conflict.
        """
        return await choose_version(self.mind, name, latest, oldest)

    def now(self) -> datetime:
        """Return the time (UTC) of the event that the flow reacts to: the start, or the newest result it received.

        It is the same in every run of the goal, and needs no event. It does not advance between two results.

        Raises: Invalid outside of the flow.
        """
        return time_of(self.mind)

    def uuid(self) -> UUID:
        """Return a new id that is the same in every run of the goal. It is predictable, so it must not be a secret.

        A fork gets other ids after its fork point.

        Raises: Invalid outside of the flow.
        """
        return next_uuid(self.mind)

    def random(self) -> Random:
        """Return a new random generator that produces the same numbers in every run of the goal.

        Raises: Invalid outside of the flow.
        """
        return next_random(self.mind)


@dataclass(frozen=True, slots=True)
class CallOptions:
    """Options of a call of a goal; created by `goal.options(…)`."""

    goal: Goal
    effect: Effect = "once"
    name: str | None = None
    id: str | None = None
    retry: Retry = NO_RETRY
    timeout_s: float | None = None
    check: Callable[..., Any] | None = None
    key: str | None = None
    limits: Limits | None = None

    @overload
    async def step(self, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def step(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def step(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any]:
        """Run a function as a step with these options, and return its result. See `Goal.step`."""
        return self.goal.unawaited.make("step", (fn,), partial(self._step, fn, args, kwargs))

    def child(self, flow: "Flow[P, T]", /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[object, object, T]:
        """Run a flow as a child goal with these options, and return its result. See `Goal.child`."""
        return self.goal.unawaited.make("child", (flow,), partial(self._child, flow, args, kwargs))

    async def _child(self, flow: "Flow[..., Any]", args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        require_flow(flow)
        validation.require_only("child", self, ("goal", "name", "id", "key", "limits"))
        limits = self.limits or Limits()
        wanted = child_goal(self.goal.id, flow, args, kwargs, limits=limits, key=self.key)
        value = await self.goal.mind.request(self.name or flow.fn.__name__, wanted, id=self.id)
        try:
            return wanted.read(value)
        except ValueError as error:
            raise StepFailed("invalid", f"The result of {flow.name} cannot be read: {error}.") from error

    async def _step(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        validation.require_step_function(fn)
        if self.key is not None or self.limits is not None:
            validation.require_only("step", self, ("goal", "effect", "name", "id", "retry", "timeout_s", "check"))
        called = self.name or getattr(fn, "__name__", type(fn).__name__).strip("<>")
        if self.check is not None:
            validation.require_matching_check(called, self.check, fn, args, kwargs)
        given = arguments_to_json(called, fn, args, kwargs)
        arguments = recorded_arguments(given, self.effect)
        work = StepFunction(fn, args, kwargs, arguments, self.effect, self.timeout_s, self.check, reader_of(fn))
        value = await self.goal.mind.request(called, work, self.retry, id=self.id)
        try:
            return work.read(value)
        except ValueError as error:
            raise StepFailed("invalid", f"The result of {called} cannot be read: {error}.") from error


_call_options = constructor(CallOptions)
