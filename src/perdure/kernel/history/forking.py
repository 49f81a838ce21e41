"""Where a goal can be forked: the event that a request names, and whether a fork there would repeat effects.

A fork shares the events up to one event of another goal. Calls that are open at that event are void in the fork: their
outcomes belong to the other goal, so the fork calls their steps again, as it does with all steps that began later. For
a pure or idempotent step that is harmless. A `once` step may have had its effect, and a second call would repeat it.

So a fork is accepted only where no effect is repeated without notice. `begun_once` finds the `once` calls that are open
at the event, `unresolved_after` those that began later and may or may not have happened. Both need `--repeat STEP`.
Steps that are known to be done after the event are repeated without a question: that is the purpose of a fork.
"""

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from perdure.errors import Conflict, Invalid, NotFound
from perdure.kernel.events import Event, Message
from perdure.kernel.fold import GoalState, apply, fold
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.reopening import NotRetried, plan_retry
from perdure.kernel.history.repetition import (
    NO_CHILDREN,
    ChildEffects,
    begun_once,
    child_effects,
    child_of,
    cleanup_steps,
    done_after,
    is_unresolved,
    named,
    restarted_children,
    unresolved_after,
)
from perdure.kernel.history.step_names import NamedStep, named_step, short_name


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """Where to fork: exactly one of `at`, `before`, `after`, `before_message`; `repeat` names `once` steps."""

    at: int | None = None
    before: str | None = None
    after: str | None = None
    repeat: tuple[str, ...] = ()
    before_message: int | None = None
    """The event of a message of a person."""

    def require_one_place(self) -> None:
        """Raises: Invalid unless exactly one place is given."""
        names = ("before", "after", "at", "before_message")
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) or "none"
            raise Invalid(
                "A fork needs exactly one of --before STEP, --after STEP, --at SEQ and before_message"
                f" (for a conversation); found {found}."
            )


def fork_point(events: Sequence[Event], request: ForkRequest, children: ChildEffects = NO_CHILDREN) -> int:
    """Return the last event that a fork shares with a goal.

    Raises: what `requested_point` and `require_accepted` raise.
    """
    seq = requested_point(events, request)
    require_accepted(events, seq, request, children)
    return seq


def requested_point(events: Sequence[Event], request: ForkRequest) -> int:
    """Return the event that a request names, whether or not a fork there is accepted.

    `before` names the event before the first event of a step or call, so that it is called again. `after` names the
    event that settled a call, or the event that permanently settled a step. `before_message` names the event before a
    message.

    Raises: Invalid; NotFound when the step does not exist; Conflict when the event does not exist, or the step is not
    settled.
    """
    request.require_one_place()
    state = fold(events)
    seq = _requested_seq(state, request)
    if not 1 <= seq <= state.head.seq:
        raise Conflict(f"{state.goal_id} has events 1 to {state.head.seq}; there is no event {seq} to fork from.")
    return seq


def require_accepted(
    events: Sequence[Event], seq: int, request: ForkRequest, children: ChildEffects = NO_CHILDREN
) -> None:
    """Check that a fork at an event repeats no effect without `--repeat`. See the module.

    A fork does not undo the cleanup of a cancelled goal, and omits the cleanup only if `repeat` names its steps. A
    child whose call is void or later than the event is started from its beginning, so the effects of that call are
    those of the child and its descendants.

    Raises: Invalid and NotFound for `repeat`; Conflict when the goal has ended at the event, or the fork is rejected.
    """
    state, there = with_voided(events), fold(events[:seq])
    repeated = {_repeated_step(state, there, name) for name in request.repeat}
    at_risk = [call for call in _at_risk(state, there, children) if call.call.step not in repeated]
    if cleaned := [step for step in cleanup_steps(state) if step not in repeated]:
        raise _would_leave_cleanup(state, cleaned, at_risk)
    if there.termination is not None:
        raise Conflict(
            f"Event {seq} of {state.goal_id} is its end ({there.termination.reason}): a fork there has nothing left to"
            f" run. Fork it earlier: {_last_before(events, seq, children)}."
        )
    if at_risk:
        raise _would_repeat(events, state, seq, at_risk, children)


def fork_before_damage(events: Sequence[Event]) -> str:
    """Return the options of the latest fork in the intact beginning of a history."""
    return _last_before(events, len(events) + 1)


def with_voided(events: Sequence[Event]) -> GoalState:
    """Return the state of a goal, with the `once` calls and child calls that forks in its history have voided."""
    state, voided = fold(events[:1]), dict[str, CallState]()
    for event in events[1:]:
        if event.type == "goal":
            begun = [*begun_once(state), *(call for call in state.open_calls.values() if call.is_child)]
            voided |= {call.call.call_id: call for call in begun}
        apply(state, event)
    return replace(state, calls=voided | state.calls) if voided else state


