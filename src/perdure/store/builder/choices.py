"""Choices in the database."""

import logging
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from perdure.errors import Damaged, NotFound
from perdure.forge.ports import BuilderMemoryEntry, ChoicePlace
from perdure.store.builder.texts import damaged, from_json, require_limit, require_texts
from perdure.store.on_demand import ClientUser
from perdure.store.schema.forge import builder_memory
from perdure.store.transaction import Transaction
from perdure.text.storable import is_storable
from perdure.text.strict_json import dump_json

log = logging.getLogger(__name__)


class SqlBuilderMemoryStore(ClientUser):
    """Choices in a SQL database, by an open client, a path or a URL. See BuilderMemoryStore and ClientUser."""

    async def record_session(self, entry: BuilderMemoryEntry) -> None:
        """See BuilderMemoryStore.record_session."""
        require_choice(entry)
        await self._client.transaction(lambda tx: remember(tx, entry))

    async def recall_by_category(
        self, category: str, limit: int = 10, *, before: ChoicePlace | None = None
    ) -> Sequence[BuilderMemoryEntry]:
        """See BuilderMemoryStore.recall_by_category."""
        require_limit(limit)
        if not is_storable(category):
            return []
        of_category = _NEWEST.where(builder_memory.c.purpose_category == category)
        return await self._select(_page(of_category, limit, before))

    async def recall_recent(
        self, limit: int = 10, *, before: ChoicePlace | None = None
    ) -> Sequence[BuilderMemoryEntry]:
        """See BuilderMemoryStore.recall_recent."""
        require_limit(limit)
        return await self._select(_page(_NEWEST, limit, before))

    async def remove_choice(self, choice_id: str) -> None:
        """See BuilderMemoryStore.remove_choice."""
        gone = sa.delete(builder_memory).where(builder_memory.c.id == choice_id)
        found = await self._client.transaction(lambda tx: tx.execute(gone).rowcount) if is_storable(choice_id) else 0
        if not found:
            raise NotFound(f"There is no choice {choice_id[:60]!r}. `perdure choice list` shows all.")

    async def clear_choices(self) -> int:
        """See BuilderMemoryStore.clear_choices."""
        return await self._client.transaction(lambda tx: tx.execute(sa.delete(builder_memory)).rowcount)

    async def _select(self, query: "sa.Select[tuple[object, ...]]") -> list[BuilderMemoryEntry]:
        found = await self._client.read(lambda tx: tx.execute(query).all())
        return [entry for row in found if (entry := _readable(row)) is not None]


_NEWEST = sa.select(builder_memory).order_by(builder_memory.c.created_at.desc(), builder_memory.c.id.desc())


def _page(
    query: "sa.Select[tuple[object, ...]]", limit: int, before: ChoicePlace | None
) -> "sa.Select[tuple[object, ...]]":
    if before is not None:
        query = query.where(sa.tuple_(builder_memory.c.created_at, builder_memory.c.id) < sa.tuple_(*before))
    return query.limit(limit)


def require_choice(entry: BuilderMemoryEntry) -> None:
    """Check that a choice can be stored.

    Raises: Invalid
    """
    require_texts("a choice", entry)


def remember(tx: Transaction, entry: BuilderMemoryEntry) -> None:
    """Store a choice inside a transaction; an existing one is unchanged."""
    values = {
        "id": entry.id,
        "purpose_category": entry.purpose_category,
        "initial_description": entry.initial_description,
        "chosen_tone": entry.chosen_tone,
        "chosen_model": entry.chosen_model,
        "chosen_skills": dump_json(entry.chosen_skills, "The skills of a choice").decode(),
        "bot_slug": entry.bot_slug,
        "created_at": entry.created_at_us,
    }
    if tx.dialect == "sqlite":
        tx.execute(sqlite.insert(builder_memory).values(**values).on_conflict_do_nothing())
    else:
        tx.execute(postgresql.insert(builder_memory).values(**values).on_conflict_do_nothing())


def forget_bot(tx: Transaction, slug: str) -> None:
    """Delete the choices of a bot inside a transaction."""
    tx.execute(sa.delete(builder_memory).where(builder_memory.c.bot_slug == slug))


def _readable(row: "sa.Row[tuple[object, ...]]") -> BuilderMemoryEntry | None:
    """Return a choice; None if it is damaged, because it is only a hint and must not cause an error."""
    try:
        return _entry(row)
    except Damaged as error:
        log.warning("ignored a damaged choice: %s", error)
        return None


def _entry(row: "sa.Row[tuple[object, ...]]") -> BuilderMemoryEntry:
    skills = from_json(f"choice {row.id}", row.chosen_skills)
    if not isinstance(skills, list) or not all(isinstance(skill, str) for skill in skills):
        raise damaged(f"choice {row.id}")
    return BuilderMemoryEntry(
        id=row.id,
        purpose_category=row.purpose_category,
        initial_description=row.initial_description,
        chosen_tone=row.chosen_tone,
        chosen_model=row.chosen_model,
        chosen_skills=tuple(skills),
        bot_slug=row.bot_slug,
        created_at_us=row.created_at,
    )
