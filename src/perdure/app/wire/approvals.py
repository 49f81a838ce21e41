"""What waits for a person, over all goals, page by page; a goal that cannot be read is listed as damaged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from perdure.app.goals.goals import Goals
from perdure.app.wire.goal_view import GoalView
from perdure.errors import Conflict, Damaged, Invalid, NotFound
from perdure.kernel.events import Ask, ToolCall
from perdure.kernel.fold import CallState
from perdure.moments import iso

_PAGE = 200
_MOST_SCANNED = 5000
"""How many waiting goals one page looks at: most of them may wait for something other than a person."""
_WHOLE_GOAL = 2**63 - 1


@dataclass(frozen=True)
class Place:
    """Where a page ended: after the call of a goal that was begun by this event."""

    goal_id: str
    seq: int

    def __str__(self) -> str:
        return f"{self.goal_id} {self.seq}"

    @classmethod
    def read(cls, text: str) -> "Place":
        """Read what `str` gave.

        Raises: Invalid
        """
        goal_id, _, seq = text.rpartition(" ")
        if not (goal_id and seq.isascii() and seq.isdigit() and len(seq) <= len(str(_WHOLE_GOAL))):
            raise Invalid("Invalid cursor: it is not from a list of approvals. Leave it out to read from the start.")
        return cls(goal_id, int(seq))


@dataclass(frozen=True)
class ApprovalView:
    """A call that waits for a person, as every surface shows it; or a goal that cannot be read."""

    place: Place
    kind: str
    since_us: int
    decisions: tuple[str, ...] = ()
    call: CallState | None = None
    said: tuple[tuple[str, Any], ...] = ()

    def wire(self) -> dict[str, Any]:
        """Return the one JSON form."""
        empty = dict.fromkeys(("question", "options", "until", "tool", "arguments", "why"))
        return {
            "goal_id": self.place.goal_id,
            "call_id": None if self.call is None else self.call.call.call_id,
            "kind": self.kind,
            "step": None if self.call is None else self.call.call.step,
            "since": iso(self.since_us),
            "decisions": list(self.decisions),
            **empty,
            **dict(self.said),
        }


async def list_approvals(
    goals: Goals, *, limit: int = 50, after: Place | None = None
) -> tuple[Sequence[ApprovalView], Place | None]:
    """Return the calls that wait for a person, those of the newest goal first, and the place of the next page.

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
    """Return the calls of one goal; a history that cannot be read must not hide the approvals of other goals."""
    if goal.summary.waiting_for != "person":
        return []
    try:
        calls = (await goals.state(goal.id)).open_calls.values()
    except NotFound:
        return []  # deleted since it was listed
    except (Damaged, Conflict) as error:
        said = (("why", error.detail),)
        return [ApprovalView(Place(goal.id, 0), "damaged", goal.summary.updated_us, said=said)]
    return [view for call in calls if (view := _view(goal.id, call)) is not None]


def _view(goal_id: str, call: CallState) -> ApprovalView | None:
    """Describe a call that waits for a person; None for one that does not."""
    decisions: tuple[str, ...]
    said: dict[str, Any]
    match call:
        case CallState(call=Ask(question=question, options=options, until=until)):
            kind, decisions = "question", ("answer",)
            said = {"question": question, "options": None if options is None else list(options), "until": until}
        case CallState(call=ToolCall() as asked) if call.awaits_approval:
            kind, decisions = "approval", ("approve", "deny")
            said = {"tool": asked.tool, "arguments": asked.arguments}
        case CallState(call=ToolCall() as asked, unknown=unknown) if unknown is not None:
            kind, decisions = "unknown", ("retry", "skip", "abort")
            said = {"tool": asked.tool, "arguments": asked.arguments, "why": unknown.why}
        case _:
            return None
    return ApprovalView(Place(goal_id, call.seq), kind, call.began_us, decisions, call, tuple(said.items()))
