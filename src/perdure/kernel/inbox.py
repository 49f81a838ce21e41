"""Turns posts to a goal into events: by its owner, in order of arrival, each exactly once."""

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
    """The reactions of the owner of a goal to posts."""

    end_all: Callable[[], Awaitable[Collection[str]]]
    """Ends all running calls before a cancel ends the goal; returns the calls that do not end."""
    interrupt: Callable[[], Awaitable[Sequence[Body]]]
    """Ends the answer of a model after a `stop`, and returns the events to record."""
    is_answering: Callable[[], bool] = lambda: False
    """Returns whether a model is answering. Then a message stays in the inbox, and is recorded after the answer."""
    is_running: bool = True
    cancelling: Collection[str] = ()
    """The calls that the mind has cancelled."""


async def take_posts(journal: Journal, inbox: Inbox, handling: Handling, *, is_expected: bool = False) -> None:
    """Record posts, each in the append that removes its row. Running calls are ended before a cancel ends the goal.

    An approval stays in the inbox until the goal runs, and is recorded directly before the call starts. So an approved
    call without an outcome has started. The end of a child whose call is being cancelled is dropped, because the call
    is recorded as cancelled. A deadline that had passed when a row was posted is recorded before that row.

    Raises: Conflict when another worker owns the goal.
    """
    rows = await inbox.inbox(journal.goal_id)
    if is_expected and not rows:
        raise Damaged(f"The inbox of {journal.goal_id} must have rows, found none.")
    for row in rows:
        if _stays_in_inbox(row, handling):
            continue
        journal.record(*_elapsed_before(row, journal))
        bodies = await _take(row, journal, handling)
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


async def _take(row: InboxRow, journal: Journal, handling: Handling) -> list[Body]:
    """Return the events of a row, and end what they end; none if no open call accepts the row."""
    match row.kind:
        case "child":
            return await _end_of_child(row, journal, handling.cancelling)
        case "stop":
            return [*await handling.interrupt()]
        case _:
            return _bodies_of(row, journal.state, is_running=handling.is_running)


def _elapsed_before(row: InboxRow, journal: Journal) -> list[Decision]:
    """Return the deadlines that had passed when a row was posted, so that a late post settles nothing.

    The clock of the posting process may be ahead, so the row counts as posted now at the latest.
    """
    is_settling = row.kind in _SETTLING and bool(journal.state.timers())
    return elapsed(journal.state, min(row.created_us, journal.now_us())) if is_settling else []


def _warn_dropped(row: InboxRow, goal_id: str) -> None:
    """Log a decision that no call accepts. `admit_decision` rejects those, so it was posted without that check."""
    decision = f"{row.payload.get('decision')} on {row.payload.get('call_id')}"
    log.warning("dropped a decision posted to %s, because no open call accepts it: %s", goal_id, decision)


def _stays_in_inbox(row: InboxRow, handling: Handling) -> bool:
    """Return whether a row is not taken yet."""
    if row.kind == "message":
        return handling.is_answering()
    return not handling.is_running and _is_approval(row)


def _is_approval(row: InboxRow) -> bool:
    return row.kind == "decision" and isinstance(row.payload, dict) and row.payload.get("decision") == "approve"


async def _end_of_child(row: InboxRow, journal: Journal, cancelling: Collection[str]) -> list[Body]:
    """Return the outcome of the call whose child has ended; nothing if no call waits for that child."""
    goal_id = row.payload.get("goal_id")
    if not isinstance(goal_id, str):
        raise _unreadable(row, journal.state, "it names no child")
    outcome = await outcome_of(journal.store, journal.state, goal_id)
    return [] if outcome is None or outcome.call_id in cancelling else [outcome]


def _bodies_of(row: InboxRow, state: GoalState, *, is_running: bool) -> list[Body]:
    """Return the events of a row; none if no open call accepts it."""
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
    return Damaged(f"The request {row.id} to {state.goal_id} cannot be read ({why}).")


def cut_short(state: GoalState, now_us: int, unended: Collection[str]) -> list[Body]:
    """Return the outcomes of calls that ended with their goal; unknown for a call that did not end."""
    bodies: list[Body] = []
    for call_id, call in state.open_calls.items():
        if call.runs and call_id in unended:
            bodies.append(OutcomeUnknown(call_id, "The goal was cancelled while this ran, and it did not end."))
        elif call.runs or call.is_child:
            bodies.append(cut_off_call(call, now_us))
    return bodies


async def drain(journal: Journal, inbox: Inbox, tools: Mapping[str, Tool], children: Children) -> None:
    """Record posts without running the goal. A cancel that ends the goal also ends its processes and children.

    Raises: Conflict when another worker owns the goal.
    """

    async def end_children() -> Collection[str]:
        await children.cancel(open_children(journal.state))
        return ()

    async def interrupt() -> Sequence[Body]:
        return interrupted(journal.state)

    if _will_end(await inbox.inbox(journal.goal_id), journal.state):
        await give_up(journal, tools)
    more, waits = True, False
    while more and not journal.is_released():
        await take_posts(journal, inbox, Handling(end_children, interrupt, is_running=False), is_expected=waits)
        if not journal.is_released():
            waits = (await journal.commit(release=True)).inbox_waiting
            found = await inbox.inbox(journal.goal_id)
            more = waits and not (found and all(_is_approval(row) for row in found))


def _will_end(rows: Sequence[InboxRow], state: GoalState) -> bool:
    """Return whether a cancel among the rows ends the goal."""
    cancels = (row for row in rows if row.kind == "cancel")
    return any(isinstance(body, Termination) for row in cancels for body in _bodies_of(row, state, is_running=False))
