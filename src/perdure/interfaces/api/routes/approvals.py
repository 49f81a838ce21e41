"""What waits for a person, over all goals."""

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from perdure.interfaces.api.envelope import Envelope, from_cursor, page
from perdure.interfaces.api.surface import Cursor, JsonRoute, Limit, Served
from perdure.kernel.events import Ask, ToolCall, iso
from perdure.kernel.fold import CallState, GoalState

router = APIRouter(prefix="/approvals", tags=["approvals"], route_class=JsonRoute)


class ApprovalOut(BaseModel):
    """A call that waits for a person, and what may be decided about it."""

    goal_id: str
    call_id: str
    kind: Literal["approval", "question", "unknown"]
    step: str
    since: str
    decisions: list[str]
    question: str | None
    options: list[str] | None
    tool: str | None
    arguments: dict[str, Any] | None
    why: str | None


@router.get("", response_model=Envelope[list[ApprovalOut]])
async def list_approvals(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the calls of so many waiting goals, the newest goal first, that wait for a person to decide."""
    goals = await served.p.goals.list(limit=limit + 1, status="waiting", before=from_cursor(cursor))
    found = [
        waiting
        for goal in goals[:limit]
        if goal.summary.waiting_for == "person"
        for waiting in _waiting(await served.p.goals.state(goal.id))
    ]
    return page(found, goals[limit - 1].id if len(goals) > limit else None)


def _waiting(state: GoalState) -> list[dict[str, Any]]:
    return [each for call in state.open_calls.values() if (each := _shown(state.goal_id, call)) is not None]


def _shown(goal_id: str, call: CallState) -> dict[str, Any] | None:
    """Describe a call that waits for a person; None for one that does not."""
    match call:
        case CallState(call=Ask(question=question, options=options)):
            kind, decisions = "question", ["answer"]
            said: dict[str, Any] = {"question": question, "options": None if options is None else list(options)}
        case CallState(call=ToolCall() as asked) if call.awaits_approval:
            kind, decisions = "approval", ["approve", "deny"]
            said = {"tool": asked.tool, "arguments": asked.arguments}
        case CallState(call=ToolCall() as asked, unknown=unknown) if unknown is not None:
            kind, decisions = "unknown", ["retry", "skip", "abort"]
            said = {"tool": asked.tool, "arguments": asked.arguments, "why": unknown.why}
        case _:
            return None
    nothing = dict.fromkeys(("question", "options", "tool", "arguments", "why"))
    return {
        "goal_id": goal_id,
        "call_id": call.call.call_id,
        "kind": kind,
        "step": call.call.step,
        "since": iso(call.began_us),
        "decisions": decisions,
        **nothing,
        **said,
    }
