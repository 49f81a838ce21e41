"""The requests of a flow: steps, questions and waits, each identified by its branch, name and number."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure.errors import Invalid
from perdure.kernel.events import Action, Ask, Effect, ToolCall, ToolError, Wait
from perdure.kernel.history.frozen import constructor
from perdure.minds.flow.children import ChildGoal
from perdure.minds.flow.values.arguments import are_same_arguments
from perdure.minds.flow.values.values import needed_result
from perdure.minds.retry import NO_RETRY, Retry
from perdure.minds.step_status import call_id


@dataclass(slots=True)
class StepFunction:
    """A function to run as a step, with its arguments and options."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    arguments: dict[str, Any]
    """The recorded form of the arguments."""
    effect: Effect
    timeout_s: float | None
    check: Callable[..., Any] | None
    read: Callable[[Any], Any]
    context: Context = field(init=False, repr=False, compare=False)
    """The context variables of the call, without the branch of the flow; unset if the history has the outcome."""


class StepForks(Protocol):
    """Tracks and ends the processes that steps fork."""

    def begin(self, goal_id: str, call_id: str) -> None:
        """Track all later forks of the current context as forks of a call."""
        ...

    def leave(self, goal_id: str, call_id: str) -> None:
        """Stop tracking the forks of a call that returned or raised by itself. Never raises."""
        ...

    async def end(self, goal_id: str, call_id: str) -> None:
        """End the forks of a call and their descendants; return when they have ended.

        Raises: Unavailable when one does not end, or the notes of the forks cannot be read.
        """
        ...


class NoForks:
    """Tracks no forks, for flows without a home. See StepForks."""

    def begin(self, goal_id: str, call_id: str) -> None:
        """See StepForks.begin."""

    def leave(self, goal_id: str, call_id: str) -> None:
        """See StepForks.leave."""

    async def end(self, goal_id: str, call_id: str) -> None:
        """See StepForks.end."""


NO_FORKS: StepForks = NoForks()


@dataclass(frozen=True)
class Question:
    """A question to a person."""

    question: str
    options: tuple[str, ...] | None
    timeout_s: float | None = None


@dataclass(frozen=True)
class Pause:
    """A wait for some seconds, or for a signal."""

    seconds: float | None = None
    signal: str | None = None
    timeout_s: float | None = None
    """The timeout of the wait for a signal."""


class Uncancellable(asyncio.Future[None]):
    """A future for a task that is being cancelled: it ignores further cancels of the task.

    anyio repeats a cancel in every turn of the event loop until the task has ended.
    """

    text: object = None
    """The text of the last cancel with a text, by which a scope of anyio recognizes its own cancel."""

    def cancel(self, msg: object = None) -> bool:
        """Only store the text; the task assumes that the cancel is delivered."""
        self.text = self.text if msg is None else msg
        return True


Wanted = StepFunction | Question | Pause | ChildGoal


