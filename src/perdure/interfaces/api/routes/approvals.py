"""The route for calls of all goals that wait for a person."""

from fastapi import APIRouter
from starlette.responses import Response

from perdure.app.wire.approvals import Place
from perdure.app.wire.approvals import list_approvals as listed
from perdure.app.wire.resources.goals import Approval
from perdure.interfaces.api.dependencies import Cursor, JsonRoute, Limit, Served
from perdure.interfaces.api.envelope import from_cursor, page
from perdure.interfaces.api.schemas.envelopes import Page, PageMeta
from perdure.interfaces.api.schemas.problems import refusals

router = APIRouter(prefix="/approvals", tags=["approvals"], route_class=JsonRoute)


@router.get("", operation_id="list_approvals", response_model=Page[Approval, PageMeta], responses=refusals(409))
async def list_approvals(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the calls that wait for a decision of a person, newest goal first."""
    place = from_cursor(cursor)
    after = None if place is None else Place.read(place)
    found, following = await listed(served.p.goals, limit=limit, after=after)
    return page([each.wire() for each in found], None if following is None else str(following))
