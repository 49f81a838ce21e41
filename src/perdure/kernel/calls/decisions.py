"""The decisions that the open calls of a goal accept, and the events that they become."""

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.errors import Conflict, Invalid
from perdure.kernel.events import (
    Ask,
    Body,
    Decision,
    DecisionKind,
    Event,
    ToolCall,
    ToolError,
    ToolOutput,
    Wait,
    fingerprint,
)
from perdure.kernel.fold import GoalState, apply
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.step_names import branch_of, is_below, is_deadline
from perdure.kernel.ports import Admit, InboxRow
from perdure.text.moments import moment, moment_us

_LONGEST_ANSWER = 100
BY_PERSON: tuple[DecisionKind, ...] = ("approve", "deny", "answer", "retry", "skip", "abort")
"""The decisions of people; the kernel itself records `elapsed` for timers."""


class TooLate(Conflict):
    """An answer to a question whose deadline has passed. The goal finds out when it is resumed."""


def choose(
    state: GoalState, kind: str, call_id: str | None, value: Any = None, *, now_us: int | None = None
) -> Decision:
    """Return the decision that settles a call; without an id, the only open call that accepts it.

    A question whose deadline, or the deadline of an enclosing block, has passed at `now_us` accepts no answer, even if
    the timeout is not recorded yet.

    Raises: Invalid when it is not a decision, or not an option; TooLate; Conflict when no open call accepts it.
    """
    if kind not in BY_PERSON:
        raise Invalid(f"{kind!r} is not a decision; use one of {', '.join(BY_PERSON)}.")
    late = _timed_out(state, now_us)
    fitting = [call for name, call in state.open_calls.items() if _fits(call, kind) and name not in late]
    chosen = [call for call in fitting if call_id in (None, call.call.call_id)]
    missed = [message for name, message in late.items() if call_id in (None, name)]
    if not chosen and kind == "answer" and missed:
        raise TooLate(missed[-1])
    if len(chosen) != 1:
        raise _refusal(state, kind, call_id, [call.call.call_id for call in fitting])
    call = chosen[0].call
    if isinstance(call, Ask) and call.options is not None and value not in call.options:
        raise Invalid(f"{value!r} is not an answer to {call.question!r}; its options are {', '.join(call.options)}.")
    shown = fingerprint(chosen[0].payload) if kind in ("approve", "deny") else None
    return Decision(call.call_id, kind, value, shown_sha256=shown)


def admit_decision(state: GoalState, decision: Decision) -> Admit:
    """Return the check that a store runs in the transaction of a post.

    A decision that passes the check must still be valid when the owner takes it from the inbox. Four things can
    invalidate it: another decision on the call, the outcome of the call, the end of the goal, and a cancellation, which
    ends the goal. Another decision is either in the newer events, which the check applies to the state, or pending in
    the inbox. A call that waits for a person gets no outcome. The store rejects posts to a goal that has ended. And
    the check rejects a decision behind a pending cancellation, because the owner takes that first.

    The check raises: Conflict, which names the earlier decision.
    """

    def admit(events: Sequence[Event], pending: Sequence[InboxRow]) -> None:
        for event in events:
            if event.seq > state.head.seq:  # a store that retries its transaction passes an event twice
                apply(state, event)
        for row in pending:
            if row.kind == "decision" and row.payload.get("call_id") == decision.call_id:
                before = _named(row.payload.get("decision"), row.payload.get("value"))
                raise Conflict(f"{decision.call_id} was already decided: {before}.")
        refuse_while_cancelled(state.goal_id, pending)
        call = state.open_calls.get(decision.call_id)
        if call is None or not _fits(call, decision.decision):
            raise _refusal(state, decision.decision, decision.call_id, [])

    return admit


def refuse_while_cancelled(goal_id: str, pending: Sequence[InboxRow]) -> None:
    """Reject a post behind a pending cancellation: the goal would end before its owner takes the post.

    Raises: Conflict
    """
    if any(row.kind == "cancel" for row in pending):
        raise Conflict(f"{goal_id} is being cancelled.")


def events_of(state: GoalState, payload: Mapping[str, Any]) -> list[Body]:
    """Return the events of a posted decision; none when no open call accepts it, or the person saw another payload.

    A decision that was posted through `admit_decision` is always accepted.
    """
    decision = Decision(**payload)
    call = state.open_calls.get(decision.call_id)
    if call is None or not _fits(call, decision.decision):
        return []
    if decision.shown_sha256 is not None and decision.shown_sha256 != fingerprint(call.payload):
        return []
    return [decision, *([denied(decision)] if decision.decision == "deny" else [])]


def denied(decision: Decision) -> ToolOutput:
    """Return the outcome of a call that was not allowed."""
    why = f": {decision.value}" if decision.value else ""
    return ToolOutput(decision.call_id, ok=False, error=ToolError("denied", f"Denied by {decision.by}{why}."))


def elapsed(state: GoalState, at_us: int) -> list[Decision]:
    """Return an `elapsed` decision for every wait that is due, in the order of their due times."""
    due = sorted((due_us, call_id) for call_id, due_us in state.timers().items() if due_us <= at_us)
    return [Decision(call_id, "elapsed", by="timer") for _, call_id in due]


def takes_posts(call: CallState) -> bool:
    """Return whether a post can settle an open call: it does not run, and it is not a sleep."""
    return not call.runs and not (isinstance(call.call, Wait) and call.call.signal is None)


