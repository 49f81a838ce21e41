"""A plan as frozen, validated values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from perdure.kernel.events import Effect
from perdure.minds.retry import NO_RETRY, Retry

Ending = Literal["done", "failed", "skipped"]

OUT_PREFIX = "PERDURE_OUT_"
LEFT_OUT = "PERDURE_LEFT_OUT"
"""The variable with the names of outputs that were omitted because of their total size."""


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
    """Wait for a number of seconds or until a moment; exactly one of the two is set."""

    seconds: float | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class UseTool:
    """Call a tool by its name."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


StepWork = Exec | Question | Pause | UseTool


@dataclass(frozen=True, slots=True)
class Condition:
    """The expected end of a needed step; with an answer, the expected answer of a question."""

    step: str
    ending: Ending = "done"
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan."""

    id: str
    work: StepWork
    needs: tuple[str, ...] = ()
    effect: Effect = "once"
    retry: Retry = NO_RETRY
    condition: Condition | None = None

    @property
    def is_tool(self) -> bool:
        """Whether it occupies one of the slots for concurrent tools."""
        return isinstance(self.work, Exec | UseTool)

    @property
    def asks_for_failure(self) -> bool:
        return self.condition is not None and self.condition.ending == "failed"

    @property
    def out_name(self) -> str:
        """The environment variable with the output of this step for later steps."""
        return OUT_PREFIX + self.id.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Plan:
    """A durable runbook: its steps in the order of the file."""

    goal: str
    steps: tuple[PlanStep, ...]
