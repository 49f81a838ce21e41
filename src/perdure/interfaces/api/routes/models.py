"""The routes for models: list them and test one. Keys are never stored over HTTP."""

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
    """List the configured models, then one example of each other well-known provider. No provider is called."""
    after = from_cursor(cursor)
    known = await asyncio.to_thread(served.p.models.list)
    names = [model["name"] for model in known]
    if after is not None and after not in names:
        raise Invalid("Unknown cursor: it is not from a list of models. Omit it to start at the beginning.")
    rest = known if after is None else known[names.index(after) + 1 :]
    return page(rest[:limit], rest[limit - 1]["name"] if len(rest) > limit else None)


@router.post("/test", operation_id="test_model", response_model=Envelope[TestedModel])
async def try_model(body: TrialBody, served: Served) -> Response:
    """Send one short request to a model. If the model does not answer, 503 has the reason and the next command."""
    return reply(await served.p.models.test(body.name), links={"models": _HERE})
