"""Lists of drafts and bots in plain SQL, because they are used often and SQLAlchemy is slow to import."""

from collections.abc import Sequence

import orjson

from perdure.errors import Invalid
from perdure.forge.ports import BotPurpose, BotSummary, BuilderDraftSummary, BuilderMode, BuilderPhase, DraftPlace
from perdure.store.builder.texts import require_limit
from perdure.store.client import DatabaseClient
from perdure.store.raw import RawTransaction, Values
from perdure.text.storable import is_storable

_DRAFTS = "SELECT session_id, initial_description, phase, mode, revision, updated_at FROM builder_drafts"
_NEWEST_FIRST = "ORDER BY updated_at DESC, session_id DESC LIMIT ?"
_BY_PREFIX = f"{_DRAFTS} WHERE substr(session_id, 1, ?) = ? ORDER BY session_id DESC LIMIT ?"
_BOTS = (
    "SELECT bots.id, slug, bots.name, bots.category, config, number, state, bots.created_at, updated_at"
    " FROM bots JOIN bot_versions ON bots.id = bot_id"
    " WHERE number = (SELECT max(number) FROM bot_versions WHERE bot_id = bots.id)"
)
PHASES = {str(phase): phase for phase in BuilderPhase}
MODES = {str(mode): mode for mode in BuilderMode}


async def list_drafts(
    client: DatabaseClient, *, limit: int = 50, before: DraftPlace | None = None
) -> Sequence[BuilderDraftSummary]:
    """See BuilderDraftStore.list_drafts."""
    require_limit(limit)
    if before is not None and not is_storable(before[1]):
        raise Invalid(f"{before[1]!r} is not a valid session id.")
    return await client.read_raw(lambda raw: _list(raw, limit, before))


async def find_drafts(client: DatabaseClient, prefix: str, *, limit: int = 50) -> Sequence[BuilderDraftSummary]:
    """See BuilderDraftStore.find_drafts."""
    require_limit(limit)
    if not is_storable(prefix):
        return []
    return await client.read_raw(
        lambda raw: [_draft(row) for row in raw.execute(_BY_PREFIX, len(prefix), prefix, limit)]
    )


async def list_bots(client: DatabaseClient, *, limit: int = 50, before: str | None = None) -> Sequence[BotSummary]:
    """See BotStore.list_bots."""
    require_limit(limit)
    if before is not None and not is_storable(before):
        raise Invalid(f"{before!r} is not a valid slug.")
    after, values = ("", ()) if before is None else (" AND slug > ?", (before,))
    statement = f"{_BOTS}{after} ORDER BY slug LIMIT ?"
    return await client.read_raw(lambda raw: [_bot(row) for row in raw.execute(statement, *values, limit)])


def _list(raw: RawTransaction, limit: int, before: DraftPlace | None) -> list[BuilderDraftSummary]:
    if before is None:
        return [_draft(row) for row in raw.execute(f"{_DRAFTS} {_NEWEST_FIRST}", limit)]
    statement = f"{_DRAFTS} WHERE (updated_at, session_id) < (?, ?) {_NEWEST_FIRST}"
    return [_draft(row) for row in raw.execute(statement, *before, limit)]


def _bot(row: Values) -> BotSummary:
    bot_id, slug, name, category, config, *rest = row
    return BotSummary(bot_id, slug, name, category, _purpose(config, category), *rest)


def _purpose(config: str, category: str) -> BotPurpose:
    """Return the purpose in a config; without a valid one, that of the category."""
    try:
        return BotPurpose(orjson.loads(config)["purpose"])
    except (ValueError, TypeError, KeyError):
        return BotPurpose.of_category(category)


def _draft(row: Values) -> BuilderDraftSummary:
    session_id, description, phase, mode, revision, updated_at = row
    return BuilderDraftSummary(session_id, description, PHASES.get(phase), MODES.get(mode), revision, updated_at)
