"""What waits for a person, over all goals."""

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from perdure.interfaces.api.envelope import from_cursor, page
from perdure.interfaces.api.schemas.envelopes import Page, PageMeta
from perdure.interfaces.api.schemas.goals import Approval
from perdure.interfaces.api.schemas.problems import refusals
from perdure.interfaces.api.surface import Cursor, Limit, Served
from perdure.kernel.events import Ask, ToolCall, iso
from perdure.kernel.fold import CallState, GoalState

router = APIRouter(prefix="/approvals", tags=["approvals"])


@router.get("", operation_id="list_approvals", response_model=Page[Approval, PageMeta], responses=refusals(409))
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
