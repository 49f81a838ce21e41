"""The routes for bots, their files and their versions."""

import binascii
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from perdure.app.builder.names import require_bot_path, require_slug
from perdure.app.builder.values import AssemblyResult
from perdure.app.memory.pins import pins_wire
from perdure.app.wire.resources.bots import (
    Bot,
    BotArchive,
    BotExplanation,
    BotFile,
    BotProblems,
    BotSummary,
    BotVersion,
    DeletedBot,
)
from perdure.app.wire.resources.builder import Assembly
from perdure.app.wire.resources.memory import PinnedRecords
from perdure.errors import Conflict, Invalid, NotFound
from perdure.interfaces.api.dependencies import (
    BASE,
    Called,
    Cursor,
    IfMatch,
    JsonRoute,
    Limit,
    Served,
    Surface,
    entity_tags,
)
from perdure.interfaces.api.envelope import from_cursor, page, reply
from perdure.interfaces.api.problems import Stale
from perdure.interfaces.api.schemas.bots import ImportBody, RollbackBody
from perdure.interfaces.api.schemas.envelopes import Envelope, Page, PageMeta, with_etag

router = APIRouter(prefix="/bots", tags=["bots"], route_class=JsonRoute)

_HERE = f"{BASE}/bots"
_ETAG = re.compile(r"[0-9]{1,9}(?:-[0-9a-f]{16})?")


async def _known_slug(slug: str) -> str:  # async: else FastAPI asks a thread for it
    """Return the slug.

    Raises: NotFound when it is not a valid slug.
    """
    try:
        return require_slug(slug)
    except Invalid:
        raise NotFound(f"There is no bot {slug[:80]!r}. `perdure bot list` shows the bots.") from None


async def _known_name(name: str) -> str:
    """Return the name of a file of a bot; it is only used as an id, not as a path.

    Raises: NotFound when no bot can have a file of that name.
    """
    try:
        return require_bot_path(name)
    except Invalid:
        raise NotFound(f"No bot has a file {name[:80]!r}.") from None


def _seen(if_match: str | None) -> list[str] | None:
    """Return the accepted ETags of a bot; None if any is accepted.

    Raises: Invalid when the header is malformed; Stale when it has no ETag of a bot.
    """
    tags = entity_tags(if_match)
    if tags is None:
        return None
    found = [tag for tag in tags if _ETAG.fullmatch(tag)]
    if not found:
        raise Stale(f'Invalid If-Match: expected the quoted ETag of the bot such as "3", got {str(if_match)[:80]}.')
    return found


def _slug_before(cursor: str | None) -> str | None:
    """Return the slug that a cursor encodes.

    Raises: Invalid when it is not a cursor of a list of bots.
    """
    last = from_cursor(cursor)
    return None if last is None else require_slug(last)


def _number_before(cursor: str | None) -> int | None:
    """Return the version number that a cursor encodes.

    Raises: Invalid when it is not a cursor of a list of versions.
    """
    last = from_cursor(cursor)
    if last is not None and not re.fullmatch(r"[1-9][0-9]{0,8}", last):
        raise Invalid("Unknown cursor: it is not from a list of versions. Omit it to start at the beginning.")
    return None if last is None else int(last)


Slug = Annotated[str, Depends(_known_slug)]
Name = Annotated[str, Depends(_known_name)]


