"""What a fork does a second time, and what it cannot undo: told by the calls of the goal that it is forked from.

A fork starts the children of its calls itself, under ids of its own. So all that a child has done is done again where
its call is. What that is says the history of the child, which the caller has read: see `Effects`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from perdure.kernel.events import ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState

_MAY_HAVE_HAPPENED = frozenset({"timeout", "bad_result", "cancelled", "signal"})
"""Error codes after which the effect of a `once` call may be there all the same.

`signal` is a program that was killed, maybe by the kernel for its memory after the effect.
"""


@dataclass(frozen=True, slots=True)
class Effects:
    """The `once` calls of a goal, and of the children below it, that had their effect or may have had it, by name."""

    done: tuple[str, ...] = ()
    unresolved: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[str, ...]:
        """Both, those that may have happened first."""
        return tuple(dict.fromkeys((*self.unresolved, *self.done)))


ChildEffects = Mapping[str, Effects]
"""The effects of children, by the ids of their goals; a child that is missing has none."""
NO_CHILDREN: ChildEffects = MappingProxyType({})
_NONE = Effects()


def effects_of(state: GoalState, children: ChildEffects) -> Effects:
    """Return what the calls of a goal have done; those of its children are named with them."""
    calls = [call for call in state.calls.values() if _is_once(call)]
    done = [call.call.step for call in calls if _is_done(call)]
    unresolved = [call.call.step for call in calls if is_unresolved(call)]
    for call in _last_of_each_child(state):
        found = child_effects(call, children)
        done += [named(call, found.done)] if found.done else []
        unresolved += [named(call, found.unresolved)] if found.unresolved else []
    return Effects(tuple(dict.fromkeys(done)), tuple(dict.fromkeys(unresolved)))


def child_effects(call: CallState, children: ChildEffects) -> Effects:
    """Return what the child of a call has done; nothing for a call without a child."""
    child = child_of(call)
    return _NONE if child is None else children.get(child, _NONE)


def named(call: CallState, inside: Iterable[str]) -> str:
    """Name a call together with what its child has done."""
    return f"{call.call.step} (its child {child_of(call)}: {', '.join(inside)})"


def name_unresolved(call: CallState, children: ChildEffects) -> str:
    """Name a call that may have happened: its step, or what its child may have done."""
    inside = child_effects(call, children).unresolved
    return named(call, inside) if inside else call.call.step


def child_of(call: CallState) -> str | None:
    """Return the goal that a call has started."""
    return call.call.child if isinstance(call.call, ToolCall) else None


def _last_of_each_child(state: GoalState) -> list[CallState]:
    """Return the last call of each child: those before it are attempts of the same step, with the same child."""
    last = {child: call for call in state.calls.values() if (child := child_of(call)) is not None}
    return [*last.values()]


def may_have_happened(call: CallState) -> bool:
    """Tell whether a settled call that was not done may have had its effect."""
    if call.decision is not None and call.decision.decision in ("abort", "skip"):
        return True
    error = call.outcome.error if call.outcome else None
    if call.outcome is not None and call.outcome.happened is not None:
        return call.outcome.happened != "no"
    return _is_once(call) and error is not None and error.code in _MAY_HAVE_HAPPENED


def begun_once(state: GoalState, children: ChildEffects = NO_CHILDREN) -> list[CallState]:
    """Return the calls whose effect may have happened, and that a fork at this state would call again.

    They are the open `once` calls, except those that await approval, which were not begun; and the calls of children
    that have done something, if they are open, or a retry is about to make them again.
    """
    begun = [call for call in state.open_calls.values() if _is_once(call) and not call.awaits_approval]
    return [*begun, *(call for call in restarted_children(state) if child_effects(call, children).all)]


def restarted_children(state: GoalState) -> list[CallState]:
    """Return the calls of children that a fork would make again: open ones, and failed ones that are retried next."""
    calls = [call for call in state.open_calls.values() if call.is_child]
    again = [state.calls[call_id] for each in state.reopenings for call_id in each.again if call_id in state.calls]
    failed = [call for call in again if call.is_child and not call.is_open]
    if not failed:
        return calls
    last = {call.call.step: call for call in state.calls.values()}
    return [*calls, *(call for call in failed if last[call.call.step] is call)]


def unresolved_after(state: GoalState, seq: int, children: ChildEffects = NO_CHILDREN) -> list[CallState]:
    """Return the calls begun after an event that may have had an effect `once`, and were not done for certain."""
    return [call for call in state.calls.values() if call.seq > seq and is_unresolved(call, children)]


def is_unresolved(call: CallState, children: ChildEffects = NO_CHILDREN) -> bool:
    """Tell whether a `once` call may have had its effect, and no outcome and no decision says that it was done.

    The call of a child is unresolved if such a call of the child is.
    """
    if child_effects(call, children).unresolved:
        return True
    if not _is_once(call):
        return False
    if call.is_open:
        return not call.awaits_approval
    return not _is_done(call) and may_have_happened(call)


def done_after(state: GoalState, seq: int, children: ChildEffects = NO_CHILDREN) -> list[str]:
    """Return the `once` steps that were done after an event, but not in a cleanup: a fork there does them again.

    What a child has done counts if the end of its call is not kept.
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
    """Return the steps with an effect that the flow of a cancelled goal began to clean up."""
    calls = [call.call for call in state.calls.values() if state.cancel is not None and call.seq > state.cancel_seq]
    return list(dict.fromkeys(call.step for call in calls if isinstance(call, ToolCall) and call.effect != "pure"))


def _is_once(call: CallState) -> bool:
    return isinstance(call.call, ToolCall) and call.call.effect == "once"


def _is_done(call: CallState) -> bool:
    if call.outcome is not None:
        return call.outcome.ok
    return call.decision is not None and call.decision.decision == "skip"