def _at_risk(state: GoalState, there: GoalState, children: ChildEffects) -> list[CallState]:
    """Return the calls that may have happened and that a fork would repeat: the open ones, then the later ones."""
    return [*begun_once(there, children), *unresolved_after(state, there.head.seq, children)]


def _requested_seq(state: GoalState, request: ForkRequest) -> int:
    if request.before is not None:
        return _seq_before(named_step(state, request.before))
    if request.after is not None:
        return _seq_after(state, named_step(state, request.after))
    if request.before_message is not None:
        return _seq_before_message(state, request.before_message)
    return request.at or 0


def _seq_before_message(state: GoalState, seq: int) -> int:
    """Return the event before a message of a person.

    Raises: Conflict when the event is not a message of a person.
    """
    messages = [seq for seq, each in state.conversation.entries if isinstance(each, Message) and each.role == "user"]
    if seq not in messages:
        known = f"its messages are events {', '.join(map(str, messages[-20:]))}" if messages else "it has none"
        raise Conflict(f"Event {seq} of {state.goal_id} is not a message of a person; {known}.")
    return seq - 1


def _seq_before(named: NamedStep) -> int:
    return named.calls[0].seq - 1


def _seq_after(state: GoalState, named: NamedStep) -> int:
    """Return the event that settled a step or call.

    Raises: Conflict when the step is open, or will be called again.
    """
    seq = _settled_seq(state, named)
    if seq is None:
        why = "it is open" if any(call.is_open for call in named.calls) else "it is called again"
        raise Conflict(
            f"{named.step} of {state.goal_id} is not settled yet: {why}."
            f" Fork before it: --before {_typed(state, named.step)}."
        )
    return seq


def _settled_seq(state: GoalState, named: NamedStep) -> int | None:
    """Return the event that permanently settled a step: no retry of the goal or of the call follows it."""
    last = named.calls[-1]
    is_reopened = any(last.call.call_id in reopened.again for reopened in state.reopenings)
    is_retried = is_reopened or (last.decision is not None and last.decision.decision == "retry")
    ends = [call.ended_seq for call in named.calls if not call.is_open]
    is_settled = len(ends) == len(named.calls) and (named.is_call or not is_retried)
    return max((seq for seq in ends if seq is not None), default=None) if is_settled else None


def _repeated_step(state: GoalState, there: GoalState, name: str) -> str:
    """Return the step that `repeat` names.

    Raises: NotFound; Invalid when the fork keeps the outcome of the step, and so would not repeat it.
    """
    try:
        step = named_step(there, name).step
    except NotFound:
        return named_step(state, name).step
    later = (call for call in state.calls.values() if call.seq > there.head.seq)
    if all(call.call.step != step for call in (*there.open_calls.values(), *restarted_children(there), *later)):
        raise Invalid(
            f"--repeat {name}: {step} is settled at event {there.head.seq}, and the fork keeps its outcome. Remove that"
            " --repeat. To call the step again, use --before."
        )
    return step


def _would_leave_cleanup(state: GoalState, cleaned: Sequence[str], at_risk: Sequence[CallState]) -> Conflict:
    steps = [*(call.call.step for call in at_risk), *cleaned]
    return Conflict(
        f"{state.goal_id} was cancelled at event {state.cancel_seq}, and its cleanup began {', '.join(cleaned)}. A fork"
        f" would not undo {'that step' if len(cleaned) == 1 else 'those steps'}. Nothing was forked. To fork the goal"
        f" before the cancel anyway, add {' '.join(_repeats(state, steps))}."
    )


def _would_repeat(
    events: Sequence[Event], state: GoalState, seq: int, at_risk: Sequence[CallState], children: ChildEffects
) -> Conflict:
    steps = list(dict.fromkeys(call.call.step for call in at_risk))
    effects, are, them = ("Its effect", "is", "it") if len(steps) == 1 else ("Their effects", "are", "them")
    unresolved = [call for call in at_risk if is_unresolved(state.calls.get(call.call.call_id, call), children)]
    names = ", ".join(dict.fromkeys(_said(call, children, is_settled=not unresolved) for call in at_risk))
    if unresolved:
        why = (
            f"A fork of {state.goal_id} at event {seq} would repeat {names}, which {are} `once`."
            f" {effects} may have happened."
        )
    else:
        why = (
            f"Event {seq} of {state.goal_id} lies between the intent and the outcome of {names}, which {are}"
            f" `once`. {effects} may have happened, and the fork would repeat {them} without notice."
        )
    return Conflict(
        f"{why} Nothing was forked.{_settling(state, unresolved)} To repeat {them}, add"
        f" {' '.join(_repeats(state, steps))}.{_elsewhere(events, state, seq, children)}"
    )


