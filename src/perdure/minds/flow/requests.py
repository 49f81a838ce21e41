"""What a flow asks for: steps, questions and waits, each known by its branch, its name and how many came before."""

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
from perdure.minds.retry import NO_RETRY, Retry
from perdure.minds.step_status import call_id


@dataclass(slots=True)
class Work:
    """A function to run as a step, and how."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    arguments: dict[str, Any]
    """What is recorded of them."""
    effect: Effect
    timeout_s: float | None
    check: Callable[..., Any] | None
    read: Callable[[Any], Any]
    context: Context = field(init=False, repr=False, compare=False)
    """The context variables of the call, without the branch of the flow; set unless the history has its outcome."""


class StepForks(Protocol):
    """Knows the processes that steps fork."""

    def begin(self, goal_id: str, call_id: str) -> None:
        """Note all forks that the current context makes from now on as forks of a call."""
        ...

    def leave(self, goal_id: str, call_id: str) -> None:
        """Leave the forks of a call alone, because it returned or raised by itself. Raises nothing."""
        ...

    async def end(self, goal_id: str, call_id: str) -> None:
        """End the forks of a call and their descendants; return when they are gone.

        Raises: Unavailable when one does not end, or the notes cannot be read.
        """
        ...


class NoForks:
    """Notes no forks, for flows that run without a home. See StepForks."""

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
    """How long a signal is waited for."""


class Uncancellable(asyncio.Future[None]):
    """A future that a task waits for while it is being cancelled: further cancels of the task change nothing.

    anyio repeats a cancel in every turn of the event loop until the task has ended.
    """

    text: object = None
    """The text of the last cancel that had one: a scope of anyio knows its own cancel by it."""

    def cancel(self, msg: object = None) -> bool:
        """Do nothing but note the text; the task believes that the cancel is delivered."""
        self.text = self.text if msg is None else msg
        return True


Wanted = Work | Question | Pause | ChildGoal


@dataclass(slots=True, eq=False)
class Request:
    """Something that a flow waits for."""

    step: str
    wanted: Wanted
    answer: "asyncio.Future[Any]"
    retry: Retry = NO_RETRY
    attempts_begun: int = 0
    late_error: ToolError | None = None
    """How the last attempt failed, if the deadline of the policy passed before the next: that one is not run."""
    is_cancelled: bool = False
    """Whether the flow has cancelled it, and the end of its call is not delivered yet."""
    ended: Uncancellable | None = None
    """Set when the end of a cancelled call is delivered; None when the flow does not wait for that."""

    @property
    def is_pure(self) -> bool:
        """Whether only its outcome is recorded."""
        return isinstance(self.wanted, Work) and self.wanted.effect == "pure"

    @property
    def has_id(self) -> bool:
        """Whether it is known by an id, whatever the order of steps."""
        return is_id(self.step)

    def action(self, attempt: int, moment: Callable[[float], str]) -> Action:
        """Return what is to be recorded for the nth attempt."""
        name = call_id(self.step, attempt)
        match self.wanted:
            case Work(arguments=arguments, effect=effect, timeout_s=timeout_s):
                return _tool_call(name, self.step, "step", arguments, effect, attempt, _until(timeout_s, moment))
            case ChildGoal() as child:
                return child.call(name, self.step, attempt)
            case Question(question=question, options=options, timeout_s=timeout_s):
                return Ask(name, self.step, question, options, _until(timeout_s, moment))
            case Pause(seconds=None, signal=signal, timeout_s=timeout_s):
                return Wait(name, self.step, _until(timeout_s, moment), signal)
            case Pause(seconds=seconds):
                return Wait(name, self.step, _until(seconds or 0.0, moment))

    def differs_from(self, action: Action) -> str | None:
        """Say what is different when another call was recorded for this step."""
        if isinstance(self.wanted, Work) and isinstance(action, ToolCall) and action.child is None:
            is_same = are_same_arguments(self.wanted.arguments, action.arguments)
            return None if is_same else "it was called with other arguments"
        match self.wanted, action:
            case ChildGoal(digest=wanted_digest), ToolCall(child=str(), arguments=recorded):
                is_same = wanted_digest == recorded.get("digest")
                return None if is_same else "it was another flow, or called with other arguments"
            case Question(question=question, options=options), Ask() as ask:
                return None if (question, options) == (ask.question, ask.options) else "another question was asked"
            case Pause(signal=signal), Wait() as wait:
                return None if signal == wait.signal else "something else was waited for"
            case _:
                return "it was something else"


def _until(seconds: float | None, moment: Callable[[float], str]) -> str | None:
    return None if seconds is None else moment(seconds)


@dataclass
class Branch:
    """A line of a flow with a numbering of its own: the body, or one awaitable of `goal.gather` or `goal.first`."""

    owner: object
    """The mind of the flow."""
    name: str = ""
    gathers: int = 0
    names: Counter[str] = field(default_factory=Counter)
    draws: Counter[str] = field(default_factory=Counter)
    """How many ids and random generators it was given."""

    def next_step(self, name: str) -> str:
        """Name the next call of a name in this branch.

        Raises: Invalid when the name cannot be part of a step's.
        """
        number = self.names[name]
        if number == 0:
            require_name(name)
        self.names[name] = number + 1
        return f"{self.name}/{name}#{number}"

    def step_with_id(self, step_id: str) -> str:
        """Name the call with an id.

        Raises: Invalid when the id cannot be part of a step's name.
        """
        require_name(step_id)
        return f"{self.name}/@{step_id}"

    def open(self, count: int) -> list["Branch"]:
        """Open branches for the awaitables of a gather, in the order of its arguments."""
        self.gathers += 1
        within = f"{self.name}." if self.name else ""
        return [Branch(self.owner, f"{within}g{self.gathers}.{number}") for number in range(count)]


def require_name(name: str) -> None:
    """Raises: Invalid when something cannot be the name or the id of a step."""
    if not name or name.startswith("@") or any(mark in name for mark in "/#\0\n"):
        raise Invalid(f"{name!r} cannot be the name of a step: it must not be empty, nor contain / or #.")


def is_id(step: str) -> bool:
    """Tell whether a step is known by an id: `<branch>/@<id>`."""
    return step.rpartition("/")[2].startswith("@")


BRANCH: ContextVar[Branch | None] = ContextVar("perdure_branch", default=None)
"""The branch of a flow that runs; None outside of flows, and in steps."""


def step_context() -> Context:
    """Return a copy of the context for a step: without a branch, so that a step inside a step is refused."""
    context = copy_context()
    context.run(BRANCH.set, None)
    return context


_tool_call = constructor(ToolCall)