@dataclass(slots=True, eq=False)
class Request:
    """A step, question or wait that a flow asked for and waits for."""

    step: str
    wanted: Wanted
    answer: "asyncio.Future[Any]"
    retry: Retry = NO_RETRY
    attempts_begun: int = 0
    late_error: ToolError | None = None
    """The error of the last attempt, if the deadline of the retry policy forbids the next one."""
    is_cancelled: bool = False
    """Whether the flow has cancelled the request, and the end of its call is not delivered yet."""
    ended: Uncancellable | None = None
    """Done when the end of a cancelled call is delivered; None if the flow does not wait for that."""

    @property
    def is_pure(self) -> bool:
        """Whether it is a pure step, of which only the outcome is recorded."""
        return isinstance(self.wanted, StepFunction) and self.wanted.effect == "pure"

    @property
    def has_id(self) -> bool:
        """Whether it is a step with an id, independent of the order of steps."""
        return is_id(self.step)

    def action(self, attempt: int, moment: Callable[[float], str]) -> Action:
        """Return the intent of an attempt."""
        name = call_id(self.step, attempt)
        match self.wanted:
            case StepFunction(fn=fn, arguments=arguments, effect=effect, timeout_s=timeout_s):
                returns = needed_result(fn) if effect == "once" else None
                until = _until(timeout_s, moment)
                return _tool_call(name, self.step, "step", arguments, effect, attempt, until, returns=returns)
            case ChildGoal() as child:
                return child.call(name, self.step, attempt)
            case Question(question=question, options=options, timeout_s=timeout_s):
                return Ask(name, self.step, question, options, _until(timeout_s, moment))
            case Pause(seconds=None, signal=signal, timeout_s=timeout_s):
                return Wait(name, self.step, _until(timeout_s, moment), signal)
            case Pause(seconds=seconds):
                return Wait(name, self.step, _until(seconds or 0.0, moment))

    def differs_from(self, action: Action) -> str | None:
        """Describe the difference between the request and a recorded call of its step; None if they are equal."""
        if isinstance(self.wanted, StepFunction) and isinstance(action, ToolCall) and action.child is None:
            is_same = are_same_arguments(self.wanted.arguments, action.arguments)
            return None if is_same else "the code calls it with other arguments"
        match self.wanted, action:
            case ChildGoal(digest=wanted_digest), ToolCall(child=str(), arguments=recorded):
                is_same = wanted_digest == recorded.get("digest")
                return None if is_same else "the code calls another flow, or calls it with other arguments"
            case Question(question=question, options=options), Ask() as ask:
                return None if (question, options) == (ask.question, ask.options) else "the code asks another question"
            case Pause(signal=signal), Wait() as wait:
                return None if signal == wait.signal else "the code waits for something else"
            case _:
                return "the code uses its name for something else"


def _until(seconds: float | None, moment: Callable[[float], str]) -> str | None:
    return None if seconds is None else moment(seconds)


@dataclass
class Branch:
    """A line of a flow with its own numbers of steps: the body, or an awaitable of `goal.gather` or `goal.first`."""

    owner: object
    """The mind of the flow."""
    name: str = ""
    gathers: int = 0
    names: Counter[str] = field(default_factory=Counter)
    draws: Counter[str] = field(default_factory=Counter)
    """The numbers of ids and random generators that were drawn."""

    def next_step(self, name: str) -> str:
        """Return the name of the next step with a base name in this branch.

        Raises: Invalid when the base name cannot be part of the name of a step.
        """
        number = self.names[name]
        if number == 0:
            require_name(name)
        self.names[name] = number + 1
        return f"{self.name}/{name}#{number}"

    def step_with_id(self, step_id: str) -> str:
        """Return the name of the step with an id.

        Raises: Invalid when the id cannot be part of the name of a step.
        """
        require_name(step_id)
        return f"{self.name}/@{step_id}"

    def open(self, count: int) -> list["Branch"]:
        """Open branches for the awaitables of a gather, in the order of its arguments."""
        self.gathers += 1
        within = f"{self.name}." if self.name else ""
        return [Branch(self.owner, f"{within}g{self.gathers}.{number}") for number in range(count)]


def require_name(name: str) -> None:
    """Check that a text can be the base name or the id of a step.

    Raises: Invalid
    """
    if not name or name.startswith("@") or any(mark in name for mark in "/#\0\n"):
        raise Invalid(f"{name!r} cannot be the name of a step: it must not be empty, nor contain / or #.")


def is_id(step: str) -> bool:
    """Return whether the name of a step contains an id: `<branch>/@<id>`."""
    return step.rpartition("/")[2].startswith("@")


BRANCH: ContextVar[Branch | None] = ContextVar("perdure_branch", default=None)
"""The current branch of a flow; None outside of flows, and in steps."""


def step_context() -> Context:
    """Return a copy of the context for a step: without a branch, so that a step inside a step is rejected."""
    context = copy_context()
    context.run(BRANCH.set, None)
    return context


_tool_call = constructor(ToolCall)