@router.get("", operation_id="list_bots", response_model=Page[BotSummary, PageMeta])
async def list_bots(served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List bots, by slug."""
    found = [bot.wire() for bot in await served.p.bots.list(limit=limit + 1, before=_slug_before(cursor))]
    return page(found[:limit], found[limit - 1]["slug"] if len(found) > limit else None)


@router.post("", operation_id="import_bot", status_code=201, response_model=Envelope[Assembly])
async def import_bot(body: ImportBody, served: Served, once: Called) -> Response:
    """Create a new bot from an archive. Existing bots do not change. Nothing in the archive is run."""
    return _made(await served.p.bots.load_archive(_archive(body), once=once), status=201)


@router.get("/{slug}", operation_id="get_bot", response_model=Envelope[Bot], responses=with_etag())
async def show_bot(slug: Slug, served: Served) -> Response:
    """Return a bot with its current files, the edits by hand, and the prompt for a model."""
    bot = await served.p.bots.details(slug)
    return reply(bot.wire(), links=_links(slug), headers={"ETag": f'"{bot.etag}"'})


@router.get("/{slug}/files/{name:path}", operation_id="get_bot_file", response_model=Envelope[BotFile])
async def show_file(slug: Slug, name: Name, served: Served) -> Response:
    """Return the current text of a file of a bot."""
    text = await served.p.bots.file(slug, name)
    data = {"name": name, "text": text, "sha256": sha256(text.encode()).hexdigest()}
    return reply(data, links={"self": f"{_HERE}/{slug}/files/{name}", "bot": f"{_HERE}/{slug}"})


@router.get("/{slug}/versions", operation_id="list_bot_versions", response_model=Page[BotVersion, PageMeta])
async def list_versions(slug: Slug, served: Served, limit: Limit = 50, cursor: Cursor = None) -> Response:
    """List the versions of a bot, newest first."""
    versions = await served.p.bots.versions(slug, limit=limit + 1, before=_number_before(cursor))
    found = [version.wire() for version in versions]
    last = str(found[limit - 1]["number"]) if len(found) > limit else None
    return page(found[:limit], last, {"bot": f"{_HERE}/{slug}"})


@router.get("/{slug}/explanation", operation_id="explain_bot_line", response_model=Envelope[BotExplanation])
async def explain_line(
    slug: Slug,
    served: Served,
    place: Annotated[str, Query(min_length=1, max_length=1000, description="A file and a line: `SOUL.md:12`.")],
) -> Response:
    """Return the question and the answer that a line of a bot came from."""
    return reply((await served.p.bots.explain(slug, place)).wire(), links=_links(slug))


@router.get("/{slug}/problems", operation_id="list_bot_problems", response_model=Envelope[BotProblems])
async def list_problems(slug: Slug, served: Served) -> Response:
    """Check all files of a bot, and return their problems."""
    return reply({"slug": slug, "problems": list(await served.p.bots.verify(slug))}, links=_links(slug))


@router.post("/{slug}/rollback", operation_id="roll_back_bot", response_model=Envelope[Assembly])
async def roll_back(slug: Slug, body: RollbackBody, served: Served, once: Called) -> Response:
    """Restore an earlier version of a bot as a new version. Files that were edited by hand are kept as `NAME.old`."""
    return _made(await served.p.bots.rollback(slug, body.version, once=once))


@router.get("/{slug}/archive", operation_id="export_bot", response_model=Envelope[BotArchive])
async def export(slug: Slug, served: Served) -> Response:
    """Return an archive of the current files of a bot."""
    data = await served.p.bots.export(slug)
    archive = {"slug": slug, "archive": b64encode(data).decode(), "sha256": sha256(data).hexdigest()}
    return reply(archive, links=_links(slug))


@router.delete("/{slug}", operation_id="delete_bot", response_model=Envelope[DeletedBot])
async def delete_bot(
    slug: Slug,
    served: Served,
    with_choices: Annotated[bool, Query(description="Also delete its remembered choices.")] = False,
    if_match: IfMatch = None,
) -> Response:
    """Delete a bot with its files and all its versions. With `If-Match`, only if it is unchanged.

    The number of a version, in quotes, matches that version as long as its files were not edited.
    """
    seen = _seen(if_match)
    if seen is None:
        await served.p.bots.delete(slug, with_choices=with_choices)
    else:
        await _delete_as_seen(served, slug, seen, with_choices=with_choices)
    return reply({"deleted": True, "slug": slug}, links={"bots": _HERE})


async def _delete_as_seen(served: Surface, slug: str, seen: list[str], *, with_choices: bool) -> None:
    """Delete a bot if its ETag is one of `seen`.

    Raises: Stale; NotFound.
    """
    for number, tag in enumerate(seen, 1):
        try:
            await served.p.bots.delete(slug, tag, with_choices=with_choices)
        except Conflict as error:
            if number == len(seen):
                raise Stale(error.detail) from error
        else:
            return


def _archive(body: ImportBody) -> bytes:
    """Return the bytes of an archive.

    Raises: Invalid when it is not in base64.
    """
    try:
        return b64decode(body.archive, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"archive is not in base64: {error}.") from None


def _made(result: AssemblyResult, *, status: int = 200) -> Response:
    return reply({"result": result.model_dump(mode="json")}, status=status, links=_links(result.bot_slug))


def _links(slug: str) -> dict[str, str]:
    here = f"{_HERE}/{slug}"
    return {"self": here, "versions": f"{here}/versions", "soul": f"{here}/files/SOUL.md"}


@router.get("/{slug}/pins", operation_id="list_pins", response_model=Envelope[PinnedRecords])
async def list_pins(slug: Slug, served: Served) -> Response:
    """List the records of the memory that a bot has pinned, which are in each of its prompts.

    `assistant` is the built-in bot.
    """
    return reply(pins_wire(await served.p.memory.pins(slug)))
