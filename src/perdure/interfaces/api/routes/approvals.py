"""What waits for a person, over all goals."""

from typing import Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.responses import Response

from perdure.app.approvals import Place
from perdure.app.approvals import list_approvals as listed
from perdure.interfaces.api.envelope import Envelope, from_cursor, page
from perdure.interfaces.api.surface import Cursor, Limit, Served

router = APIRouter(prefix="/approvals", tags=["approvals"])


class ApprovalOut(BaseModel):
    """A call that waits for a person, and what may be decided about it.

    Of the kind `damaged` is a goal whose history cannot be read: it has no `call_id`, `step` or `decisions`, and `why`
    says what is wrong.
    """

    goal_id: str
    call_id: str | None
    kind: Literal["approval", "question", "unknown", "damaged"]
    step: str | None
    since: str
    decisions: list[str]
    question: str | None
    options: list[str] | None
    tool: str | None
    arguments: dict[str, Any] | None
    why: str | None


@router.get("", response_model=Envelope[list[ApprovalOut]])
async def list_approvals(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the calls that wait for a person to decide, those of the newest goal first."""
    place = from_cursor(cursor)
    after = None if place is None else Place.read(place)
    found, following = await listed(served.p.goals, limit=limit, after=after)
    return page([each.wire() for each in found], None if following is None else str(following))
