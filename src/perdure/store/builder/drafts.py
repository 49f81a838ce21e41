"""Drafts in the database."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from perdure.errors import Conflict, Damaged, NotFound
from perdure.forge.ports import BuilderDraft, BuilderDraftSummary, DraftPlace, IdempotentCall
from perdure.store.builder.lists import MODES, PHASES, find_drafts, list_drafts
from perdure.store.builder.texts import require_texts
from perdure.store.client import DatabaseClient
from perdure.store.idempotency import keep_call
from perdure.store.on_demand import ClientUser, Place
from perdure.store.raw import RawTransaction, Values
from perdure.text.storable import is_storable

_BY_ID = (
    "SELECT session_id, created_at, schema_version, revision, initial_description, phase, mode, question_count,"
    " updated_at, state_json FROM builder_drafts WHERE session_id = ?"
)
_INSERT = (
    "INSERT INTO builder_drafts (session_id, created_at, schema_version, revision, initial_description, phase, mode,"
    " question_count, updated_at, state_json) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (session_id) DO NOTHING RETURNING created_at"
)
_UPDATE = (
    "UPDATE builder_drafts SET schema_version = ?, revision = ?, initial_description = ?, phase = ?, mode = ?,"
    " question_count = ?, updated_at = ?, state_json = ? WHERE session_id = ? AND revision = ?{exactly}"
    " RETURNING created_at"
)
_MADE = "SELECT 1 FROM bot_versions WHERE session_id = ?"
_EXACTLY = " AND created_at = ? AND schema_version = ? AND phase = ? AND mode = ? AND state_json = ?"
_DELETE = "DELETE FROM builder_drafts WHERE session_id = ? RETURNING revision"


class SqlBuilderDraftStore(ClientUser):
    """Drafts in a SQL database, by an open client, a path or a URL. See BuilderDraftStore and ClientUser."""

    def __init__(
        self, client: DatabaseClient | Place, *, now_us: Callable[[], int] = lambda: time.time_ns() // 1000
    ) -> None:
        super().__init__(client)
        self._now_us = now_us

    async def save_draft(
        self,
        draft: BuilderDraft,
        expected_revision: int,
        once: IdempotentCall | None = None,
        *,
        over: BuilderDraft | None = None,
    ) -> BuilderDraft:
        """See BuilderDraftStore.save_draft."""
        require_texts("a draft", draft)
        saved = replace(draft, revision=expected_revision + 1, updated_at_us=self._now_us())
        try:
            created_at_us = await self._client.write_raw(lambda raw: _save(raw, saved, once, over))
        except Conflict as error:
            expected = f"revision {expected_revision}" if expected_revision else "none"
            raise Conflict(
                f"The draft {draft.session_id} was changed, created or deleted by another client: expected {expected}."
            ) from error
        return replace(saved, created_at_us=created_at_us)

    async def load_draft(self, session_id: str) -> BuilderDraft:
        """See BuilderDraftStore.load_draft."""
        if not is_storable(session_id):
            raise _missing(session_id)
        row = await self._client.read_raw(lambda raw: raw.first(_BY_ID, session_id))
        if row is None:
            raise _missing(session_id)
        return _draft(row)

    async def list_drafts(self, *, limit: int = 50, before: DraftPlace | None = None) -> Sequence[BuilderDraftSummary]:
        """See BuilderDraftStore.list_drafts."""
        return await list_drafts(self._client, limit=limit, before=before)

    async def find_drafts(self, prefix: str, *, limit: int = 50) -> Sequence[BuilderDraftSummary]:
        """See BuilderDraftStore.find_drafts."""
        return await find_drafts(self._client, prefix, limit=limit)

    async def delete_draft(self, session_id: str, expected_revision: int | None = None) -> None:
        """See BuilderDraftStore.delete_draft."""
        if not is_storable(session_id):
            raise _missing(session_id)
        await self._client.write_raw(lambda raw: _delete(raw, session_id, expected_revision))


def _save(raw: RawTransaction, draft: BuilderDraft, once: IdempotentCall | None, over: BuilderDraft | None) -> int:
    """Store a draft over its previous revision, with its idempotent call; return when it was created.

    Raises: Conflict
    """
    if draft.revision == 1:
        row = raw.first(_INSERT, draft.session_id, draft.updated_at_us, *_changing(draft))
    else:
        exactly = () if over is None else _exactly(over)
        update = _UPDATE.format(exactly=_EXACTLY if exactly else "")
        row = raw.first(update, *_changing(draft), draft.session_id, draft.revision - 1, *exactly)
    if row is None:
        raise Conflict("no draft of that revision")
    if draft.revision == 1 and raw.first(_MADE, draft.session_id) is not None:
        # checked after the insert, which waits for the end of a concurrent build of the session
        raise Conflict("the session has made a bot")
    if once is not None:
        keep_call(raw, once, draft.updated_at_us)
    return int(row[0])


def _exactly(draft: BuilderDraft) -> Values:
    return draft.created_at_us, draft.schema_version, str(draft.phase), str(draft.mode), draft.state_json


def _delete(raw: RawTransaction, session_id: str, expected_revision: int | None) -> None:
    row = raw.first(_DELETE, session_id)
    if row is None:
        raise _missing(session_id)
    if expected_revision not in (None, row[0]):
        raise Conflict(f"The draft {session_id} has revision {row[0]}, not {expected_revision}.")


def _changing(draft: BuilderDraft) -> Values:
    """Return the values of the columns that a save changes, in order."""
    return (
        draft.schema_version,
        draft.revision,
        draft.initial_description,
        str(draft.phase),
        str(draft.mode),
        draft.question_count,
        draft.updated_at_us,
        draft.state_json,
    )


def _draft(row: Values) -> BuilderDraft:
    session_id, created_at, schema_version, revision, description, phase, mode, count, updated_at, state_json = row
    if phase not in PHASES or mode not in MODES:
        raise Damaged(f"Its phase is {phase!r} and its mode {mode!r}, which are not valid.")
    return BuilderDraft(
        session_id=session_id,
        state_json=state_json,
        initial_description=description,
        phase=PHASES[phase],
        mode=MODES[mode],
        question_count=count,
        schema_version=schema_version,
        revision=revision,
        created_at_us=created_at,
        updated_at_us=updated_at,
    )


def _missing(session_id: str) -> NotFound:
    return NotFound(f"No draft {session_id!r}.")
