"""What a retry of a failed goal reopens: the steps that are called again, the unknown outcomes, and what forbids it."""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perdure.errors import Conflict
from perdure.kernel.calls.cancellation import is_cancelled_by_flow, is_cut_off
from perdure.kernel.calls.cleanup import PARENT
from perdure.kernel.events import (
    DecisionKind,
    Event,
    Limits,
    PolicySpec,
    Reopened,
    Termination,
    content_of,
    is_same_content,
)
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.repetition import cleanup_steps, may_have_happened
from perdure.kernel.history.step_names import branch_of, is_marker, may_follow
from perdure.kernel.limits import raised_limits


class NotRetried(Conflict):
    """A goal cannot be retried; where that helps, the message offers a fork before a step."""

    def __init__(self, what: str, goal_id: str, before: str | None = None, command: str | None = None) -> None:
        offered = command or f"perdure goal fork {goal_id} --before {shlex.quote(before or '')}"
        super().__init__(what if before is None else f"{what} Fork it instead: {offered}")
        self.what = what
        self.goal_id = goal_id
        self.before = before


def plan_retry(state: GoalState, *, by: str, reason: str | None = None, policy: PolicySpec | None = None) -> Reopened:
    """Return the event that reopens a failed goal.

    The steps that the end came from are called again, and so is what the flow cancelled because of that end: a group
    cancels its other members when one has failed. A call that may have had its effect is unknown instead, and waits
    for a decision: a `once` step is never repeated without one.

    Raises: NotRetried when the goal has not failed, or a flow has begun other steps because of the failure.
    """
    end = state.termination
    if end is None or state.status != "failed":
        raise _not_failed(state)
    steps = _failed_calls(state) | _passed_deadlines(state, end) | _skipped_calls(state, end)
    named = _ended_by(state, end, steps)
    calls = [steps[step] for step in named]
    if state.begun.mind.kind == "flow":
        _refuse_after_compensation(state, named)
        calls = [*calls, *_cancelled_by_failure(state, calls)]
    return replace(_reopened(state, calls, by=by, reason=reason), policy=policy)


def _reopened(state: GoalState, calls: Sequence[CallState], *, by: str, reason: str | None) -> Reopened:
    return Reopened(
        by=by,
        reason=reason,
        ended_seq=state.head.seq,
        again=tuple(call.call.call_id for call in calls if not may_have_happened(call)),
        unknown=tuple(call.call.call_id for call in calls if may_have_happened(call)),
    )


def plan_continuation(state: GoalState, call_id: str | None = None) -> Reopened:
    """Return the event that reopens a child which its parent has cancelled, for a later call that wants its result.

    The calls that the cancel cut off are called again, unless they may have had their effect; asks and waits are open
    still.

    Raises: NotRetried when the flow of the child has begun to clean up.
    """
    if not state.can_be_reopened or state.status != "cancelled":
        what = f"{state.goal_id} cannot be continued: it is {state.status}"
        raise NotRetried(f"{what}{' and has cleaned up' if state.cancel is not None else ''}.", state.goal_id)
    last = {call.call.step: call for call in state.calls.values()}
    calls = [call for call in last.values() if is_cut_off(call)]
    return _reopened(state, calls, by=PARENT, reason=call_id)


def is_retry_as_given(
    events: Sequence[Event],
    known: tuple[str, Mapping[str, Any]],
    *,
    reason: str | None,
    limits: Limits,
    policy: PolicySpec | None = None,
) -> bool:
    """Tell whether what a key has recorded is a retry for the same reason, with the same limits and the same policy.

    `known` is the event that has the key: the last of the append that reopened the goal.
    """
    raised = [content_of(each) for each in raised_limits(limits)]
    given = content_of(Reopened(by="", reason=reason, ended_seq=0, policy=policy))
    for number, event in enumerate(events):
        if event.type != "reopened":
            continue
        append = [(each.type, each.content()) for each in events[number : number + 1 + len(raised)]]
        is_same_retry = all(append[0][1].get(name) == given.get(name) for name in ("reason", "policy"))
        is_same = is_same_retry and _are_same_limits(append[1:], raised)
        if is_same and append[-1] == (known[0], dict(known[1])):
            return True
    return False


def _are_same_limits(recorded: Sequence[tuple[str, dict[str, Any]]], raised: Sequence[dict[str, Any]]) -> bool:
    if len(recorded) != len(raised) or any(kind != "limit" for kind, _ in recorded):
        return False
    return all(is_same_content("limit", known, each) for (_, known), each in zip(recorded, raised, strict=True))


def _not_failed(state: GoalState) -> NotRetried:
    """Say why a goal that has not failed is not retried, with the fork that does what may be meant."""
    what = f"Only a failed goal can be retried. {state.goal_id} is {state.status}."
    if cleaned := cleanup_steps(state):
        return NotRetried(f"{what} Its cleanup began {', '.join(cleaned)}; a fork would not undo that.", state.goal_id)
    steps = [call.call.step for call in state.calls.values()]
    if state.termination is None or not steps:
        return NotRetried(what, state.goal_id)
    return NotRetried(what, state.goal_id, steps[0] if state.status == "done" else steps[-1])


