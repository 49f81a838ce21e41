"""Bots and all their versions in the database."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from perdure.errors import Conflict, NotFound
from perdure.forge.ports import BotSummary, BotVersion, BuilderMemoryEntry, VersionSummary
from perdure.store.builder.choices import forget_bot, remember, require_choice
from perdure.store.builder.lists import list_bots
from perdure.store.builder.texts import damaged, from_json, require_limit, require_texts
from perdure.store.client import DatabaseClient
from perdure.store.on_demand import ClientUser, Place
from perdure.store.schema.forge import bot_versions, bots, builder_drafts
from perdure.store.transaction import Transaction
from perdure.text.storable import is_storable
from perdure.text.strict_json import dump_json

_JSONS = ("hand_edits", "files", "sha256", "config", "conversation", "provenance")
_WHOLE = sa.select(bots.c.slug, bot_versions).join_from(bots, bot_versions, bots.c.id == bot_versions.c.bot_id)
_all = bot_versions.alias()
_NEWEST_NUMBER = sa.select(sa.func.max(_all.c.number)).where(_all.c.bot_id == bots.c.id).scalar_subquery()


class SqlBotStore(ClientUser):
    """Bots in a SQL database, by an open client, a path or a URL. See BotStore and ClientUser."""

    def __init__(
        self, client: DatabaseClient | Place, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        super().__init__(client)
        self._now_us = now_us

    async def save_version(
        self, version: BotVersion, choice: BuilderMemoryEntry | None = None, *, draft_revision: int | None = None
    ) -> BotVersion:
        """See BotStore.save_version."""
        require_texts("a bot", version)
        if choice is not None:
            require_choice(choice)
        pending = replace(version, state="pending", created_at_us=version.created_at_us or self._now_us())
        try:
            return await self._client.transaction(lambda tx: _save(tx, pending, choice, draft_revision))
        except Conflict:  # another process may have built the same session first
            made = None if version.session_id is None else await self.version_of_session(version.session_id)
            if made is None:
                raise
            return made

    async def mark_current(self, bot_id: str, number: int) -> None:
        """See BotStore.mark_current."""
        if not is_storable(bot_id):
            raise NotFound(f"There is no bot with the id {bot_id!r}.")
        await self._client.transaction(lambda tx: _mark_current(tx, bot_id, number))

    async def version_of_session(self, session_id: str) -> BotVersion | None:
        """See BotStore.version_of_session."""
        if not is_storable(session_id):
            return None
        return await self._client.read(lambda tx: _made_by(tx, session_id))

    async def version(self, slug: str, number: int | None = None) -> BotVersion:
        """See BotStore.version."""
        if number is None:
            return await self._one(slug, bot_versions.c.number == _NEWEST_NUMBER, _no_bot(slug))
        missing = f"There is no version {number} of the bot {slug!r}. `perdure bot versions {slug}` lists its versions."
        return await self._one(slug, bot_versions.c.number == number, missing)

    async def versions(
        self, slug: str, *, limit: int | None = None, before: int | None = None
    ) -> Sequence[VersionSummary]:
        """See BotStore.versions."""
        if limit is not None:
            require_limit(limit)
        rows = await self._client.read(lambda tx: _summaries(tx, slug, limit, before)) if is_storable(slug) else None
        if rows is None:
            raise NotFound(_no_bot(slug))
        return [_summary(slug, row) for row in rows]

    async def list_bots(self, *, limit: int = 50, before: str | None = None) -> Sequence[BotSummary]:
        """See BotStore.list_bots."""
        return await list_bots(self._client, limit=limit, before=before)

    async def delete_bot(self, slug: str, number: int | None = None, *, with_choices: bool = False) -> None:
        """See BotStore.delete_bot."""
        if not is_storable(slug):
            raise NotFound(_no_bot(slug))
        await self._client.transaction(lambda tx: _delete(tx, slug, number, with_choices=with_choices))

    async def _one(self, slug: str, which: sa.ColumnElement[bool], missing: str) -> BotVersion:
        query = _WHOLE.where(bots.c.slug == slug, which)
        row = await self._client.read(lambda tx: tx.execute(query).first()) if is_storable(slug) else None
        if row is None:
            raise NotFound(missing)
        return _version(row)


def _summaries(tx: Transaction, slug: str, limit: int | None, before: int | None) -> "Sequence[sa.Row[Any]] | None":
    """Return the rows of a list of versions; None if the bot does not exist."""
    c = bot_versions.c
    bot_id = tx.scalar(sa.select(bots.c.id).where(bots.c.slug == slug))
    if bot_id is None:
        return None
    columns = (c.number, c.state, c.origin, c.sha256, c.created_at, c.hand_edits)
    query = sa.select(*columns).where(c.bot_id == bot_id)
    if before is not None:
        query = query.where(c.number < before)
    return tx.execute(query.order_by(c.number.desc()).limit(limit)).all()


def _save(
    tx: Transaction, version: BotVersion, choice: BuilderMemoryEntry | None, draft_revision: int | None
) -> BotVersion:
    """Save a version. The row of the bot is locked first, so that concurrent saves of one number are serialized."""
    if version.session_id is not None and (made := _made_by(tx, version.session_id)) is not None:
        return made
    if version.number == 1:
        _add_bot(tx, version)
    else:
        _change_bot(tx, version)
    columns = ("bot_id", "number", "state", "origin", "name", "category", "session_id")
    values = {name: getattr(version, name) for name in columns}
    parts = {name: dump_json(getattr(version, name), f"The {name} of a bot").decode() for name in _JSONS}
    tx.execute(sa.insert(bot_versions).values(**values, **parts, created_at=version.created_at_us))
    if choice is not None:
        remember(tx, choice)
    if version.session_id is not None:
        _remove_draft(tx, version.session_id, draft_revision)
    return version


def _remove_draft(tx: Transaction, session_id: str, revision: int | None) -> None:
    """Delete the draft of a session.

    Raises: Conflict when it has another revision, so that a later answer is not lost.
    """
    gone = sa.delete(builder_drafts).where(builder_drafts.c.session_id == session_id)
    if revision is None:
        tx.execute(gone)
    elif tx.execute(gone.where(builder_drafts.c.revision == revision)).rowcount == 0:
        raise Conflict(
            f"The draft {session_id} was changed or deleted while it was assembled: expected revision {revision}."
            " Nothing was built. Load the draft again."
        )


def _add_bot(tx: Transaction, version: BotVersion) -> None:
    """Insert the row of a bot.

    Raises: Conflict when the slug is taken, or the bot exists.
    """
    taken = sa.select(bots.c.id).where((bots.c.slug == version.slug) | (bots.c.id == version.bot_id))
    if (owner := tx.scalar(taken)) is not None:
        if owner == version.bot_id:
            raise Conflict(f"The bot {version.slug} exists already. Read it and try again.")
        raise Conflict(f"Another bot with the slug {version.slug} exists already. Choose another slug.")
    tx.execute(
        sa.insert(bots).values(
            id=version.bot_id,
            slug=version.slug,
            name=version.name,
            category=version.category,
            session_id=version.session_id,
            created_at=version.created_at_us,
            updated_at=version.created_at_us,
        )
    )


def _change_bot(tx: Transaction, version: BotVersion) -> None:
    """Update the row of a bot.

    Raises: Conflict when the bot no longer exists, or the number is not the next.
    """
    change = (
        sa.update(bots)
        .where(bots.c.id == version.bot_id, bots.c.slug == version.slug)
        .values(name=version.name, category=version.category, updated_at=version.created_at_us)
    )
    if tx.execute(change).rowcount == 0:
        raise Conflict(f"The bot {version.slug} ({version.bot_id}) was deleted by another client.")
    last = tx.scalar(sa.select(sa.func.max(bot_versions.c.number)).where(bot_versions.c.bot_id == version.bot_id))
    if version.number != last + 1:
        raise _changed(version.slug, last)


def _changed(slug: str, last: int) -> Conflict:
    return Conflict(
        f"The bot {slug} was changed by another client: its newest version is now {last}. Read it and try again."
    )


def _no_bot(slug: str) -> str:
    return f"There is no bot {slug[:80]!r}. `perdure bot list` shows the bots."


def _delete(tx: Transaction, slug: str, number: int | None, *, with_choices: bool) -> None:
    """Delete a bot if its newest version is `number`. Its row is locked first, so no version is added meanwhile."""
    bot_id = tx.scalar(sa.select(bots.c.id).where(bots.c.slug == slug).with_for_update())
    if bot_id is None:
        raise NotFound(_no_bot(slug))
    last = tx.scalar(sa.select(sa.func.max(bot_versions.c.number)).where(bot_versions.c.bot_id == bot_id))
    if number not in (None, last):
        raise _changed(slug, last)
    tx.execute(sa.delete(bots).where(bots.c.id == bot_id))
    if with_choices:
        forget_bot(tx, slug)


def _mark_current(tx: Transaction, bot_id: str, number: int) -> None:
    """Make a pending version the current one, unless a later version has superseded it.

    Raises: NotFound
    """
    own = bot_versions.c.bot_id == bot_id
    tx.execute(sa.select(bots.c.id).where(bots.c.id == bot_id).with_for_update())
    state = tx.scalar(sa.select(bot_versions.c.state).where(own, bot_versions.c.number == number))
    if state is None:
        raise NotFound(f"There is no version {number} of the bot with the id {bot_id}.")
    if state == "pending":
        earlier = sa.update(bot_versions).where(own, bot_versions.c.number < number, bot_versions.c.state != "past")
        tx.execute(earlier.values(state="past"))
        tx.execute(sa.update(bot_versions).where(own, bot_versions.c.number == number).values(state="current"))


def _made_by(tx: Transaction, session_id: str) -> BotVersion | None:
    row = tx.execute(_WHOLE.where(bot_versions.c.session_id == session_id)).first()
    return None if row is None else _version(row)


def _summary(slug: str, row: "sa.Row[Any]") -> VersionSummary:
    return VersionSummary(
        number=row.number,
        state=row.state,
        origin=row.origin,
        sha256=_part("sha256", slug, row),
        created_at_us=row.created_at,
        hand_edits=_part("hand_edits", slug, row),
    )


def _version(row: "sa.Row[Any]") -> BotVersion:
    return BotVersion(
        bot_id=row.bot_id,
        slug=row.slug,
        name=row.name,
        category=row.category,
        number=row.number,
        state=row.state,
        origin=row.origin,
        session_id=row.session_id,
        created_at_us=row.created_at,
        **{name: _part(name, row.slug, row) for name in _JSONS},
    )


def _part(name: str, slug: str, row: "sa.Row[Any]") -> Any:
    """Return one JSON column of a version.

    Raises: Damaged when it does not have the form in which it is written.
    """
    what = f"{name} of {slug}, version {row.number},"
    value = from_json(what, getattr(row, name))
    if not _has_form(name, value):
        raise damaged(what)
    return value


def _has_form(name: str, value: Any) -> bool:
    match name:
        case "conversation":
            return isinstance(value, list) and all(isinstance(each, dict) for each in value)
        case "hand_edits":
            return isinstance(value, list) and all(isinstance(each, str) for each in value)
        case "provenance":
            return isinstance(value, dict) and all(isinstance(each, list) for each in value.values())
        case "config":
            return isinstance(value, dict)
        case _:
            return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
