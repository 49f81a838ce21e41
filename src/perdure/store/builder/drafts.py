"""Drafts in the database."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import sqlalchemy as sa

from perdure.errors import Conflict, Damaged, NotFound
from perdure.forge.ports import BuilderDraft, BuilderDraftSummary, Once
from perdure.store.builder.lists import MODES, PHASES, find_drafts, list_drafts
from perdure.store.builder.texts import is_text, require_texts
from perdure.store.client import DatabaseClient
from perdure.store.once import keep_once
from perdure.store.schema.forge import builder_drafts
from perdure.store.transaction import Transaction

_BY_ID = sa.select(builder_drafts).where(builder_drafts.c.session_id == sa.bindparam("wanted"))
_CHANGING = (
    *("state_json", "schema_version", "revision", "initial_description", "phase", "mode", "question_count"),
    "updated_at",
)
_SWAP = (  # made once: to put a statement together takes longer than to run it
    sa.update(builder_drafts)
    .where(builder_drafts.c.session_id == sa.bindparam("wanted"), builder_drafts.c.revision == sa.bindparam("was"))
    .values({name: sa.bindparam(f"new_{name}") for name in _CHANGING})
    .returning(builder_drafts.c.created_at)
)


class SqlBuilderDraftStore:
    """Drafts in a SQL database. See BuilderDraftStore."""

    def __init__(self, client: DatabaseClient, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1000) -> None:
        self._client = client
        self._now_us = now_us

    async def save_draft(self, draft: BuilderDraft, expected_revision: int, once: Once | None = None) -> BuilderDraft:
        """See BuilderDraftStore.save_draft."""
        require_texts("a draft", draft)
        saved = replace(draft, revision=expected_revision + 1, updated_at_us=self._now_us())
        put = _insert if expected_revision == 0 else _update
        try:
            created_at_us = await self._client.transaction(
                lambda tx: _kept(tx, put(tx, saved), once, saved.updated_at_us)
            )
        except Conflict as error:
            expected = f"revision {expected_revision}" if expected_revision else "none"
            raise Conflict(
                f"The draft {draft.session_id} was changed, made or deleted by somebody else: expected was {expected}."
            ) from error
        return replace(saved, created_at_us=created_at_us)

    async def load_draft(self, session_id: str) -> BuilderDraft:
        """See BuilderDraftStore.load_draft."""
        if not is_text(session_id):
            raise _missing(session_id)
        row = await self._client.read(lambda tx: tx.execute(_BY_ID, {"wanted": session_id}).first())
        if row is None:
            raise _missing(session_id)
        return _draft(row)

    async def list_drafts(self, *, limit: int = 50, before: str | None = None) -> Sequence[BuilderDraftSummary]:
        """See BuilderDraftStore.list_drafts."""
        return await list_drafts(self._client, limit=limit, before=before)

    async def find_drafts(self, prefix: str, *, limit: int = 50) -> Sequence[BuilderDraftSummary]:
        """See BuilderDraftStore.find_drafts."""
        return await find_drafts(self._client, prefix, limit=limit)

    async def delete_draft(self, session_id: str) -> None:
        """See BuilderDraftStore.delete_draft."""
        if not is_text(session_id):
            raise _missing(session_id)
        gone = sa.delete(builder_drafts).where(builder_drafts.c.session_id == session_id)
        if await self._client.transaction(lambda tx: tx.execute(gone).rowcount) == 0:
            raise _missing(session_id)


def _kept(tx: Transaction, created_at_us: int, once: Once | None, now_us: int) -> int:
    """Keep the call that a draft was saved for beside it."""
    if once is not None:
        keep_once(tx, once, now_us)
    return created_at_us


def _insert(tx: Transaction, draft: BuilderDraft) -> int:
    """Store a new draft, and return when it was made.

    Raises: Conflict, by the database, when there is one.
    """
    created_at = {"created_at": draft.updated_at_us}
    tx.execute(sa.insert(builder_drafts).values(session_id=draft.session_id, **created_at, **_changing(draft)))
    return draft.updated_at_us


def _update(tx: Transaction, draft: BuilderDraft) -> int:
    """Store a draft over the revision before, and return when it was made."""
    given = {f"new_{name}": value for name, value in _changing(draft).items()}
    created_at_us = tx.scalar(_SWAP, {"wanted": draft.session_id, "was": draft.revision - 1, **given})
    if created_at_us is None:
        raise Conflict("no draft of that revision")
    return int(created_at_us)


def _changing(draft: BuilderDraft) -> dict[str, object]:
    """Return what a save changes, by column."""
    return {
        "state_json": draft.state_json,
        "schema_version": draft.schema_version,
        "revision": draft.revision,
        "initial_description": draft.initial_description,
        "phase": str(draft.phase),
        "mode": str(draft.mode),
        "question_count": draft.question_count,
        "updated_at": draft.updated_at_us,
    }


def _draft(row: "sa.Row[tuple[object, ...]]") -> BuilderDraft:
    if row.phase not in PHASES or row.mode not in MODES:
        raise Damaged(f"Its phase is {row.phase!r} and its mode {row.mode!r}, which is not what was written.")
    return BuilderDraft(
        session_id=row.session_id,
        state_json=row.state_json,
        initial_description=row.initial_description,
        phase=PHASES[row.phase],
        mode=MODES[row.mode],
        question_count=row.question_count,
        schema_version=row.schema_version,
        revision=row.revision,
        created_at_us=row.created_at,
        updated_at_us=row.updated_at,
    )


def _missing(session_id: str) -> NotFound:
    return NotFound(f"There is no draft {session_id!r}.")