def _said(call: CallState, children: ChildEffects, *, is_settled: bool) -> str:
    """Name what would be repeated: a call, a step with a known outcome, or the steps of a child."""
    inside = child_effects(call, children).all
    if inside:
        return named(call, inside)
    return call.call.step if is_settled else call.call.call_id


def _settling(state: GoalState, unresolved: Sequence[CallState]) -> str:
    """Describe how to find out, in the goal itself, whether its calls have happened."""
    below = [child for call in unresolved if (child := child_of(call)) is not None]
    if below:
        commands = "; ".join(shlex.join(["perdure", "goal", "show", child]) for child in dict.fromkeys(below))
        return f" Check first what the child has done: {commands}."
    if not unresolved:
        return ""
    call_ids = {call.call.call_id for call in unresolved}
    if _is_asked_by_retry(state, call_ids):
        calls = " and ".join(call.call.call_id for call in unresolved)
        return f" `perdure goal retry {state.goal_id}` asks you to decide the outcome of {calls}. Do that first."
    if state.termination is not None:
        return _look_outside(unresolved)
    unknown = next((call_id for call_id in call_ids & {*state.open_calls} if state.calls[call_id].unknown), None)
    if unknown is not None:
        decide = shlex.join(["perdure", "goal", "decide", state.goal_id, unknown])
        return f" Settle it first: {decide} skip (its effect exists) or retry (it had no effect)."
    is_open = not call_ids.isdisjoint(state.open_calls)
    return f" Settle it first: perdure goal resume {state.goal_id}." if is_open else _look_outside(unresolved)


def _look_outside(unresolved: Sequence[CallState]) -> str:
    """Return the advice for calls whose effects the goal can no longer find out."""
    calls = [call.call.call_id for call in unresolved]
    effects, exist = ("effect", "exists") if len(calls) == 1 else ("effects", "exist")
    return f" Check first, outside Perdure, whether the {effects} of {' and '.join(calls)} {exist}."


def _is_asked_by_retry(state: GoalState, call_ids: Collection[str]) -> bool:
    """Return whether a retry of the goal would ask for a decision on one of these calls."""
    try:
        return not set(plan_retry(state, by="person").unknown).isdisjoint(call_ids)
    except NotRetried:
        return False


def _elsewhere(events: Sequence[Event], state: GoalState, seq: int, children: ChildEffects) -> str:
    """Offer the next accepted point, else the last one before, and name the steps that a fork there repeats."""
    accepted = _accepted_points(events, state, children)
    later = next((each for each in accepted if each > seq), None)
    found = later if later is not None else max((each for each in accepted if each < seq), default=None)
    if found is None:
        return ""
    option = _option(fold(events), found, is_after=later is not None)
    again = done_after(state, found, children)
    if not again:
        return f" Or fork where nothing is repeated: {option}."
    return f" Or fork with {option}, which does {', '.join(again)} again."


def _repeats(state: GoalState, steps: Iterable[str]) -> list[str]:
    return [f"--repeat {_typed(state, step)}" for step in dict.fromkeys(steps)]


def _quiet_points(events: Sequence[Event], children: ChildEffects) -> list[int]:
    """Return the events after which the goal continues and no `once` call is open; the first event is always one."""
    state, quiet = fold(events[:1]), [events[0].seq]
    for event in events[1:]:
        apply(state, event)
        if state.termination is None and state.cancel is None and not begun_once(state, children):
            quiet.append(event.seq)
    return quiet


def _accepted_points(events: Sequence[Event], state: GoalState, children: ChildEffects) -> list[int]:
    """Return the events at which a fork is accepted without any `repeat`."""
    if cleanup_steps(state):
        return []
    last = max((call.seq for call in unresolved_after(state, 0, children)), default=0)
    return [seq for seq in _quiet_points(events, children) if seq >= last]


def _last_before(events: Sequence[Event], seq: int, children: ChildEffects = NO_CHILDREN) -> str:
    """Return the options of the last accepted fork before an event, else of one with `--repeat`."""
    state = with_voided(events)
    accepted = [each for each in _accepted_points(events, state, children) if each < seq]
    found = max(accepted or [each for each in _quiet_points(events, children) if each < seq])
    option = _option(fold(events), found, is_after=False)
    at_risk = [] if accepted else _at_risk(state, fold(events[:found]), children)
    return " ".join([option, *_repeats(state, (call.call.step for call in at_risk))])


def _option(state: GoalState, seq: int, *, is_after: bool) -> str:
    """Return the option for a fork at an event: a step that begins or ends there, else the number of the event."""
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
