"""The ports of what acts: tools, the sources that they come from, and the policy that judges calls of models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from perdure.kernel.events import Effect, ToolCall, ToolOutput

Verdict = Literal["allow", "ask", "deny"]


_STRICTNESS: tuple[Effect, ...] = ("pure", "idempotent", "once")


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a tool says about itself, to those who choose it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON Schema of its arguments, an object."""
    effect: Effect
    """What may happen again after a crash, of a call that a model decided."""
    declares_effect: bool = False
    """Whether the effect is that of the program which the arguments name: who writes a plan or a flow declares it."""

    def effect_of(self, declared: Effect, *, is_governed: bool) -> Effect:
        """Return the effect of a call: a model is not asked, an author may make it stricter, or declares it."""
        if is_governed:
            return self.effect
        if self.declares_effect:
            return declared
        return max(declared, self.effect, key=_STRICTNESS.index)


@dataclass(frozen=True, slots=True)
class KnownOutput:
    """The answer of a check that a call happened, and what its output is."""

    output: Any


Check = Literal["happened", "lost_result", "not_happened", "unknown"] | KnownOutput
"""Whether a call had its effect. `happened` alone leaves the output of the call unknown: it is recorded as null.

`lost_result` is `happened` where the output is needed: null cannot stand for it.
"""


@dataclass(frozen=True, slots=True)
class Used:
    """What a call has used and recorded; see ToolOutput."""

    usage: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None

    def on(self, outcome: ToolOutput) -> ToolOutput:
        """Return an outcome with this, unless it has its own."""
        return replace(outcome, usage=outcome.usage or self.usage, meta=outcome.meta or self.meta)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a tool is told about the call that it runs."""

    goal_id: str
    call: ToolCall
    workdir: str
    environment: Mapping[str, str] = field(default_factory=dict)
    left_s: Callable[[], float | None] = lambda: None
    """Returns how many seconds the call has left by its recorded timeout, by the clock; None without one."""
    require_ours: Callable[[], None] = lambda: None
    """To be called right before an irrevocable effect. Raises: LeaseLost, which only the loop catches."""
    note_used: Callable[["Used"], None] = lambda _used: None
    """To be called by a tool that raises or is cancelled, with what the call had used and recorded by then."""
    report: Callable[[Any], None] = lambda _value: None
    """Tells observers how far the call has come, as JSON; from any thread. Nothing of it is recorded."""

    @property
    def idempotency_key(self) -> str:
        return f"{self.goal_id}/{self.call.call_id}"

    @property
    def step_key(self) -> str:
        """The same for every attempt of the step."""
        return f"{self.goal_id}/{self.call.step}"


class Tool(Protocol):
    """What acts."""

    @property
    def spec(self) -> ToolSpec:
        """What the tool says about itself; it does not change while a goal runs."""
        ...

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See whether arguments make sense, before the intent to run them is recorded; nothing is touched.

        Raises: Invalid, saying what was expected.
        """
        ...

    async def run(self, context: CallContext) -> ToolOutput:
        """Run a call to its end, and return its outcome. Cancelling ends all that was begun.

        Every outcome that is known is returned, failures included. An exception says that the effect may have begun and
        that its outcome is not known, whatever the exception is: the caller records a `once` call as unknown then, and
        never as a failure, because a failure may be retried. So an error before the effect is returned as a failure,
        and an error of bookkeeping after a known outcome changes nothing about that outcome.
        """
        ...

    async def check(self, context: CallContext) -> Check:
        """Find out, after a crash, whether a call that was begun has had its effect.

        Raises: a PerdureError that says why nothing can be found out.
        """
        ...

    async def reap(self, goal_id: str, call_id: str) -> None:
        """End what was left running of a call, by an earlier process or by a run that raised; return when it is gone.

        Raises: Conflict when something may still run and is not provably ours to end; Unavailable when it does not end.
        """
        ...


class ToolSource(Protocol):
    """Where tools come from: the package itself, or a server or folder whose tools are known only when it is opened.

    A source is opened, listed and closed by each run on the event loop of that run. Calls go through its tools.
    """

    @property
    def name(self) -> str:
        """What people know the source by."""
        ...

    async def open(self) -> None:
        """Get ready to list the tools and to run their calls.

        Raises: Unavailable; what was begun by then is ended.
        """
        ...

    async def list(self) -> Sequence[Tool]:
        """Return the tools of an open source, each with a name of its own.

        Raises: Unavailable
        """
        ...

    async def close(self) -> None:
        """End all that the source has begun. A source that is not open stays closed."""
        ...


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict, and who has given it, as it is recorded: a policy, or a person who approved calls in advance."""

    verdict: Verdict
    by: str = "policy"


class Policy(Protocol):
    """What a model may do without asking. Calls of a person, a plan and a flow are not judged."""

    def judge(self, call: ToolCall) -> Judgement:
        """Say whether a call may run, and who says so."""
        ...
