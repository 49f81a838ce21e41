"""Posts to a goal, turned into events by its owner: in order of arrival, each exactly once."""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from perdure.errors import Damaged
from perdure.kernel.calls.cancellation import cut_off_call
from perdure.kernel.calls.children import Children, open_children, outcome_of
from perdure.kernel.calls.cleanup import cancelled_by
from perdure.kernel.calls.decisions import elapsed, events_of
from perdure.kernel.deciding.interruption import interrupted
from perdure.kernel.events import (
    Body,
    Decision,
    LimitName,
    LimitRaised,
    Message,
    OutcomeUnknown,
    Signal,
    Termination,
)
from perdure.kernel.fold import GoalState
from perdure.kernel.journal import Journal
from perdure.kernel.ports import Inbox, InboxRow
from perdure.kernel.recovery import give_up
from perdure.kernel.tool import Tool

_LIMITS = get_args(LimitName)
_SETTLING = ("decision", "signal", "child")
"""The kinds of rows that can settle an open call."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Handling:
    """What the owner of a goal does about some posts."""

    end_all: Callable[[], Awaitable[Collection[str]]]
    """Ends what runs, before a cancel ends the goal; returns the calls that do not end."""
    interrupt: Callable[[], Awaitable[Sequence[Body]]]
    """Ends the answer of a model for a `stop`, and returns what is recorded of it."""
    is_answering: Callable[[], bool] = lambda: False
    """Tells whether a model answers: a message waits until then, and is recorded behind the answer that did not know
    it."""
    is_running: bool = True
    cancelling: Collection[str] = ()
    """The calls that the mind has cancelled."""


async def take_posts(journal: Journal, inbox: Inbox, handling: Handling, *, is_expected: bool = False) -> None:
    """Record what was posted, each row in the append that removes it; what runs is ended before a cancel ends the goal.

    An approval is left to the run of the goal, and recorded right before the call begins: so a call that was approved
    and has no outcome is one that was begun. The end of a child whose call is being cancelled is dropped: the call is
    recorded as cancelled. A deadline that had passed when a row was posted is recorded before that row.

    Raises: Conflict when the goal is no longer ours.
    """
    rows = await inbox.inbox(journal.goal_id)
    if is_expected and not rows:
        raise Damaged(f"The inbox of {journal.goal_id} is said to hold something, and is empty.")
    for row in rows:
        if _is_left(row, handling):
            continue
        journal.record(*_elapsed_before(row, journal))
        bodies = await _taken(row, journal, handling)
        is_end = any(isinstance(body, Termination) for body in bodies)
        if is_end:
            unended = await handling.end_all()
            journal.record(*cut_short(journal.state, journal.now_us(), unended))
        if not bodies and row.kind == "decision":
            _warn_dropped(row, journal.goal_id)
        journal.record(*bodies)
        await journal.commit(key=row.key if bodies else None, taken=[row.id], release=is_end)
        if is_end:
            return


async def _taken(row: InboxRow, journal: Journal, handling: Handling) -> list[Body]:
    """Return the events that a row becomes; none when it no longer fits anything."""
    match row.kind:
        case "child":
            return await _end_of_child(row, journal, handling.cancelling)
        case "stop":
            return [*await handling.interrupt()]
        case _:
            return _bodies_of(row, journal.state, is_running=handling.is_running)


def _elapsed_before(row: InboxRow, journal: Journal) -> list[Decision]:
    """Return the deadlines that had passed when a row was posted: what comes too late settles nothing.

    The clock of the one who posted it may be ahead: it was not posted after now.
    """
    is_settling = row.kind in _SETTLING and bool(journal.state.timers())
    return elapsed(journal.state, min(row.created_us, journal.now_us())) if is_settling else []


def _warn_dropped(row: InboxRow, goal_id: str) -> None:
    """Report a decision that fits nothing: `admit_decision` accepts none, so it was posted without that check."""
    said = f"{row.payload.get('decision')} on {row.payload.get('call_id')}"
    log.warning("a decision that was posted to %s fits nothing that is open, and is dropped: %s", goal_id, said)


def _is_left(row: InboxRow, handling: Handling) -> bool:
    """Tell whether a row stays in the inbox for now."""
    if row.kind == "message":
        return handling.is_answering()
    return not handling.is_running and _is_approval(row)


def _is_approval(row: InboxRow) -> bool:
    return row.kind == "decision" and isinstance(row.payload, dict) and row.payload.get("decision") == "approve"


async def _end_of_child(row: InboxRow, journal: Journal, cancelling: Collection[str]) -> list[Body]:
    """Return the outcome of the call whose child has ended; nothing when no call waits for that child."""
    goal_id = row.payload.get("goal_id")
    if not isinstance(goal_id, str):
        raise _unreadable(row, journal.state, "it names no child")
    outcome = await outcome_of(journal.store, journal.state, goal_id)
    return [] if outcome is None or outcome.call_id in cancelling else [outcome]


def _bodies_of(row: InboxRow, state: GoalState, *, is_running: bool) -> list[Body]:
    """Return the events that a row becomes; none when it no longer fits anything."""
    try:
        match row.kind:
            case "decision":
                return events_of(state, row.payload)
            case "message":
                return [Message(**row.payload)] if state.begun.mind.chat else []
            case "signal":
                return [Signal(**row.payload)]
            case "limit" if row.payload.get("name") in _LIMITS:
                return [LimitRaised(**row.payload)]
            case "cancel":
                return cancelled_by(state, row.payload, is_running=is_running)
    except (TypeError, AttributeError, KeyError) as error:
        raise _unreadable(row, state, str(error)) from error
    raise _unreadable(row, state, f"it is a {row.kind!r}")


def _unreadable(row: InboxRow, state: GoalState, why: str) -> Damaged:
    return Damaged(f"What was posted to {state.goal_id} as {row.id} cannot be read ({why}).")


def cut_short(state: GoalState, now_us: int, unended: Collection[str]) -> list[Body]:
    """Return the outcomes of calls that were ended because their goal was; of one that did not end, it is not known."""
    bodies: list[Body] = []
    for call_id, call in state.open_calls.items():
        if call.runs and call_id in unended:
            bodies.append(OutcomeUnknown(call_id, "The goal was cancelled while this ran, and it did not end."))
        elif call.runs or call.is_child:
            bodies.append(cut_off_call(call, now_us))
    return bodies


async def drain(journal: Journal, inbox: Inbox, tools: Mapping[str, Tool], children: Children) -> None:
    """Record what was posted, without running the goal; one that ends by a cancel leaves nothing running, no children.

    Raises: Conflict when the goal is no longer ours.
    """

    async def end_children() -> Collection[str]:
        await children.cancel(open_children(journal.state))
        return ()

    async def interrupt() -> Sequence[Body]:
        return interrupted(journal.state)

    if _will_end(await inbox.inbox(journal.goal_id), journal.state):
        await give_up(journal, tools)
    more, waits = True, False
    while more and not journal.has_let_go():
        await take_posts(journal, inbox, Handling(end_children, interrupt, is_running=False), is_expected=waits)
        if not journal.has_let_go():
            waits = (await journal.commit(release=True)).inbox_waiting
            found = await inbox.inbox(journal.goal_id)
            more = waits and not (found and all(_is_approval(row) for row in found))


def _will_end(rows: Sequence[InboxRow], state: GoalState) -> bool:
    """Tell whether a cancel among the rows ends the goal; the second of two cancels does."""
    cancels = [row for row in rows if row.kind == "cancel"]
    bodies = [body for row in cancels for body in _bodies_of(row, state, is_running=False)]
    return len(cancels) > 1 or any(isinstance(body, Termination) for body in bodies)
