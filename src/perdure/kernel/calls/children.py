"""Child goals: the calls that start them, the port that runs them, and the outcomes that record their ends."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from perdure.errors import NotFound
from perdure.kernel.calls.cancellation import cancelled_call
from perdure.kernel.calls.cleanup import PARENT, is_cancelled_by_parent
from perdure.kernel.events import Termination, ToolCall, ToolError, ToolOutput
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.call_state import CallState

if TYPE_CHECKING:
    from perdure.kernel.ports import StateStore

CHILD_FAILED = "child_failed"
"""The error code of a call whose child has failed or was cancelled."""
TOO_DEEP = "too_deep"
"""The error code of a call whose child is not started, because it would be nested too deep."""
MAX_DEPTH = 32
"""How deep children can be nested: a goal without a parent is at depth 0, its children are at depth 1."""
RESERVED_PREFIX = "child:"
"""Start keys of children and keys of their ends begin with this; a user's key must not."""
_LONGEST_KEY = 200
_HASH_LENGTH = 10
_SLUG_LENGTH = 32
_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
_MOMENT = re.compile(r"\d{8}-\d{6}")


class Children(Protocol):
    """Creates, runs and cancels the children of goals."""

    async def start(self, parent: GoalState, calls: Sequence[ToolCall], queue: str) -> Sequence[ToolOutput]:
        """Create and run the child of each call, unless it exists; return the outcomes that are already known.

        The intents of the calls are durable. An existing child is resumed if it can continue and no worker runs it.
        An outcome is known if the child cannot be created, or has ended.
        """
        ...

    async def cancel(self, goal_ids: Collection[str]) -> None:
        """Cancel children and their own children; return when they have ended, or after some seconds.

        A child that does not exist or has ended is ignored.
        """
        ...

    async def are_active(self, goal_ids: Collection[str]) -> bool:
        """Return whether the parent has to stay, because one of its children runs or is about to run.

        A parent that must not occupy a worker meanwhile is released; a worker resumes it when a child has ended.
        """
        ...


class NoChildren:
    """Runs no children, for goals that cannot have any. See Children."""

    async def start(self, parent: GoalState, calls: Sequence[ToolCall], queue: str) -> Sequence[ToolOutput]:  # noqa: ARG002
        """See Children.start."""
        error = ToolError("invalid", "Children cannot be started here.")
        return [ToolOutput(call.call_id, ok=False, error=error) for call in calls]

    async def cancel(self, goal_ids: Collection[str]) -> None:
        """See Children.cancel."""

    async def are_active(self, goal_ids: Collection[str]) -> bool:  # noqa: ARG002
        """See Children.are_active."""
        return False


NO_CHILDREN: Children = NoChildren()


def child_goal_id(parent_id: str, step: str, flow: str) -> str:
    """Return the id of the child that a step of a goal starts: the same after a crash and in a retry of the step."""
    words = re.sub(r"[^a-z0-9]+", "-", flow.lower()).strip("-")[:_SLUG_LENGTH].strip("-")
    moment = _MOMENT.match(parent_id)
    number = int.from_bytes(hashlib.sha256(f"{parent_id}\n{step}".encode(errors="backslashreplace")).digest())
    letters = "".join(_ALPHABET[number >> 5 * place & 31] for place in range(_HASH_LENGTH))
    return f"{moment[0] if moment else '19700101-000000'}-{words or 'goal'}-{letters}"


def child_name(arguments: Mapping[str, Any]) -> str:
    """Return what the id of a child is named after: its flow, or the bot that it is delegated to."""
    return str(arguments.get("flow", arguments.get("bot")))


def start_key(parent_id: str, call_id: str) -> str:
    """Return the start key of a child, `child:<parent id>/<call id>`; a call id that is too long is hashed."""
    key = f"{RESERVED_PREFIX}{parent_id}/{call_id}"
    if len(key) <= _LONGEST_KEY and key.isprintable():
        return key
    return f"{RESERVED_PREFIX}{parent_id}/{hashlib.sha256(call_id.encode(errors='backslashreplace')).hexdigest()}"


