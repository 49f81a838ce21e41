"""Calls of all goals that wait for a person, page by page; a goal that cannot be read is listed as damaged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.app.goals.goals import Goals
from perdure.app.wire.calls import options_of
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.vocabulary import ApprovalKind, PersonDecision
from perdure.app.wire.shown import sha256_of, shown_of
from perdure.errors import Conflict, Damaged, Invalid, NotFound
from perdure.kernel.events import Ask, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.text.moments import iso

if TYPE_CHECKING:
    from perdure.app.wire.resources.goals import Approval, ShownCall

_PAGE = 200
_MOST_SCANNED = 5000
"""The maximum number of waiting goals that one page reads: most may wait for something other than a person."""
_WHOLE_GOAL = 2**63 - 1


@dataclass(frozen=True)
class Place:
    """The position at which a page ended: the goal, and the event that started its last listed call."""

    goal_id: str
    seq: int

    def __str__(self) -> str:
        return f"{self.goal_id} {self.seq}"

    @classmethod
    def read(cls, text: str) -> "Place":
        """Parse the result of `str`.

        Raises: Invalid
        """
        goal_id, _, seq = text.rpartition(" ")
        if not (goal_id and seq.isascii() and seq.isdigit() and len(seq) <= len(str(_WHOLE_GOAL))):
            raise Invalid("Unknown cursor: it is not from a list of approvals. Omit it to start at the beginning.")
        return cls(goal_id, int(seq))


@dataclass(frozen=True)
class ApprovalView:
    """A call that waits for a person, or a goal that cannot be read."""

    place: Place
    kind: ApprovalKind
    since_us: int
    decisions: tuple[PersonDecision, ...] = ()
    call: CallState | None = None
    why: str | None = None
    shown: "ShownCall | None" = None
    """What a person approves."""

    def wire(self) -> "Approval":
        """Return the one JSON form."""
        about = None if self.call is None else self.call.call
        call_id, step = (None, None) if about is None else (about.call_id, about.step)
        ask = about if isinstance(about, Ask) else None
        question, options, until = (None, None, None) if ask is None else (ask.question, options_of(ask), ask.until)
        tool, arguments = (about.tool, about.arguments) if isinstance(about, ToolCall) else (None, None)
        return {
            "goal_id": self.place.goal_id,
            "call_id": call_id,
            "kind": self.kind,
            "step": step,
            "since": iso(self.since_us),
            "decisions": list(self.decisions),
            "question": question,
            "options": options,
            "until": until,
            "tool": tool,
            "arguments": arguments,
            "shown": self.shown,
            "shown_sha256": None if self.shown is None else sha256_of(self.shown),
            "why": self.why,
        }


async def list_approvals(
    goals: Goals, *, limit: int = 50, after: Place | None = None
) -> tuple[Sequence[ApprovalView], Place | None]:
    """Return the calls that wait for a person, newest goal first, and the position of the next page.

    A page may have fewer than `limit`, or none, and be followed by another.
    """
    found = [] if after is None else await _rest_of(goals, after)
    before = None if after is None else after.goal_id
    scanned = 0
    while len(found) <= limit:
        page = await goals.list(status="waiting", limit=_PAGE, before=before)
        for goal in page:
            before = goal.id
            found += await _waiting(goals, goal)
            if len(found) > limit:
                break
        scanned += len(page)
        if len(page) < _PAGE:
            break
        if before is not None and scanned >= _MOST_SCANNED and len(found) <= limit:
            return found, Place(before, _WHOLE_GOAL)
    return found[:limit], found[limit - 1].place if len(found) > limit else None


async def _rest_of(goals: Goals, after: Place) -> list[ApprovalView]:
    try:
        goal = await goals.get(after.goal_id)
    except NotFound:
        return []
    return [each for each in await _waiting(goals, goal) if each.place.seq > after.seq]


async def _waiting(goals: Goals, goal: GoalView) -> list[ApprovalView]:
    """Return the waiting calls of one goal; an unreadable history becomes an entry, so that other goals are listed."""
    if goal.summary.waiting_for != "person":
        return []
    try:
        state = await goals.state(goal.id)
    except NotFound:
        return []  # deleted since it was listed
    except (Damaged, Conflict) as error:
        return [ApprovalView(Place(goal.id, 0), "damaged", goal.summary.updated_us, why=error.detail)]
    return [view for call in state.open_calls.values() if (view := _view(state, call)) is not None]


def _view(state: GoalState, call: CallState) -> ApprovalView | None:
    """Return the view of a call that waits for a person; None for any other call."""
    place = Place(state.goal_id, call.seq)
    match call:
        case CallState(call=Ask()):
            return ApprovalView(place, "question", call.began_us, ("answer",), call)
        case CallState(call=ToolCall()) if call.awaits_approval:
            shown = shown_of(state, call.call.call_id)
            return ApprovalView(place, "approval", call.began_us, ("approve", "deny"), call, shown=shown)
        case CallState(call=ToolCall(), unknown=unknown) if unknown is not None:
            return ApprovalView(place, "unknown", call.began_us, ("retry", "skip", "abort"), call, unknown.why)
        case _:
            return None
