"""Children of a flow: the request of `goal.child`, and the exception of a failed child."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from perdure.errors import GoalCancelled, GoalFailed, Invalid
from perdure.kernel.calls.children import CHILD_FAILED, child_goal_id
from perdure.kernel.events import Limits, ToolCall, ToolError
from perdure.minds.flow.registry import require_newest
from perdure.minds.flow.steps.failed_steps import tag_with_steps
from perdure.minds.flow.steps.tracebacks import attribute_of
from perdure.minds.flow.values.values import arguments_to_json, digest, reader_of, require_readable
from perdure.minds.step_status import StepStatus

if TYPE_CHECKING:
    from perdure.minds.flow.flow import Flow

_BETWEEN = re.compile(r"The child \S+ failed: (?:… )?(?=The child \S+ failed: )")
"""Matches the children between the nearest one and the one that failed first."""


@dataclass(frozen=True)
class ChildGoal:
    """A flow to run as a goal of its own."""

    parent_id: str
    flow: str
    at: str
    """The import path, `module:qualname`."""
    args: Mapping[str, Any]
    """The arguments as JSON."""
    read: Callable[[Any], Any]
    """Converts the recorded result to the return type."""
    limits: Limits = field(default_factory=Limits)
    key: str | None = None

    @property
    def digest(self) -> str:
        """The hash of the flow and its arguments, which is compared with the history."""
        return digest({"flow": self.flow, **self.args})

    def call(self, call_id: str, step: str, attempt: int) -> ToolCall:
        """Return the intent to start the child."""
        limits = {name: value for name, value in asdict(self.limits).items() if value is not None}
        child = child_goal_id(self.parent_id, step, self.flow)
        arguments: dict[str, Any] = {
            "flow": self.flow,
            "at": self.at,
            "args": dict(self.args),
            "goal_id": child,
            "digest": self.digest,
        }
        if limits:
            arguments["limits"] = limits
        if self.key is not None:
            arguments["key"] = self.key
        return ToolCall(call_id, step, "child", arguments, "idempotent", attempt, child=child)


def child_goal(
    parent_id: str,
    flow: "Flow[..., Any]",
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    limits: Limits,
    key: str | None,
) -> ChildGoal:
    """Return the request of a call of `goal.child`.

    Raises: Invalid when the child flow does not accept the arguments, one cannot be stored as JSON, or a newer flow has
    the same name.
    """
    require_newest(flow)
    given = arguments_to_json(flow.name, flow.fn, args, kwargs, is_given_goal=True)
    require_readable(flow.fn, args, kwargs, given)
    return ChildGoal(parent_id, flow.name, flow.path, given, reader_of(flow.fn), limits, key)


def child_failure(step: str, found: StepStatus) -> GoalFailed | None:
    """Return the exception of a failed or cancelled child; None for a call that has no child."""
    error = found.error
    if error.code != CHILD_FAILED or found.is_aborted:
        return None
    goal_id, reason = _origin(error)
    kind = GoalCancelled if reason == "cancelled" else GoalFailed
    failed = kind(goal_id, reason, error.message, error.traceback)
    tag_with_steps(failed, [step])
    return failed


def child_ending(error: BaseException) -> str:
    """Describe the end of a flow that did not catch the failure of its child.

    In a chain of children, only the nearest and the one that failed first are named.
    """
    known = attribute_of(error, "__dict__")  # the class may be a user's: see tracebacks
    goal_id, detail = dict.get(known, "id"), dict.get(known, "detail")
    if type(detail) is str:
        detail = _BETWEEN.sub("… ", detail, count=1)
    how = "was cancelled" if issubclass(type(error), GoalCancelled) else f"failed: {detail}"
    return f"The child {goal_id} {how}" if type(goal_id) is str else f"A child {how}"


def _origin(error: ToolError) -> tuple[str, str]:
    match error.args:
        case [str(goal_id), str(reason)]:
            return goal_id, reason
        case _:
            return "", "failed"


def require_flow(what: Any) -> None:
    """Check that a value is a flow.

    Raises: Invalid
    """
    from perdure.minds.flow.flow import Flow

    if not isinstance(what, Flow):
        raise Invalid(f"A child is a flow: expected a function decorated with @flow and its arguments, found {what!r}.")
