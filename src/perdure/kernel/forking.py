"""Where a goal can be forked: which event is meant, and whether a fork there would repeat an effect without notice."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from perdure.errors import Conflict, Invalid, NotFound
from perdure.kernel.events import Event, ToolCall
from perdure.kernel.fold import CallState, GoalState, apply, fold
from perdure.kernel.step_names import NamedStep, named_step, short_name


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """Where to fork: exactly one of `at`, `before` and `after`; `repeat` names `once` steps to call a second time."""

    at: int | None = None
    before: str | None = None
    after: str | None = None
    repeat: tuple[str, ...] = ()

    def require_one_place(self) -> None:
        """Raises: Invalid unless exactly one place is given."""
        given = [name for name in ("before", "after", "at") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise Invalid(f"A fork needs exactly one of --before STEP, --after STEP and --at SEQ; found {found}.")


def fork_point(events: Sequence[Event], asked: ForkRequest) -> int:
    """Return the last event that a fork shares with a goal.

    `before` is the event before the first one of a step, so that the step is called again; of a call, before its own
    first. `after` is the event that settled the step for good; of a call, that settled the call.

    Calls that are open at that event are void in the fork, and their steps are called again. The effect of a `once`
    call that was begun may have happened. So a point where one is open is accepted only if `repeat` names its step.

    Raises: Invalid; NotFound when there is no such step; Conflict when the goal has no such event or has ended there,
    the step is not settled, or the fork would repeat an effect.
    """
    asked.require_one_place()
    state = fold(events)
    seq = _asked_seq(state, asked)
    if not 1 <= seq <= state.tip.seq:
        raise Conflict(f"{state.goal_id} has events 1 to {state.tip.seq}; there is no event {seq} to fork from.")
    there = fold(events[:seq])
    if there.termination is not None:
        raise Conflict(
            f"Event {seq} of {state.goal_id} is its end ({there.termination.reason}): a fork there has nothing left to"
            f" run. Fork it earlier: {_last_safe_before(events, seq)}."
        )
    repeated = {_repeated_step(state, there, name) for name in asked.repeat}
    at_risk = [call for call in begun_once(there) if call.call.step not in repeated]
    if at_risk:
        raise _would_repeat(events, state, seq, at_risk)
    return seq


def begun_once(state: GoalState) -> list[CallState]:
    """Return the open `once` calls whose effect may have happened; one that awaits approval was not begun."""
    return [
        call
        for call in state.open_calls.values()
        if isinstance(call.call, ToolCall) and call.call.effect == "once" and not call.awaits_approval
    ]


def fork_before_damage(events: Sequence[Event]) -> str:
    """Return the options of a fork that keeps as much as possible of the intact beginning of a history."""
    return _last_safe_before(events, len(events) + 1)


def _asked_seq(state: GoalState, asked: ForkRequest) -> int:
    if asked.before is not None:
        return _seq_before(named_step(state, asked.before))
    if asked.after is not None:
        return _seq_after(state, named_step(state, asked.after))
    return asked.at or 0


def _seq_before(named: NamedStep) -> int:
    return named.calls[0].seq - 1


def _seq_after(state: GoalState, named: NamedStep) -> int:
    """Raises: Conflict when the step is open, or will be called again."""
    seq = _settled_seq(state, named)
    if seq is None:
        why = "it is open" if any(call.is_open for call in named.calls) else "it is called again"
        raise Conflict(
            f"{named.step} of {state.goal_id} is not settled yet: {why}."
            f" Fork before it: --before {_typed(state, named.step)}."
        )
    return seq


def _settled_seq(state: GoalState, named: NamedStep) -> int | None:
    """Return the event that settled a step for good: no retry of the goal or of the call follows it."""
    last = named.calls[-1]
    is_reopened = any(last.call.call_id in reopened.again for reopened in state.reopenings)
    is_retried = is_reopened or (last.decision is not None and last.decision.decision == "retry")
    ends = [call.ended_seq for call in named.calls if not call.is_open]
    is_settled = len(ends) == len(named.calls) and (named.is_call or not is_retried)
    return max((seq for seq in ends if seq is not None), default=None) if is_settled else None


def _repeated_step(state: GoalState, there: GoalState, name: str) -> str:
    """Return the step that `repeat` names; the fork calls a step that begins after the point in any case.

    Raises: NotFound; Invalid when the fork keeps the outcome of the step, and so would not repeat it.
    """
    try:
        step = named_step(there, name).step
    except NotFound:
        return named_step(state, name).step
    if all(call.call.step != step for call in there.open_calls.values()):
        raise Invalid(
            f"--repeat {name}: {step} is settled at event {there.tip.seq}, and the fork keeps its outcome. Remove that"
            " --repeat. To call the step again, use --before."
        )
    return step


def _would_repeat(events: Sequence[Event], state: GoalState, seq: int, at_risk: Sequence[CallState]) -> Conflict:
    there = fold(events[:seq])
    steps = list(dict.fromkeys(call.call.step for call in at_risk))
    repeats = " ".join(f"--repeat {_typed(there, step)}" for step in steps)
    later = next((each for each in _safe_points(events) if each > seq), None)
    safe = [_last_safe_before(events, seq), *([] if later is None else [_option(state, later, is_after=True)])]
    effects, are, them = ("Its effect", "is", "it") if len(steps) == 1 else ("Their effects", "are", "them")
    return Conflict(
        f"Event {seq} of {state.goal_id} lies between the intent and the outcome of {', '.join(steps)}, which {are}"
        f" `once`. {effects} may have happened, and the fork would repeat {them} without notice. Nothing was forked."
        f" To repeat {them}, add {repeats}. Or fork where nothing is repeated: {' or '.join(safe)}."
    )


def _safe_points(events: Sequence[Event]) -> list[int]:
    """Return the events after which a fork repeats no `once` call; the first event always is one."""
    state, safe = fold(events[:1]), [events[0].seq]
    for event in events[1:]:
        apply(state, event)
        if state.termination is None and not begun_once(state):
            safe.append(event.seq)
    return safe


def _last_safe_before(events: Sequence[Event], seq: int) -> str:
    return _option(fold(events), max(each for each in _safe_points(events) if each < seq), is_after=False)


def _option(state: GoalState, seq: int, *, is_after: bool) -> str:
    """Return the option that forks at an event: by a step where one begins or ends there, else by its number."""
    for call in state.calls.values():
        step = call.call.step
        if is_after and call.ended_seq == seq and _settled_seq(state, named_step(state, step)) == seq:
            return f"--after {_typed(state, step)}"
        if not is_after and call.seq == seq + 1 and _seq_before(named_step(state, step)) == seq:
            return f"--before {_typed(state, step)}"
    return f"--at {seq}"


def _typed(state: GoalState, step: str) -> str:
    """Return the shortest name of a step, quoted where a shell needs it."""
    return shlex.quote(short_name(state, step))