def end_key(goal_id: str, seq: int) -> str:
    """Return the key under which the end of a child, event `seq`, is posted to its parent."""
    return f"{RESERVED_PREFIX}{goal_id}@{seq}"


def child_of(call: CallState) -> str:
    """Return the id of the goal that a child call has started."""
    return (call.call.child or "") if isinstance(call.call, ToolCall) else ""


def open_children(state: GoalState) -> dict[str, CallState]:
    """Return the open child calls of a goal by the ids of their goals."""
    return {child_of(call): call for call in state.open_calls.values() if call.is_child}


async def outcome_of(store: "StateStore", state: GoalState, goal_id: str) -> ToolOutput | None:
    """Return the outcome of the open call that waits for a child, from the end of the child.

    Return None if no call waits for the child; if the child was retried meanwhile, because its next end is posted too;
    and if it was cancelled for an earlier call, because it is reopened for this one.
    """
    call = open_children(state).get(goal_id)
    if call is None:
        return None
    try:
        child = fold(await store.load(goal_id))
    except NotFound:
        error = ToolError(CHILD_FAILED, f"The child {goal_id} was deleted.", args=[goal_id, "failed"])
        return ToolOutput(call.call.call_id, ok=False, error=error)
    if child.termination is None or is_cancelled_for_other(child, call.call.call_id):
        return None
    return _outcome(state, call, child, child.termination)


def is_cancelled_for_other(child: GoalState, call_id: str) -> bool:
    """Return whether a child was cancelled for an earlier call of its step, and not for this one.

    A flow may cancel a child and then fail. A retry of the flow calls the step of that child again, and this call needs
    the result of the same child. The child was created for the call in `parent`, and reopened for the call that is the
    reason of the reopening.
    """
    parent = child.begun.parent
    if parent is None or not is_cancelled_by_parent(child):
        return False
    needed_by = [parent.call_id, *(each.reason for each in child.reopenings if each.by == PARENT)]
    return needed_by[-1] != call_id


def _outcome(state: GoalState, call: CallState, child: GoalState, end: Termination) -> ToolOutput:
    """Return the outcome of a call from the end of its child, without usage that earlier calls have recorded.

    A child that was cancelled for this call shows that the flow cancelled the call, and that the process died before it
    recorded that. The flow will cancel the call again, so the call is recorded as cancelled.
    """
    before = [
        each.outcome
        for each in state.calls.values()
        if each.is_child and each.outcome is not None and child_of(each) == child.goal_id
    ]
    usages = [each.usage or {} for each in before]
    tokens = child.used.tokens - sum(int(usage.get("tokens", 0)) for usage in usages)
    cost_usd = child.used.usd - sum(float(usage.get("cost_usd", 0.0)) for usage in usages)
    duration_ms = round(child.used.seconds * 1000) - sum(each.duration_ms for each in before)
    usage: dict[str, Any] = {"tokens": max(tokens, 0), "cost_usd": max(cost_usd, 0.0)}
    is_cancelled = is_cancelled_by_parent(child)
    error: ToolError | None = None
    if end.reason != "done":
        error = cancelled_call(call, child.updated_us).error if is_cancelled else _error(child, end)
    return ToolOutput(
        call.call.call_id,
        ok=end.reason == "done",
        output=_output(call, child, end),
        error=error,
        duration_ms=max(duration_ms, 0),
        usage=usage if any(usage.values()) else None,
    )


def _output(call: CallState, child: GoalState, end: Termination) -> Any:
    """Return the result of a child: its value; for a model also its id and its status, which says why there is none."""
    is_delegated = isinstance(call.call, ToolCall) and call.call.turn is not None
    return {"goal_id": child.goal_id, "status": child.status, "value": end.value} if is_delegated else end.value


def _error(child: GoalState, end: Termination) -> ToolError:
    """Return the end of a child as an error that contains the arguments of GoalFailed."""
    message = end.detail or (end.error.message if end.error else f"It ended with the reason {end.reason}.")
    traceback = end.error.traceback if end.error else None
    args = [child.goal_id, end.reason]
    return ToolError(CHILD_FAILED, message, args=args, traceback=traceback, retryable=False)
