"""The tool `delegate`: a bot gives a part of its goal to a bot, as a child goal within the rest of its own limits."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.errors import Exhausted, Invalid
from perdure.kernel.calls.children import start_key
from perdure.kernel.events import Limits, ParentCall, PolicySpec, ToolCall, ToolError, ToolOutput
from perdure.kernel.fold import ASSISTANT, GoalState
from perdure.kernel.tool import CallContext, Check, ToolSpec
from perdure.minds.model.providers.choice import NoModel

if TYPE_CHECKING:
    from perdure.app.goals.new_goal import NewGoal
    from perdure.app.models.model_goals import ModelGoals

DELEGATE = "delegate"
MAX_DEPTH = 3
"""Maximum depth of delegated goals: a goal without a parent is at depth 0."""
MOST_CHILDREN = 16
"""Maximum number of child goals of one goal."""
_NAMES = ("bot", "goal", "limits")
_LIMITS = ("iterations", "tokens", "usd", "seconds")
_SHARED = ("tokens", "usd", "seconds")
"""The limits that count over a goal and its children."""
_SPEC = ToolSpec(
    DELEGATE,
    "Starts a goal of its own for a bot, waits for its end, and returns {goal_id, status, value}. It sees nothing"
    " of this conversation: say in the goal all that it needs. It works in the same folder, within your limits.",
    {
        "type": "object",
        "properties": {
            "bot": {"type": "string", "description": f"The slug of the bot; {ASSISTANT} is the built-in one."},
            "goal": {"type": "string", "pattern": r"\S", "description": "What the bot is to reach."},
            "limits": {
                "type": "object",
                "properties": {
                    "iterations": {"type": "integer", "minimum": 1},
                    "tokens": {"type": "integer", "minimum": 1},
                    "usd": {"type": "number", "exclusiveMinimum": 0},
                    "seconds": {"type": "number", "exclusiveMinimum": 0},
                },
                "additionalProperties": False,
                "description": "How much it may use at most (default: all that is left).",
            },
        },
        "required": ["bot", "goal"],
        "additionalProperties": False,
    },
    "idempotent",
    starts_goal=True,
)


class DelegateTool:
    """Describes and validates delegations; see Tool. The kernel runs a call of it as a child goal."""

    spec = _SPEC

    def validate(self, arguments: Mapping[str, Any]) -> None:
        """See Tool.validate."""
        if unknown := sorted(arguments.keys() - {*_NAMES}):
            raise Invalid(f"delegate has no argument {unknown[0]!r}. It has: {', '.join(_NAMES)}.")
        for name in ("bot", "goal"):
            value = arguments.get(name)
            if not isinstance(value, str) or not value.strip():
                raise Invalid(f"{name} must be a string, found {value!r:.80}.")
        limits = arguments.get("limits", {})
        if not isinstance(limits, Mapping):
            raise Invalid(f"limits must be an object, found {limits!r:.80}.")
        if wrong := sorted(limits.keys() - {*_LIMITS}):
            raise Invalid(f"limits has no key {wrong[0]!r}. It has: {', '.join(_LIMITS)}.")
        for name, value in limits.items():
            _require_limit(name, value)

    async def run(self, context: CallContext) -> ToolOutput:
        """See Tool.run. The kernel does not call this: it starts the child."""
        error = ToolError("invalid", "A goal can be delegated by a bot alone.")
        return ToolOutput(context.call.call_id, ok=False, error=error)

    async def check(self, context: CallContext) -> Check:  # noqa: ARG002 (a child is found by its key)
        """See Tool.check."""
        return "not_happened"

    async def reap(self, goal_id: str, call_id: str) -> None:
        """See Tool.reap. It leaves nothing running."""


async def delegated_goal(goals: "ModelGoals", parent: GoalState, call: ToolCall, limits: Limits) -> "NewGoal":
    """Return the goal that a call delegates. It is asked of the model of the bot, else of the model of its parent.

    Raises: Invalid; NotFound when there is no such bot; NoModel.
    """
    slug, text = call.arguments["bot"], call.arguments["goal"]
    bot = None if slug == ASSISTANT else slug
    try:
        new = await goals.new(text, bot=bot, model=None, chat=False, limits=limits)
    except NoModel:
        new = await goals.new(text, bot=bot, model=parent.begun.mind.model, chat=False, limits=limits)
    return replace(
        new,
        goal_id=call.child,
        parent=ParentCall(parent.goal_id, call.call_id),
        workdir=None if parent.begun.workdir is None else Path(parent.begun.workdir),
        key=start_key(parent.goal_id, call.call_id),
        policy=parent.policy or PolicySpec(),
    )


def child_limits(parent: GoalState, open_limits: Sequence[Limits], call: ToolCall, beside: int) -> Limits:
    """Return the limits of a child: the requested ones, but at most its share of what the parent's limits leave.

    A limit leaves what the parent has not used and its open children may not still use. Calls that start together have
    equal shares: otherwise each of them could use the whole rest.

    Raises: Exhausted when nothing is left.
    """
    asked, total = call.arguments.get("limits", {}), asdict(parent.limits)
    found: dict[str, Any] = {}
    for name in _SHARED:
        most = total[name]
        if most is not None:
            held = sum(getattr(each, name) or 0 for each in open_limits)
            share = (most - getattr(parent.used, name) - held) / beside
            most = int(share) if name == "tokens" else share
            if most <= 0:
                raise Exhausted(f"No {name} are left for a child: the goal may use {total[name]:g}.")
        found[name] = _lower(asked.get(name), most)
    return Limits(iterations=_lower(asked.get("iterations"), total["iterations"]), **found)


def _lower(asked: Any, most: Any) -> Any:
    known = [each for each in (asked, most) if each is not None]
    return min(known, default=None)


def _require_limit(name: str, value: Any) -> None:
    is_whole = name in ("iterations", "tokens")
    kind = int if is_whole else int | float
    if isinstance(value, bool) or not isinstance(value, kind) or not 0 < value < 1e15:
        what = "whole number" if is_whole else "number"
        raise Invalid(f"limits.{name} must be a {what} above 0, found {value!r:.80}.")
