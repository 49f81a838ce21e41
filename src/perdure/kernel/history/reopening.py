"""Plans the retry of a failed goal: which steps are called again, which wait for a decision, and what prevents it.

A retry continues the same history: a `reopened` event cancels the termination, and lists the calls to repeat. A flow is
then replayed from its first line. Calls with recorded outcomes return them, so the flow runs up to the steps that
failed, and these are called under new call ids. That is correct only if the code before the failure runs the same way:

- A call that may have had its effect (`may_have_happened`) is not repeated; a person decides.
- A call that the flow cancelled because it was about to fail is repeated too: the retry does not cancel it.
- A timer that fired after the failure begins again, if nothing was begun because of it: a deadline that ended the flow.
- If the flow reacted to the failure, for example with a compensation, the retry is refused: the step would succeed
  beside its own compensation. Then a fork before the failure is offered.
"""

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

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
from perdure.kernel.history.step_names import branch_of, is_marker, is_timer, may_follow
from perdure.kernel.limits import raised_limits


class ForkOffered(Conflict):
    """A goal cannot continue. If a fork before a step would help, the message offers it."""

    advice: ClassVar[str]

    def __init__(self, what: str, goal_id: str, before: str | None = None, command: str | None = None) -> None:
        offered = command or shlex.join(["perdure", "goal", "fork", goal_id, "--before", before or ""])
        super().__init__(what if before is None else f"{what} {self.advice}: {offered}")
        self.what = what
        self.goal_id = goal_id
        self.before = before
        """The shortest name of the step; None if no fork helps."""

    def with_command(self, command: str) -> Self:
        """Return the same error with the command that an interface offers for the fork."""
        return type(self)(self.what, self.goal_id, self.before, command)


class NotRetried(ForkOffered):
    """A goal cannot be retried."""

    advice = "Fork it instead"


def plan_retry(state: GoalState, *, by: str, reason: str | None = None, policy: PolicySpec | None = None) -> Reopened:
    """Return the event that reopens a failed goal. See the module.

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
        calls = [*calls, *_cancelled_by_failure(state, calls), *_fired_by_failure(state, calls)]
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
    """Return the event that reopens a child that its parent cancelled, for a later call that needs its result.

    The calls that the cancel interrupted are called again, unless they may have had their effect. Questions and waits
    are still open.

    Raises: NotRetried when the flow of the child has begun to clean up.
    """
    if not state.can_be_reopened or state.status != "cancelled":
        what = f"{state.goal_id} cannot be continued: it is {state.status}"
        cleaned_up = " and has cleaned up" if state.cancel is not None else ""
        raise NotRetried(f"{what}{cleaned_up}.", state.goal_id)
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
    """Return whether a key has recorded a retry with the same reason, limits and policy.

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
    """Describe why a goal that has not failed cannot be retried, and offer a fork."""
    what = f"Only a failed goal can be retried. {state.goal_id} is {state.status}."
    if cleaned := cleanup_steps(state):
        return NotRetried(f"{what} Its cleanup began {', '.join(cleaned)}; a fork would not undo that.", state.goal_id)
    steps = [call.call.step for call in state.calls.values()]
    if state.termination is None or not steps:
        return NotRetried(what, state.goal_id)
    return NotRetried(what, state.goal_id, steps[0] if state.status == "done" else steps[-1])


def _failed_calls(state: GoalState) -> dict[str, CallState]:
    """Return the last call of each failed step, in the order the calls were begun."""
    last = {call.call.step: call for call in state.calls.values()}
    return {step: call for step, call in last.items() if _has_failed(call)}


def _passed_deadlines(state: GoalState, end: Termination) -> dict[str, CallState]:
    """Return the deadlines that caused the end: of a block, a question or a signal. They restart in a retry."""
    last = {call.call.step: call for call in state.calls.values()}
    return {step: last[step] for step in end.steps or () if step in last and _is_decided(last[step], "elapsed")}


def _skipped_calls(state: GoalState, end: Termination) -> dict[str, CallState]:
    """Return the calls that caused the end because they were skipped with a value that the flow rejected."""
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
    """Return the calls that a flow cancelled because it was about to fail; it does not cancel them in a retry.

    They are the last calls of their steps, ended after the first failure, and no call was begun because of them. If no
    step caused the end, they are the calls after which no call was begun at all. A call that the flow cancels for
    another reason, such as the loser of a race, is cancelled again in the replay.
    """
    last = {call.call.step: call for call in state.calls.values()}
    cancelled = [call for call in last.values() if not call.is_open and is_cancelled_by_flow(call)]
    return _without_consequences(state, cancelled, failed)


def _fired_by_failure(state: GoalState, failed: Sequence[CallState]) -> list[CallState]:
    """Return the fired timers that begin again in a retry. See `_cancelled_by_failure`."""
    timers = [call for call in state.calls.values() if is_timer(call.call.step)]
    return _without_consequences(state, timers, failed)


def _without_consequences(state: GoalState, calls: Sequence[CallState], failed: Sequence[CallState]) -> list[CallState]:
    """Return those of some calls that ended after the first failure, and because of which no call was begun."""
    if not failed:
        begun = (call.seq for call in state.calls.values() if not is_timer(call.call.step))
        begun_seq = max(begun, default=0)
        return [call for call in calls if (call.ended_seq or 0) > begun_seq]
    first_seq = min(call.ended_seq or call.seq for call in failed)
    after = [call for call in calls if (call.ended_seq or 0) > first_seq and call not in failed]
    return [call for call in after if not _begun_because_of(state, call.call.step, call)]


def _ended_by(state: GoalState, end: Termination, failed: Mapping[str, CallState]) -> Sequence[str]:
    """Return the failed steps that caused the end, in the order their last calls were begun.

    An end of version 1 does not record them. For a plan, it is every failed step. A flow that ended by an error of its
    own had caught every failure; for a flow that ended because a step failed, see `_likely_ended_by`.
    """
    match state.begun.mind.kind:
        case "model":
            return []
        case "flow" if end.steps is None:
            return _likely_ended_by(state, failed) if end.reason == "failed" else []
        case _:
            return [step for step in failed if end.steps is None or step in end.steps]


def _likely_ended_by(state: GoalState, failed: Mapping[str, CallState]) -> Sequence[str]:
    """Return the failed steps that caused the end of a flow of version 1, which ended because a step failed.

    They are the steps after which no call was begun that could follow from the failure. If there are none, the flow has
    reacted to the last failure, and a retry of that step is rejected.
    """
    last = [step for step, call in failed.items() if not _begun_because_of(state, step, call)]
    return last or [*failed][-1:]


def _refuse_after_compensation(state: GoalState, named: Collection[str]) -> None:
    """Check that the flow did not react to a failure: its reaction would remain beside the success of a retry.

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
    """Return the steps that a flow began after a step failed, in branches that may depend on that step.

    A later attempt of a step that was begun before is not one of them. A pure step has no intent: that it was begun
    before is known by what it took, to a millisecond.
    """
    ended_seq, known_us = failed.ended_seq or failed.seq, (failed.ended_us or 0) - 1_000
    first: dict[str, CallState] = {}
    for call in state.calls.values():
        first.setdefault(call.call.step, call)
    recorded = (call for call in first.values() if call.seq > ended_seq)
    later = (call.call.step for call in recorded if call.has_intent or call.started_us > known_us)
    others = (name for name in later if name != step and not is_marker(name))
    return [name for name in others if may_follow(branch_of(step), branch_of(name))]
