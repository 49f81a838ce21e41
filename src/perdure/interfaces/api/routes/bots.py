"""Bots over HTTP: look at them, their files and their versions, and remove them."""

import re
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from perdure.app.wire.resources.bots import Bot, BotFile, BotSummary, BotVersion, DeletedBot
from perdure.bots.folder import require_bot_path
from perdure.bots.slugs import require_slug
from perdure.errors import Conflict, Invalid, NotFound
from perdure.interfaces.api.dependencies import BASE, Cursor, IfMatch, JsonRoute, Limit, Served, Surface, entity_tags
from perdure.interfaces.api.envelope import from_cursor, page, reply
from perdure.interfaces.api.problems import Stale
from perdure.interfaces.api.schemas.envelopes import Envelope, Page, PageMeta, with_etag

router = APIRouter(prefix="/bots", tags=["bots"], route_class=JsonRoute)

_HERE = f"{BASE}/bots"
_ETAG = re.compile(r"[0-9]{1,9}(?:-[0-9a-f]{16})?")


async def _known_slug(slug: str) -> str:  # async: else FastAPI asks a thread for it
    """Raises: NotFound when it is no slug, which names nothing."""
    try:
        return require_slug(slug)
    except Invalid:
        raise NotFound(f"There is no bot {slug[:80]!r}.") from None


async def _known_name(name: str) -> str:
    """Raises: NotFound when no bot has a file of that name; it is an id, and never becomes part of a path."""
    try:
        return require_bot_path(name)
    except Invalid:
        raise NotFound(f"No bot has a file {name[:80]!r}.") from None


def _seen(if_match: str | None) -> list[str] | None:
    """Return what a bot has to be like, one of several; None when it may be like anything.

    Raises: Invalid when it cannot be read; Stale when no bot was ever like that.
    """
    tags = entity_tags(if_match)
    if tags is None:
        return None
    found = [tag for tag in tags if _ETAG.fullmatch(tag)]
    if not found:
        raise Stale("If-Match lists no ETag that a bot could have.")
    return found


def _slug_before(cursor: str | None) -> str | None:
    """Raises: Invalid when it is no cursor of a list of bots."""
    last = from_cursor(cursor)
    return None if last is None else require_slug(last)


def _number_before(cursor: str | None) -> int | None:
    """Raises: Invalid when it is no cursor of a list of versions."""
    last = from_cursor(cursor)
    if last is not None and not re.fullmatch(r"[1-9][0-9]{0,8}", last):
        raise Invalid("This cursor is none of a list of versions; leave it out to begin anew.")
    return None if last is None else int(last)


Slug = Annotated[str, Depends(_known_slug)]
Name = Annotated[str, Depends(_known_name)]


@router.get("", operation_id="list_bots", response_model=Page[BotSummary, PageMeta])
async def list_bots(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List bots, by slug."""
    found = [bot.wire() for bot in await served.p.bots.list(limit=limit + 1, before=_slug_before(cursor))]
    return page(found[:limit], found[limit - 1]["slug"] if len(found) > limit else None)


@router.get("/{slug}", operation_id="get_bot", response_model=Envelope[Bot], responses=with_etag())
async def show_bot(slug: Slug, served: Served) -> Response:
    """Return a bot as its files on disk define it, with edits by hand and the prompt for the model."""
    bot = await served.p.bots.whole(slug)
    return reply(bot.wire(), links=_links(slug), headers={"ETag": f'"{bot.mark}"'})


@router.get("/{slug}/files/{name:path}", operation_id="get_bot_file", response_model=Envelope[BotFile])
async def show_file(slug: Slug, name: Name, served: Served) -> Response:
    """Return one file of a bot as it is on disk."""
    text = await served.p.bots.file(slug, name)
    data = {"name": name, "text": text, "sha256": sha256(text.encode()).hexdigest()}
    return reply(data, links={"self": f"{_HERE}/{slug}/files/{name}", "bot": f"{_HERE}/{slug}"})


@router.get("/{slug}/versions", operation_id="list_bot_versions", response_model=Page[BotVersion, PageMeta])
async def list_versions(slug: Slug, served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the versions of a bot, the newest first."""
    versions = await served.p.bots.versions(slug, limit=limit + 1, before=_number_before(cursor))
    found = [version.wire() for version in versions]
    last = str(found[limit - 1]["number"]) if len(found) > limit else None
    return page(found[:limit], last, {"bot": f"{_HERE}/{slug}"})


@router.delete("/{slug}", operation_id="delete_bot", response_model=Envelope[DeletedBot])
async def delete_bot(slug: Slug, served: Served, if_match: IfMatch = None) -> Response:
    """Delete a bot with its files and all its versions. With `If-Match`, only if it is unchanged.

    The number of a version, in quotes, stands for that version as long as nobody has edited its files.
    """
    seen = _seen(if_match)
    if seen is None:
        await served.p.bots.delete(slug)
    else:
        await _delete_as_seen(served, slug, seen)
    return reply({"deleted": True, "slug": slug}, links={"bots": _HERE})


async def _delete_as_seen(served: Surface, slug: str, seen: list[str]) -> None:
    """Remove a bot that is like one of the tags.

    Raises: Stale; NotFound.
    """
    for number, tag in enumerate(seen, 1):
        try:
            await served.p.bots.delete(slug, tag)
        except Conflict as error:
            if number == len(seen):
                raise Stale(error.detail) from error
        else:
            return


def _links(slug: str) -> dict[str, str]:
    here = f"{_HERE}/{slug}"
    return {"self": here, "versions": f"{here}/versions", "soul": f"{here}/files/SOUL.md"}
