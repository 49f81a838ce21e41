"""The ports of tools, of their sources, and of the policy that judges calls of models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from perdure.kernel.events import Effect, ToolCall, ToolOutput

Verdict = Literal["allow", "ask", "deny"]


_STRICTNESS: tuple[Effect, ...] = ("pure", "idempotent", "once")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool for minds and models."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON Schema of its arguments, an object."""
    effect: Effect
    """The effect of calls that a model decides."""
    declares_effect: bool = False
    """Whether the effect depends on the arguments, for example on a program, and the author of a plan or flow declares
    it."""
    starts_goal: bool = False
    """Whether a call of it is a child goal, which the kernel starts and waits for."""

    def effect_of(self, declared: Effect, *, is_governed: bool) -> Effect:
        """Return the effect of a call.

        For a model it is the effect of the tool. An author may declare a stricter one, or any if `declares_effect`.
        """
        if is_governed:
            return self.effect
        if self.declares_effect:
            return declared
        return max(declared, self.effect, key=_STRICTNESS.index)


@dataclass(frozen=True, slots=True)
class KnownOutput:
    """The answer of a check that a call happened, with its output."""

    output: Any


Check = Literal["happened", "lost_result", "not_happened", "unknown"] | KnownOutput
"""Whether a call had its effect. `happened` alone leaves the output of the call unknown: it is recorded as null.

`lost_result` is `happened` where the output is needed: null cannot stand for it.
"""


@dataclass(frozen=True, slots=True)
class CallUsage:
    """The usage and metadata of a call; see ToolOutput."""

    usage: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None

    def on(self, outcome: ToolOutput) -> ToolOutput:
        """Return an outcome with this usage and metadata, unless it has its own."""
        return replace(outcome, usage=outcome.usage or self.usage, meta=outcome.meta or self.meta)


@dataclass(frozen=True, slots=True)
class CallContext:
    """The parameters of a call for the tool that runs it."""

    goal_id: str
    call: ToolCall
    workdir: str
    environment: Mapping[str, str] = field(default_factory=dict)
    left_s: Callable[[], float | None] = lambda: None
    """Returns the seconds until the recorded timeout of the call; None without a timeout."""
    require_ours: Callable[[], None] = lambda: None
    """To be called directly before an irrevocable effect. Raises: LeaseLost, which only the loop catches."""
    note_used: Callable[["CallUsage"], None] = lambda _used: None
    """To be called by a tool that raises or is cancelled, with the usage of the call so far."""
    report: Callable[[Any], None] = lambda _value: None
    """Publishes the progress of the call to observers, as JSON; from any thread. Not recorded."""

    @property
    def idempotency_key(self) -> str:
        return f"{self.goal_id}/{self.call.call_id}"

    @property
    def step_key(self) -> str:
        """The same for every attempt of the step."""
        return f"{self.goal_id}/{self.call.step}"


class Tool(Protocol):
    """Runs calls."""

    @property
    def spec(self) -> ToolSpec:
        """The description of the tool; it does not change while a goal runs."""
        ...

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """Check the arguments of a call, without any effect, before its intent is recorded.

        Raises: Invalid, which describes the expected arguments.
        """
        ...

    async def run(self, context: CallContext) -> ToolOutput:
        """Run a call to its end, and return its outcome. Cancellation ends everything that the call started.

        Every known outcome is returned, including failures. Any exception means that the effect may have begun and that
        the outcome is not known: the caller records a `once` call as unknown then, and never as a failure, because a
        failure may be retried. So an error before the effect must be returned as a failure, and an internal error after
        a known outcome must not change that outcome.
        """
        ...

    async def check(self, context: CallContext) -> Check:
        """Find out, after a crash, whether a started call had its effect.

        Raises: a PerdureError with the reason why that cannot be found out.
        """
        ...

    async def reap(self, goal_id: str, call_id: str) -> None:
        """End the processes that an earlier process or a failed run left of a call; return when they have ended.

        Raises: Conflict when a process may still run and cannot be proven to belong to the call; Unavailable when it
        does not end.
        """
        ...


class ToolSource(Protocol):
    """Provides tools: from the package, or from a server or folder whose tools are known only after it is opened.

    Each run opens, lists and closes its sources on the event loop of the run.
    """

    @property
    def name(self) -> str:
        """The name of the source for people."""
        ...

    async def open(self) -> None:
        """Prepare to list the tools and to run their calls.

        Raises: Unavailable; everything that was started is ended then.
        """
        ...

    async def list(self) -> Sequence[Tool]:
        """Return the tools of an open source, with distinct names.

        Raises: Unavailable
        """
        ...

    async def close(self) -> None:
        """Release all resources of the source; do nothing if it is not open."""
        ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict and its author, as recorded: a policy, or a person who approved calls in advance."""

    verdict: Verdict
    by: str = "policy"


class Policy(Protocol):
    """Judges the calls of models. Calls of people, plans and flows are not judged."""

    def judge(self, call: ToolCall) -> Judgement:
        """Return whether a call may run, must be approved, or is denied."""
        ...
