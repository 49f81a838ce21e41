"""The routes for skills, built-in ones and those of the home."""

from fastapi import APIRouter
from starlette.responses import Response

from perdure.app.builder.names import is_skill_name
from perdure.app.wire.resources.bots import Skill, SkillSummary
from perdure.errors import Invalid
from perdure.interfaces.api.dependencies import BASE, Cursor, JsonRoute, Limit, Served
from perdure.interfaces.api.envelope import from_cursor, page, reply
from perdure.interfaces.api.schemas.envelopes import Envelope, Page, PageMeta

router = APIRouter(prefix="/skills", tags=["skills"], route_class=JsonRoute)

_HERE = f"{BASE}/skills"


@router.get("", operation_id="list_skills", response_model=Page[SkillSummary, PageMeta])
async def list_skills(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the skills that a bot can have, by name."""
    after = from_cursor(cursor)
    if after is not None and not is_skill_name(after):
        raise Invalid("Unknown cursor: it is not from a list of skills. Omit it to start at the beginning.")
    known = sorted((skill.wire() for skill in await served.p.skills.list()), key=lambda skill: str(skill["name"]))
    found = [skill for skill in known if skill["name"] > (after or "")]
    return page(found[:limit], found[limit - 1]["name"] if len(found) > limit else None)


@router.get("/{name}", operation_id="get_skill", response_model=Envelope[Skill])
async def show_skill(name: str, served: Served) -> Response:
    """Return a skill with its instructions."""
    skill = await served.p.skills.get(name)
    return reply(skill.details_wire(), links={"self": f"{_HERE}/{skill.skill.name}"})
