"""What can be done with Forge: begin an interview, answer, take it up again, and build what it has come to."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.app.builder.interview_context import InterviewContext
from perdure.app.builder.list_views import ChoiceView, DraftView
from perdure.app.builder.sessions import SessionView, known_form, require_whole_session_id, session_view
from perdure.app.builder.skills import Skills, SkillView
from perdure.app.builder.stored_sessions import StoredSessions
from perdure.app.home.system import SystemClock, SystemIds
from perdure.app.idempotency import Idempotency
from perdure.errors import Conflict, Invalid, NotFound
from perdure.forge.answers import read_answer
from perdure.forge.assembly.assembly import AssemblyResult, BotAssembler
from perdure.forge.assembly.changes import Changes
from perdure.forge.config import BuilderConfig, read_config
from perdure.forge.interview.engine import BuilderEngine, BuiltinEngine
from perdure.forge.ports import (
    BotStore,
    BuilderDraft,
    BuilderDraftStore,
    BuilderMemoryStore,
    BuilderMode,
    ChoicePlace,
    DraftPlace,
)
from perdure.forge.state import BuilderState
from perdure.kernel.ports import IdempotencyKeys, IdempotentCall
from perdure.store.builder.bots import SqlBotStore
from perdure.store.builder.choices import SqlBuilderMemoryStore
from perdure.store.builder.drafts import SqlBuilderDraftStore
from perdure.store.client import DatabaseClient
from perdure.store.idempotency import SqlIdempotencyKeys


@dataclass(frozen=True)
class ForgeStores:
    """Where Forge keeps what it knows."""

    drafts: BuilderDraftStore
    choices: BuilderMemoryStore
    bots: BotStore
    keys: IdempotencyKeys


class Forge:
    """The builder of a home. Every turn is kept before it is returned; what fails has changed nothing.

    async with Perdure.open() as p:
        session = await p.forge.start("a timer for pasta")
        session = await p.forge.answer(session.session_id, {"option_index": 0})
    """

    def __init__(
        self,
        stores: ForgeStores,
        assembler: BotAssembler,
        *,
        new_id: Callable[[], str],
        skills: Skills,
        engine: BuilderEngine | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._stores = stores
        self._assembler = assembler
        self._new_id = new_id
        self._skills = skills
        self._engine = engine or BuiltinEngine()
        self._calls = Idempotency(stores.keys)
        self._context = InterviewContext(stores.choices, stores.bots, skills, environment)
        self._sessions = StoredSessions(stores.drafts, stores.bots, self._engine)

    async def start(
        self, description: str, mode: str = "bot", session_id: str | None = None, *, once: IdempotentCall | None = None
    ) -> SessionView:
        """Begin an interview about a new bot; the same call, named by its key, begins one.

        Raises: Invalid; Conflict, with what is there now, when there is such a session already.
        """
        if mode != BuilderMode.BOT:
            raise Invalid(f"A session of mode {mode!r} cannot be begun like this; 'bot' can.")
        return await self._calls.in_change(once, lambda: self._start(description, session_id, once), self.get)

    async def _start(self, description: str, session_id: str | None, once: IdempotentCall | None) -> SessionView:
        session_id = await self._free_id(session_id)
        here = await self._context.surroundings()
        state = await self._engine.start(session_id, description, here)
        if past := await self._context.past(state):
            state = await self._engine.start(session_id, description, here.model_copy(update={"past": past}))
        return await self._sessions.save(state, None, once)

    async def _free_id(self, wanted: str | None) -> str:
        return self._new_id() if wanted is None else await self._sessions.free_id(wanted)

    async def reconfigure(
        self, bot_slug: str, session_id: str | None = None, description: str = "", *, once: IdempotentCall | None = None
    ) -> SessionView:
        """Begin an interview about a bot that is there already.

        Raises: NotFound when there is no such bot; otherwise as `start`.
        """
        return await self._calls.in_change(
            once, lambda: self._reconfigure(bot_slug, session_id, description, once), self.get
        )

    async def _reconfigure(
        self, bot_slug: str, session_id: str | None, description: str, once: IdempotentCall | None
    ) -> SessionView:
        target = await self._assembler.target(bot_slug)
        session_id = await self._free_id(session_id)
        here = await self._context.surroundings()
        state = await self._engine.reconfigure(session_id, description, here, target)
        if past := await self._context.past(state):
            here = here.model_copy(update={"past": past})
            state = await self._engine.reconfigure(session_id, description, here, target)
        return await self._sessions.save(state, None, once)

    async def reconfigure_from(
        self, session_id: str, bot_slug: str | None = None, description: str = "", *, once: IdempotentCall | None = None
    ) -> SessionView:
        """Begin an interview about a bot from a session: under its id, or under a new one when it has made a bot.

        Without a slug it is about the bot that the session made.

        Raises: NotFound; Invalid when no bot is named and the session has made none; otherwise as `reconfigure`.
        """
        made = await self._stores.bots.made_by(known_form(session_id))
        slug = bot_slug or (None if made is None else made.slug)
        if slug is None:
            raise Invalid(f"The session {session_id} has made no bot. Name the bot to change: bot_slug.")
        return await self.reconfigure(slug, session_id if made is None else None, description, once=once)

    async def get(self, session_id: str) -> SessionView:
        """Take up a session where it was left: the same question with the same options.

        Raises: NotFound; Damaged, naming the draft; Conflict when a newer Perdure has written it.
        """
        return await self._sessions.view(session_id)

    async def resume(self, session_id: str) -> SessionView:
        """Return a session that is to be answered further, as `get`; a change of a deleted bot is refused.

        Raises: NotFound, also when its bot was deleted; otherwise as `get`.
        """
        draft, state = await self._sessions.load(session_id)
        if state.target is not None:
            try:
                await self._stores.bots.version(state.target.slug)
            except NotFound as error:
                delete = f"perdure draft delete {state.session_id}"
                raise NotFound(f"{error.detail} This draft was to change it; `{delete}` removes it.") from error
        return session_view(state, draft.revision)

    async def answer(
        self,
        session_id: str,
        wire_answer: Any,
        expected_revision: int | None = None,
        *,
        once: IdempotentCall | None = None,
    ) -> SessionView:
        """Answer the pending turn, and return the next; the same call, named by its key, answers one.

        Raises: Invalid when the answer does not fit; Conflict, with what is there now, when the expected revision is
        not, or another client has answered at the same moment; otherwise as `get`.
        """
        held = self._sessions.take_held(session_id)
        if held is not None and once is None and expected_revision in (None, held[0].revision):
            with contextlib.suppress(Conflict, Invalid):  # nothing was changed then: what is there now decides
                if (after := await self._after(held[1], wire_answer)) is not None:
                    return await self._sessions.save(after, held[0], once)
        draft, state = await self._sessions.load(session_id)

        async def answered() -> SessionView:
            _require_revision(draft, state, expected_revision)
            if (after := await self._after(state, wire_answer)) is None:
                return session_view(state, draft.revision)
            return await self._sessions.save(after, draft, once)

        return await self._calls.in_change(once, answered, self.get)  # its key is visible if what it did was

    async def _after(self, state: BuilderState, wire_answer: Any) -> BuilderState | None:
        """Return the state after an answer; None when the answer changes nothing.

        Raises: Invalid
        """
        answer = read_answer(wire_answer)
        before = await self._context.with_new_skills(state)
        after = await self._engine.next_turn(before, answer)
        is_other = (after.purpose_category, after.purpose) != (before.purpose_category, before.purpose)
        if is_other and (past := await self._context.past(after)):
            surroundings = before.surroundings.model_copy(update={"past": (*before.surroundings.past, *past)})
            after = await self._engine.next_turn(before.model_copy(update={"surroundings": surroundings}), answer)
        return None if after == before else after

    async def drafts(self, limit: int = 50, before: DraftPlace | None = None) -> Sequence[DraftView]:
        """Return the drafts, the newest change first; one that is damaged is among them and hides no other.

        `before` is the `summary.place` of the last one of the page before.

        Raises: Invalid
        """
        return [DraftView(each) for each in await self._stores.drafts.list_drafts(limit=limit, before=before)]

    async def delete(self, session_id: str, expected_revision: int | None = None) -> None:
        """Remove a draft, also one that cannot be read; with a revision, only if it is the one that is there.

        Raises: NotFound, which tells of the bot that it has made if it was not deleted but built; Conflict, with what
        is there now, when that has another revision.
        """
        session_id = known_form(session_id)
        try:
            await self._stores.drafts.delete_draft(session_id, expected_revision)
        except NotFound as error:
            raise await self._sessions.missing(session_id) from error
        except Conflict as error:
            raise Conflict(error.detail, current=await self._sessions.current(session_id)) from error

    async def choices(self, limit: int = 50, before: ChoicePlace | None = None) -> Sequence[ChoiceView]:
        """Return what was chosen for bots, the newest first; `before` is the `entry.place` of the last one before.

        Raises: Invalid
        """
        return [ChoiceView(each) for each in await self._stores.choices.recall_recent(limit, before=before)]

    async def remove_choice(self, choice_id: str) -> None:
        """Forget one choice; suggestions are made without it from then on.

        Raises: NotFound
        """
        await self._stores.choices.remove_choice(choice_id)

    async def clear_choices(self) -> int:
        """Forget all choices; return how many there were."""
        return await self._stores.choices.clear_choices()

    async def find(self, prefix: str) -> str:
        """Return the id of the one draft whose id begins so; a whole id is returned as it is.

        Raises: NotFound; Conflict, naming some of them, when there are several.
        """
        return await self._sessions.find(prefix)

    async def require_whole_id(self, given: str) -> str:
        """Return the id of a draft that is to be changed, in the form in which it is kept; a prefix is not enough.

        Raises: NotFound, naming the only draft whose id begins so.
        """
        return await require_whole_session_id(given, self.find)

    async def assemble(
        self,
        session_id: str,
        config: BuilderConfig | Mapping[str, Any] | None = None,
        expected_revision: int | None = None,
        *,
        once: IdempotentCall | None = None,
    ) -> AssemblyResult:
        """Build the bot that a session has come to; the config may be an edited one. A second call builds nothing.

        Raises: NotFound; Invalid; Conflict when the session is not ready, was answered or deleted by another client
        meanwhile, its bot was changed since it began, or the expected revision is not the one that is there.
        """
        session_id = known_form(session_id)
        return await self._calls.kept_first(
            once, session_id, lambda: self._assemble(session_id, config, expected_revision)
        )

    async def _assemble(
        self, session_id: str, config: BuilderConfig | Mapping[str, Any] | None, expected_revision: int | None
    ) -> AssemblyResult:
        """Build the bot of a session; of a session that has made one, return that."""
        try:
            draft, state = await self._sessions.load(session_id)
        except NotFound:
            made = await self._assembler.assembled(session_id)
            if made is None:
                raise
            return made
        whole = _whole(config)
        _require_revision(draft, state, expected_revision)
        return await self._assembler.assemble(state, whole, revision=draft.revision)

    async def changes(self, session_id: str, config: BuilderConfig | Mapping[str, Any] | None = None) -> Changes:
        """Show what `assemble` would change on disk; nothing is changed.

        Raises: as `assemble`.
        """
        whole = _whole(config)
        _, state = await self._sessions.load(session_id)
        return await self._assembler.preview_changes(state, whole)

    async def create_skill(self, session_id: str, request: Any, *, once: IdempotentCall | None = None) -> SkillView:
        """Make a skill in the course of a session, which can name it from its next answer on; see `p.skills.create`.

        Raises: NotFound when there is no such session; otherwise as `p.skills.create`.
        """
        await self._sessions.load(session_id)
        return await self._skills.create(request, once=once)


def _whole(config: BuilderConfig | Mapping[str, Any] | None) -> BuilderConfig | None:
    return config if config is None or isinstance(config, BuilderConfig) else read_config(config)


def _require_revision(draft: BuilderDraft, state: BuilderState, expected: int | None) -> None:
    """Check that a session is at the revision that the client has seen.

    Raises: Conflict, with what is there now.
    """
    if expected not in (None, draft.revision):
        raise Conflict(
            f"The session {draft.session_id} is at revision {draft.revision} by now, not at {expected}.",
            current=session_view(state, draft.revision).wire(),
        )


def open_forge(database: DatabaseClient, bots_dir: Path, skills: Skills | None = None) -> Forge:
    """Wire Forge to the stores of a database, and to the bots and skills of a home."""
    stores = ForgeStores(
        SqlBuilderDraftStore(database),
        SqlBuilderMemoryStore(database),
        SqlBotStore(database),
        SqlIdempotencyKeys(database),
    )
    ids = SystemIds()
    skills = skills or Skills(bots_dir.parent, bots_dir, stores.keys)
    assembler = BotAssembler(
        bots_dir, stores.bots, now_us=SystemClock().now_us, new_id=ids.event_id, skills=skills.shelf.texts
    )
    return Forge(stores, assembler, new_id=ids.event_id, skills=skills)
