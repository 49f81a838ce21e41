"""The effects that a fork repeats or cannot undo, from the calls of the goal that it is forked from.

A fork starts its children itself, under new ids. So a repeated child call repeats all effects of the child. They follow
from the history of the child, which the caller must read: see `Effects`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState

_MAY_HAVE_HAPPENED = frozenset({"timeout", "bad_result", "cancelled", "signal"})
"""Error codes of `once` calls that may have had their effect before they failed.

`signal` is a program that was killed, perhaps by the kernel for its memory use, after the effect.
"""


@dataclass(frozen=True, slots=True)
class Effects:
    """The `once` calls of a goal, and of the children below it, that had their effect or may have had it, by name."""

    done: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """All effects, the unresolved ones first."""
        return tuple(dict.fromkeys((*self.unresolved, *self.done)))


ChildEffects = Mapping[str, Effects]
"""The effects of children by goal id; a missing child has none."""
NO_CHILDREN: ChildEffects = MappingProxyType({})
_NONE = Effects()


def effects_of(state: GoalState, children: ChildEffects) -> Effects:
    """Return the effects of a goal, including those of its children."""
    calls = [call for call in state.calls.values() if _is_once(call)]
    done = [call.call.step for call in calls if _is_done(call)]
    unresolved = [call.call.step for call in calls if is_unresolved(call)]
    for call in _last_of_each_child(state):
        found = child_effects(call, children)
        done += [named(call, found.done)] if found.done else []
        unresolved += [named(call, found.unresolved)] if found.unresolved else []
    return Effects(tuple(dict.fromkeys(done)), tuple(dict.fromkeys(unresolved)))


def child_effects(call: CallState, children: ChildEffects) -> Effects:
    """Return the effects of the child of a call; none for a call without a child."""
    child = child_of(call)
    return _NONE if child is None else children.get(child, _NONE)


def named(call: CallState, inside: Iterable[str]) -> str:
    """Name a call together with steps of its child."""
    return f"{call.call.step} (its child {child_of(call)}: {', '.join(inside)})"


def name_unresolved(call: CallState, children: ChildEffects) -> str:
    """Name a call that may have happened: its step, with the unresolved steps of its child."""
    inside = child_effects(call, children).unresolved
    return named(call, inside) if inside else call.call.step


def child_of(call: CallState) -> str | None:
    """Return the id of the child of a call."""
    return call.call.child if isinstance(call.call, ToolCall) else None


def _last_of_each_child(state: GoalState) -> list[CallState]:
    """Return the last call of each child; earlier calls of the child are attempts of the same step."""
    last = {child: call for call in state.calls.values() if (child := child_of(call)) is not None}
    return [*last.values()]


def may_have_happened(call: CallState) -> bool:
    """Return whether a settled call without success may have had its effect."""
    if call.decision is not None and call.decision.decision in ("abort", "skip"):
        return True
    error = call.outcome.error if call.outcome else None
    if call.outcome is not None and call.outcome.happened is not None:
        return call.outcome.happened != "no"
    return _is_once(call) and error is not None and error.code in _MAY_HAVE_HAPPENED


def begun_once(state: GoalState, children: ChildEffects = NO_CHILDREN) -> list[CallState]:
    """Return the calls that may have happened and that a fork at this state would repeat.

    They are the open `once` calls, except those that await approval, which have not started; and the calls of children
    with effects that are open or about to be retried.
    """
    begun = [call for call in state.open_calls.values() if _is_once(call) and not call.awaits_approval]
    return [*begun, *(call for call in restarted_children(state) if child_effects(call, children).all)]


def restarted_children(state: GoalState) -> list[CallState]:
    """Return the child calls that a fork would repeat: open ones, and failed ones that are retried next."""
    calls = [call for call in state.open_calls.values() if call.is_child]
    again = [state.calls[call_id] for each in state.reopenings for call_id in each.again if call_id in state.calls]
    failed = [call for call in again if call.is_child and not call.is_open]
    if not failed:
        return calls
    last = {call.call.step: call for call in state.calls.values()}
    return [*calls, *(call for call in failed if last[call.call.step] is call)]


def unresolved_after(state: GoalState, seq: int, children: ChildEffects = NO_CHILDREN) -> list[CallState]:
    """Return the calls begun after an event for which it is unknown whether a `once` effect happened."""
    return [call for call in state.calls.values() if call.seq > seq and is_unresolved(call, children)]


def is_unresolved(call: CallState, children: ChildEffects = NO_CHILDREN) -> bool:
    """Return whether it is unknown if a `once` call had its effect.

    A child call is unresolved if a call of the child is.
    """
    if child_effects(call, children).unresolved:
        return True
    if not _is_once(call):
        return False
    if call.is_open:
        return not call.awaits_approval
    return not _is_done(call) and may_have_happened(call)


def done_after(state: GoalState, seq: int, children: ChildEffects = NO_CHILDREN) -> list[str]:
    """Return the `once` steps that were done after an event, except in a cleanup: a fork there repeats them.

    The effects of a child count if its call ended after the event.
    """
    wanted = [call for call in state.calls.values() if state.cancel is None or call.seq < state.cancel_seq]
    steps = []
    for call in wanted:
        is_after = call.ended_seq is None or call.ended_seq > seq
        if is_after and _is_once(call) and _is_done(call):
            steps.append(call.call.step)
        elif is_after and (inside := child_effects(call, children).done):
            steps.append(named(call, inside))
    return list(dict.fromkeys(steps))


def cleanup_steps(state: GoalState) -> list[str]:
    """Return the steps with effects that the cleanup of a cancelled goal began."""
    calls = [call.call for call in state.calls.values() if state.cancel is not None and call.seq > state.cancel_seq]
    return list(dict.fromkeys(call.step for call in calls if isinstance(call, ToolCall) and call.effect != "pure"))


def _is_once(call: CallState) -> bool:
    return isinstance(call.call, ToolCall) and call.call.effect == "once"


def _is_done(call: CallState) -> bool:
    if call.outcome is not None:
        return call.outcome.ok
    return call.decision is not None and call.decision.decision == "skip"