def _timed_out(state: GoalState, now_us: int | None) -> dict[str, str]:
    """Return the open questions whose deadline has passed, each with the message for a person who answers it."""
    messages: dict[str, str] = {}
    for name, missed in ({} if now_us is None else missed_deadlines(state, now_us)).items():
        if not isinstance(state.open_calls[name].call, Ask):
            continue
        messages[name] = f"{timed_out(missed)}."
        if missed.call.call_id != name:
            messages[name] = (
                f"{timed_out(missed)}, and {name} is asked within it. Resume the goal; if it still asks then, answer"
                " again."
            )
    return messages


def missed_deadlines(state: GoalState, now_us: int) -> dict[str, CallState]:
    """Return the open questions and signals whose deadline has passed, by their ids, each with the call that has it.

    The deadline is that of the call itself, or of an enclosing `goal.timeout`: one that was begun before the call, in
    its branch or an outer one. The flow receives that timeout first and stops waiting for the call.
    """
    due = [state.open_calls[each.call_id] for each in elapsed(state, now_us)]
    blocks = [call for call in due if is_deadline(call)]
    missed: dict[str, CallState] = {}
    for name, call in state.open_calls.items():
        if isinstance(call.call, Ask) or (isinstance(call.call, Wait) and call.call.signal is not None):
            having = [call] if call in due else [block for block in blocks if _encloses(block, call)]
            if having:
                missed[name] = having[0]
    return missed


def _encloses(block: CallState, call: CallState) -> bool:
    """Return whether a call was begun within a block with a deadline, as far as the history shows that."""
    return block.seq < call.seq and is_below(branch_of(call.call.step), branch_of(block.call.step))


def timed_out(call: CallState) -> str:
    """Describe when a wait with a deadline timed out."""
    until = None if isinstance(call.call, ToolCall) else call.call.until
    return f"{call.call.call_id} timed out at {moment(moment_us(until))}" if until else f"{call.call.call_id} timed out"


def _fits(call: CallState, kind: str) -> bool:
    match kind:
        case "approve" | "deny":
            return call.awaits_approval
        case "answer":
            return isinstance(call.call, Ask)
        case "retry" | "skip" | "abort":
            return call.unknown is not None
        case _:
            return False


def _takes(call: CallState) -> str:
    """Describe which decisions an open call takes."""
    return " or ".join(kind for kind in BY_PERSON if _fits(call, kind)) or "no decision while it runs"


def _refusal(state: GoalState, kind: str, call_id: str | None, fitting: list[str]) -> Conflict:
    if call_id is None and fitting:
        return Conflict(f"Several calls of {state.goal_id} can take {kind!r}: name one of {', '.join(fitting)}.")
    known = _last_decided(state) if call_id is None else state.calls.get(call_id)
    settled = None if known is None else _settled(known)
    if settled is not None and call_id is not None:
        return Conflict(f"{settled}.")
    if kind == "answer" and call_id is None and settled is None:
        return Conflict(_no_question(state))
    what = "No call" if call_id is None else f"No call {call_id!r}"
    instead = f"; {', '.join(fitting)} can" if fitting else ""
    takes = [f"{name} takes {_takes(call)}" for name, call in state.open_calls.items()]
    is_open = f"; {', '.join(takes)}" if takes and not fitting else ""
    before = f"; {settled}" if settled is not None and not fitting else ""
    return Conflict(f"{what} in {state.goal_id} can take {kind!r}{instead}{is_open}{before}.")


def _no_question(state: GoalState) -> str:
    """Describe that a goal has no open question, how its last question was settled, and which calls are open."""
    now = [f"{call.call.step} {_doing(call)}" for call in state.open_calls.values()]
    asked = [call for call in state.calls.values() if isinstance(call.call, Ask)]
    before = (_settled(asked[-1]) if asked else None) or f"{state.goal_id} has not asked a question"
    return f"{before}{'; ' if now else ''}{', '.join(now)}."


def _has_timed_out(call: CallState) -> bool:
    return call.decision is not None and call.decision.decision == "elapsed"


def _doing(call: CallState) -> str:
    if call.runs:
        return "is running"
    return "waits" if isinstance(call.call, Wait) else f"takes {_takes(call)}"


def _named(kind: object, value: object) -> str:
    """Describe a decision with its answer, shortened if it is long."""
    answer = "" if value is None else repr(value)
    shown = answer if len(answer) <= _LONGEST_ANSWER else f"{answer[:_LONGEST_ANSWER]}…"
    return f"{kind} {shown}".strip()


def _settled(call: CallState) -> str | None:
    """Describe how a call was settled; None if it was not."""
    call_id = call.call.call_id
    if call.is_open and call.unknown is not None:
        return None
    if _has_timed_out(call):
        return timed_out(call)
    if call.decision is not None:
        by = "" if call.decision.by == "person" else f" (by {call.decision.by})"
        return f"{call_id} was already decided: {_named(call.decision.decision, call.decision.value)}{by}"
    if call.outcome is not None:
        error = call.outcome.error
        how = "ok" if call.outcome.ok or error is None else f"failed ({error.code})"
        return f"{call_id} has already ended: {how}"
    return f"{call_id} has already ended: signal {call.signal.name!r}" if call.signal is not None else None


def _last_decided(state: GoalState) -> CallState | None:
    """Return the call that a person decided on last."""
    decided = [call for call in state.calls.values() if call.decision is not None and call.decision.by == "person"]
    return max(decided, key=lambda call: (call.ended_us or call.began_us, call.seq), default=None)