def _failed_calls(state: GoalState) -> dict[str, CallState]:
    """Return the last call of each step that it has ended as failed, in the order the calls were begun."""
    last = {call.call.step: call for call in state.calls.values()}
    return {step: call for step, call in last.items() if _has_failed(call)}


def _passed_deadlines(state: GoalState, end: Termination) -> dict[str, CallState]:
    """Return the deadlines that the goal ended by: of a block, a question or a signal. They begin anew in a retry."""
    last = {call.call.step: call for call in state.calls.values()}
    return {step: last[step] for step in end.steps or () if step in last and _is_decided(last[step], "elapsed")}


def _skipped_calls(state: GoalState, end: Termination) -> dict[str, CallState]:
    """Return the calls that the goal ended by because they were skipped with a value that the flow rejected."""
    last = {call.call.step: call for call in state.calls.values()}
    return {step: last[step] for step in end.steps or () if step in last and _is_decided(last[step], "skip")}


def _has_failed(call: CallState) -> bool:
    if call.is_open:
        return False
    if call.outcome is not None:
        return not call.outcome.ok
    return _is_decided(call, "abort")


def _is_decided(call: CallState, kind: DecisionKind) -> bool:
    return call.decision is not None and call.decision.decision == kind


def _cancelled_by_failure(state: GoalState, failed: Sequence[CallState]) -> list[CallState]:
    """Return the calls that a flow has cancelled because it was about to fail; it does not cancel them in a retry.

    They are the last calls of their steps, ended after the first failure, and nothing was begun because of them. An
    end that comes from no step leaves only the calls after whose end nothing was begun at all. A call that the flow
    cancels for another reason, such as the loser of a race, is cancelled again when the flow is run again.
    """
    last = {call.call.step: call for call in state.calls.values()}
    cancelled = [call for call in last.values() if not call.is_open and is_cancelled_by_flow(call)]
    if not failed:
        begun_seq = max((call.seq for call in state.calls.values()), default=0)
        return [call for call in cancelled if (call.ended_seq or 0) > begun_seq]
    first_seq = min(call.ended_seq or call.seq for call in failed)
    after = [call for call in cancelled if (call.ended_seq or 0) > first_seq and call not in failed]
    return [call for call in after if not _begun_because_of(state, call.call.step, call)]


def _ended_by(state: GoalState, end: Termination, failed: Mapping[str, CallState]) -> Sequence[str]:
    """Return the failed steps that the goal ended by, in the order their last calls were begun.

    An end of version 1 does not say. Then it is every failed step of a plan. A flow that ended by an error of its own
    had caught every failure; for one that ended because a step had failed see `_likely_ended_by`.
    """
    match state.begun.mind.kind:
        case "model":
            return []
        case "flow" if end.steps is None:
            return _likely_ended_by(state, failed) if end.reason == "failed" else []
        case _:
            return [step for step in failed if end.steps is None or step in end.steps]


def _likely_ended_by(state: GoalState, failed: Mapping[str, CallState]) -> Sequence[str]:
    """Return the failed steps that a flow of version 1 ended by, when it ended because a step had failed.

    They are the steps after which nothing was begun that could come of the failure. Without any, the flow has reacted
    to the last failure, and a retry of that step is refused.
    """
    last = [step for step, call in failed.items() if not _begun_because_of(state, step, call)]
    return last or [*failed][-1:]


def _refuse_after_compensation(state: GoalState, named: Collection[str]) -> None:
    """Refuse to retry a step when the flow has reacted to its failure: what it did then would stand beside a success.

    Raises: NotRetried
    """
    calls = _failed_calls(state) | ({} if state.termination is None else _passed_deadlines(state, state.termination))
    failed = {step: call for step, call in calls.items() if step in named}
    reactions = {step: _begun_because_of(state, step, call) for step, call in failed.items()}
    first = next((step for step in failed if reactions[step]), None)
    if first is None:
        return
    begun = dict.fromkeys(name for names in reactions.values() for name in names)
    is_one = len(begun) == 1
    what = (
        f"{state.goal_id} cannot be retried: after step {first} had failed, the flow began"
        f" {', '.join(begun)}. A retry of {first} would not undo {'that step' if is_one else 'those steps'}."
    )
    raise NotRetried(what, state.goal_id, first)


def _begun_because_of(state: GoalState, step: str, failed: CallState) -> list[str]:
    """Return the steps that a flow began after a step had failed, where it may have known of the failure."""
    ended_seq = failed.ended_seq or failed.seq
    later = (call.call.step for call in state.calls.values() if call.seq > ended_seq)
    others = (name for name in later if name != step and not is_marker(name))
    return list(dict.fromkeys(name for name in others if may_follow(branch_of(step), branch_of(name))))
