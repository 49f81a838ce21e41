"""The first event of a goal, with its mind, limits and policy."""

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

LimitName = Literal["iterations", "tokens", "usd", "seconds"]
MindKind = Literal["command", "plan", "flow", "model"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a goal may use; None means unlimited."""

    iterations: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class MindSpec:
    """The mind of a goal, as its first event records it: everything that a resume needs to construct it again."""

    kind: MindKind
    plan: str | None = None
    flow: str | None = None
    """The name of the flow."""
    at: str | None = None
    """Where to import the flow from, `module:qualname`."""
    args: Any = None
    shell: bool | None = None
    cleanup: bool | None = None
    model: str | None = None
    """The model that the goal was started with, `provider:name`."""
    chat: bool | None = None
    """Whether the goal is a conversation: it waits for the next message instead of ending."""
    options: dict[str, Any] | None = None
    """Options that only this kind of mind reads."""


class RuleSpec(TypedDict):
    """A verdict on the calls of a tool, by patterns at dotted paths of their arguments."""

    tool: str
    verdict: Literal["allow", "ask", "deny"]
    arguments: NotRequired[dict[str, str]]


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """The policy for the calls that a model decides in a goal, as specified at its start."""

    preset: str = "ask"
    rules: tuple[RuleSpec, ...] = ()
    """Rules in addition to those of the preset."""
    yes: bool = False
    """Whether calls that would need a question to a person are approved instead."""


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """The last event that a fork shares with the goal it was made from."""

    goal_id: str
    seq: int


@dataclass(frozen=True, slots=True)
class ParentCall:
    """The call of a goal that started a child goal."""

    goal_id: str
    call_id: str


@dataclass(frozen=True, slots=True)
class GoalBegun:
    """The start of a goal, with all its parameters."""

    text: str
    mind: MindSpec
    bot: str | None = None
    """The slug of a bot; null: the built-in assistant."""
    limits: Limits = field(default_factory=Limits)
    workdir: str | None = None
    forked_from: ForkedFrom | None = None
    parent: ParentCall | None = None
    voided: tuple[str, ...] = ()
    """The ids of calls that were open where a fork begins: they do not belong to the fork."""
    tags: tuple[str, ...] = ()
    bot_version: int | None = None
    """The version of the bot that the goal was started with."""
    policy: PolicySpec | None = None
    """Null: a person is asked about each call of a model."""
