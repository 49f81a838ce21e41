"""What a plan is once it has been read: frozen values, all of them checked."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.kernel.events import Effect
from perdure.minds.retry import NO_RETRY, Retry

Ending = Literal["done", "failed", "skipped"]

OUT_PREFIX = "PERDURE_OUT_"
LEFT_OUT = "PERDURE_LEFT_OUT"
"""Names the variables that were too much together."""


@dataclass(frozen=True, slots=True)
class Exec:
    """Run a program; with `is_shell`, `argv` is one text for sh."""

    argv: tuple[str, ...]
    is_shell: bool = False
    check: tuple[str, ...] | None = None
    timeout_s: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Ask a person."""

    question: str
    options: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for a number of seconds or until a moment; exactly one of the two is given."""

    seconds: float | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class UseTool:
    """Call a tool by its name."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Work = Exec | Question | Pause | UseTool


@dataclass(frozen=True, slots=True)
class Condition:
    """How a needed step must have ended; with an answer, it is a question that must have been answered so."""

    step: str
    ending: Ending = "done"
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan."""

    id: str
    work: Work
    needs: tuple[str, ...] = ()
    effect: Effect = "once"
    retry: Retry = NO_RETRY
    condition: Condition | None = None

    @property
    def is_tool(self) -> bool:
        """Whether it takes one of the slots for what runs at the same time."""
        return isinstance(self.work, Exec | UseTool)

    @property
    def asks_for_failure(self) -> bool:
        return self.condition is not None and self.condition.ending == "failed"

    @property
    def out_name(self) -> str:
        """The environment variable in which later steps find this one's output."""
        return OUT_PREFIX + self.id.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Plan:
    """A durable runbook: its steps in the order of the file."""

    goal: str
    steps: tuple[PlanStep, ...]
