"""What a flow asks for: steps, questions and waits, each known by its branch, its name and how many came before."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure.errors import Invalid
from perdure.kernel.events import Action, Ask, Effect, ToolCall, Wait
from perdure.minds.plan_shape import NO_RETRY, Retry
from perdure.minds.standing import call_id


@dataclass(frozen=True)
class Work:
    """A function to run as a step, and how."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    arguments: dict[str, Any]
    """The same as JSON, with their digest."""
    effect: Effect
    timeout_s: float | None
    check: Callable[..., Any] | None
    read: Callable[[Any], Any]


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


@dataclass(frozen=True)
class Pause:
    """A wait, for so many seconds or for a signal."""

    seconds: float | None = None
    signal: str | None = None


@dataclass
class Request:
    """Something that a branch of a flow waits for."""

    step: str
    wanted: Work | Question | Pause
    answer: "asyncio.Future[Any]"
    retry: Retry = NO_RETRY
    attempts_begun: int = 0

    def action(self, attempt: int, moment: Callable[[float], str]) -> Action:
        """Return what is to be recorded for the nth attempt."""
        name = call_id(self.step, attempt)
        match self.wanted:
            case Work(arguments=arguments, effect=effect):
                return ToolCall(name, self.step, "step", arguments, effect, attempt)
            case Question(question=question, options=options):
                return Ask(name, self.step, question, options)
            case Pause(seconds=None, signal=signal):
                return Wait(name, self.step, signal=signal)
            case Pause(seconds=seconds):
                return Wait(name, self.step, until=moment(seconds or 0.0))

    def differs_from(self, action: Action) -> str | None:
        """Say what is different when another call was recorded for this step."""
        match self.wanted, action:
            case Work(arguments=wanted), ToolCall(tool="step", arguments=recorded):
                is_same = wanted["digest"] == recorded.get("digest")
                return None if is_same else "it was called with other arguments"
            case Question(question=question, options=options), Ask() as ask:
                return None if (question, options) == (ask.question, ask.options) else "another question was asked"
            case Pause(signal=signal), Wait() as wait:
                return None if signal == wait.signal else "something else was waited for"
            case _:
                return "it was something else"


@dataclass
class Branch:
    """One line of a flow in which one thing comes after the other."""

    name: str = ""
    gathers: int = 0
    in_flight: str | None = None
    names: Counter[str] = field(default_factory=Counter)

    def next_step(self, name: str) -> str:
        """Name the next call of a name in this branch.

        Raises: Invalid when the name cannot be part of a step's, or another call is in flight here.
        """
        if not name or any(mark in name for mark in "/#\0\n"):
            raise Invalid(f"{name!r} cannot be the name of a step: it must not be empty, nor contain / or #.")
        step = f"{self.name}/{name}#{self.names[name]}"
        if self.in_flight is not None:
            raise Invalid(f"{step} was asked for while {self.in_flight} is in flight: use goal.gather for that.")
        self.names[name] += 1
        return step

    def open(self, count: int) -> list["Branch"]:
        """Open branches for the coroutines of a gather, in the order of its arguments."""
        self.gathers += 1
        within = f"{self.name}." if self.name else ""
        return [Branch(f"{within}g{self.gathers}.{number}") for number in range(count)]


BRANCH: ContextVar[Branch] = ContextVar("perdure_branch")
KEY: ContextVar[str] = ContextVar("perdure_key")
