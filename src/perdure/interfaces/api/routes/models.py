"""Models over HTTP: those that goals can ask, and trying one. Keys are stored where the home is, never over HTTP."""

import asyncio

from fastapi import APIRouter
from starlette.responses import Response

from perdure.app.wire.resources.models import Model, TestedModel
from perdure.errors import Invalid
from perdure.interfaces.api.dependencies import BASE, Cursor, JsonRoute, Limit, Served
from perdure.interfaces.api.envelope import from_cursor, page, reply
from perdure.interfaces.api.schemas.envelopes import Envelope, Page, PageMeta
from perdure.interfaces.api.schemas.models import TrialBody

router = APIRouter(prefix="/models", tags=["models"], route_class=JsonRoute)

_HERE = f"{BASE}/models"


@router.get("", operation_id="list_models", response_model=Page[Model, PageMeta])
async def list_models(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the models of the settings, then one of each well-known provider that has none there. None is asked."""
    after = from_cursor(cursor)
    known = await asyncio.to_thread(served.p.models.list)
    names = [model["name"] for model in known]
    if after is not None and after not in names:
        raise Invalid("This cursor is not one of the list of models. Leave it out to begin at the first.")
    rest = known if after is None else known[names.index(after) + 1 :]
    return page(rest[:limit], rest[limit - 1]["name"] if len(rest) > limit else None)


@router.post("/test", operation_id="test_model", response_model=Envelope[TestedModel])
async def try_model(body: TrialBody, served: Served) -> Response:
    """Ask a model for one word, once. 503 says why it has not answered, and the command that fixes it."""
    return reply(await served.p.models.test(body.name), links={"models": _HERE})
