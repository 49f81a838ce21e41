"""The stored sessions of interviews: load by id, save over the earlier revision, and find by prefix."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from perdure.app.builder.sessions import SESSION_ID, SessionOver, SessionView, session_view, stored_form
from perdure.errors import Conflict, Damaged, Invalid, NotFound, PerdureError
from perdure.forge.drafts import damaged, decode_draft, encode_draft
from perdure.forge.interview.engine import BuilderEngine
from perdure.forge.ports import BotStore, BuilderDraft, BuilderDraftStore
from perdure.forge.state import BuilderState
from perdure.kernel.ports import IdempotentCall

_MOST_SHOWN = 5
MOST_CACHED = 256
_SHOWN = 60


class StoredSessions:
    """Drafts with their states. The last saved drafts are cached, so that the next answer need not read them."""

    def __init__(self, drafts: BuilderDraftStore, bots: BotStore, engine: BuilderEngine) -> None:
        self._drafts = drafts
        self._bots = bots
        self._engine = engine
        self._cached: dict[str, tuple[BuilderDraft, BuilderState]] = {}

    def take_cached(self, session_id: str) -> tuple[BuilderDraft, BuilderState] | None:
        """Remove the cached state of a session, if any, and return it."""
        return self._cached.pop(session_id, None)

    async def view(self, session_id: str) -> SessionView:
        """Return a session with its pending turn.

        Raises: as `load`.
        """
        draft, state = await self.load(session_id)
        return session_view(state, draft.revision)

    async def load(self, session_id: str) -> tuple[BuilderDraft, BuilderState]:
        """Load a session with its pending turn, which is stored first if it was not stored."""
        session_id = stored_form(session_id)
        try:
            draft = await self._drafts.load_draft(session_id)
        except NotFound as error:
            raise await self.missing(session_id) from error
        except Damaged as error:
            raise damaged(session_id, error.detail) from error
        state = decode_draft(draft)
        resumed = await self._engine.resume(state)
        if resumed != state:
            try:
                draft = await self._drafts.save_draft(encode_draft(resumed), draft.revision)
            except Conflict:
                return await self.load(session_id)  # another process has saved it first
        return draft, resumed

    async def save(self, state: BuilderState, before: BuilderDraft | None, once: IdempotentCall | None) -> SessionView:
        """Save a state over its earlier draft, if there is one."""
        call = None if once is None else replace(once, subject=state.session_id)
        revision = before.revision if before else 0
        try:
            draft = await self._drafts.save_draft(encode_draft(state), revision, call, over=before)
        except Conflict as error:
            exists = f"The draft {state.session_id} exists. Resume it, or start another."
            raise Conflict(error.detail if before else exists, current=await self.current(state.session_id)) from error
        self._cache(draft, state)
        return session_view(state, draft.revision)

    def _cache(self, draft: BuilderDraft, state: BuilderState) -> None:
        """Cache the saved state: the next answer need not read it, and the revision shows whether it is stale."""
        self._cached[state.session_id] = draft, state
        while len(self._cached) > MOST_CACHED:
            del self._cached[next(iter(self._cached))]

    async def current(self, session_id: str) -> Mapping[str, Any] | None:
        """Return the session for a conflict error; None if it does not exist, or cannot be read."""
        try:
            return (await self.view(session_id)).wire()
        except PerdureError:
            return None  # deleted or unreadable; the conflict is raised without it

    async def free_id(self, session_id: str) -> str:
        """Return the wanted id of a new session in its stored form.

        Raises: Invalid when it is not a UUID; Conflict when it is taken.
        """
        if not SESSION_ID.fullmatch(session_id.lower()):
            raise Invalid(f"Invalid session id: expected a UUID, got {session_id[:60]!r}.")
        version = await self._bots.version_of_session(session_id.lower())
        if version is not None:
            raise Conflict(f"The draft {session_id} has made the bot {version.slug}. Start another.")
        return session_id.lower()

    async def missing(self, session_id: str) -> NotFound:
        """Return the error for a missing session; it names the bot that the session has made, if any."""
        version = await self._bots.version_of_session(session_id)
        if version is None:
            return NotFound(f"No draft has the id {session_id}. `perdure draft list` shows the drafts.")
        return SessionOver(session_id, version.slug, version.number)

    async def find(self, prefix: str) -> str:
        """Return the id of the only draft with a prefix; a whole id is returned unchanged.

        Raises: NotFound; Conflict, naming some of the drafts, when there are several.
        """
        if SESSION_ID.fullmatch(prefix.lower()):
            return prefix.lower()
        drafts = await self._drafts.find_drafts(prefix.lower(), limit=_MOST_SHOWN + 1) if prefix else []
        if not drafts:
            raise NotFound(f"No draft has an id with the prefix {prefix[:60]!r}. `perdure draft list` shows them.")
        if len(drafts) > 1:
            examples = [f"{draft.session_id}  {draft.initial_description[:_SHOWN]}" for draft in drafts[:_MOST_SHOWN]]
            count = f"More than {_MOST_SHOWN}" if len(drafts) > _MOST_SHOWN else str(len(drafts))
            raise Conflict(
                f"{count} drafts have ids with the prefix {prefix!r}. Type a longer prefix.", errors=examples
            )
        return drafts[0].session_id
