"""The operations of Forge: start an interview, answer, resume it, and build the bot."""

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perdure.app.builder.engines import Engines
from perdure.app.builder.interview_context import InterviewContextReader
from perdure.app.builder.list_views import ChoiceView, DraftView
from perdure.app.builder.sessions import SessionView, require_whole_session_id, session_view, stored_form
from perdure.app.builder.skills import Skills, SkillView
from perdure.app.builder.stored_sessions import StoredSessions
from perdure.app.home.system import SystemClock, SystemIds
from perdure.app.idempotency import Idempotency
from perdure.errors import Conflict, Invalid, NotFound
from perdure.forge.answers import read_answer
from perdure.forge.assembly.assembly import AssemblyResult, BotAssembler
from perdure.forge.assembly.changes import Changes
from perdure.forge.config import BuilderConfig, read_config
from perdure.forge.interview.engine import BuilderEngine
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
from perdure.forge.turns import AskQuestion, Clarify, ReadyToAssemble
from perdure.forge.vocabulary import EngineName
from perdure.kernel.ports import IdempotencyKeys, IdempotentCall
from perdure.store.builder.bots import SqlBotStore
from perdure.store.builder.choices import SqlBuilderMemoryStore
from perdure.store.builder.drafts import SqlBuilderDraftStore
from perdure.store.client import DatabaseClient
from perdure.store.idempotency import SqlIdempotencyKeys


@dataclass(frozen=True)
class ForgeStores:
    """The stores of Forge."""

    drafts: BuilderDraftStore
    choices: BuilderMemoryStore
    bots: BotStore
    keys: IdempotencyKeys


class Forge:
    """The builder of a home. Every turn is stored before it is returned; a failed call has changed nothing.

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
        engines: Engines | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self._stores = stores
        self._assembler = assembler
        self._new_id = new_id
        self._skills = skills
        self._engines = Engines() if engines is None else engines
        self._calls = Idempotency(stores.keys)
        default = self._engines.default_model
        self._context = InterviewContextReader(stores.choices, stores.bots, skills, environment, default)
        self._sessions = StoredSessions(stores.drafts, stores.bots, self._engines.builtin)

    async def start(
        self,
        description: str,
        mode: str = "bot",
        session_id: str | None = None,
        *,
        engine: str | None = None,
        once: IdempotentCall | None = None,
    ) -> SessionView:
        """Start an interview about a new bot; repeated calls with the same key start one.

        The engine is `builtin` or `model` (default: the model, if one is configured).

        Raises: Invalid; Conflict, with the current session, when the id exists; NoModel; Unavailable when
        no model answers.
        """
        if mode != BuilderMode.BOT:
            raise Invalid(f"Invalid mode: expected 'bot', got {mode!r}.")
        chosen_engine = self._engines.choose(engine)
        return await self._calls.in_change(
            once, lambda: self._start(chosen_engine, description, session_id, once), self.get
        )

    async def _start(
        self, engine: BuilderEngine, description: str, session_id: str | None, once: IdempotentCall | None
    ) -> SessionView:
        session_id = await self._free_id(session_id)
        context = await self._context.read()
        state = await self._engines.builtin.start(session_id, description, context)
        past = await self._context.past(state)
        if past or engine is not self._engines.builtin:
            state = await engine.start(session_id, description, context.model_copy(update={"past": past}))
        return await self._sessions.save(state, None, once)

    async def _free_id(self, given: str | None) -> str:
        return self._new_id() if given is None else await self._sessions.free_id(given)

    async def reconfigure(
        self,
        bot_slug: str,
        session_id: str | None = None,
        description: str = "",
        *,
        engine: str | None = None,
        once: IdempotentCall | None = None,
    ) -> SessionView:
        """Start an interview about changes of an existing bot.

        Raises: NotFound when the bot does not exist; otherwise as `start`.
        """
        chosen_engine = self._engines.choose(engine)
        return await self._calls.in_change(
            once, lambda: self._reconfigure(chosen_engine, bot_slug, session_id, description, once), self.get
        )

    async def _reconfigure(
        self,
        engine: BuilderEngine,
        bot_slug: str,
        session_id: str | None,
        description: str,
        once: IdempotentCall | None,
    ) -> SessionView:
        target = await self._assembler.target(bot_slug)
        session_id = await self._free_id(session_id)
        context = await self._context.read()
        state = await self._engines.builtin.reconfigure(session_id, description, context, target)
        past = await self._context.past(state)
        if past or engine is not self._engines.builtin:
            context = context.model_copy(update={"past": past})
            state = await engine.reconfigure(session_id, description, context, target)
        return await self._sessions.save(state, None, once)

    async def reconfigure_from(
        self,
        session_id: str,
        bot_slug: str | None = None,
        description: str = "",
        *,
        engine: str | None = None,
        once: IdempotentCall | None = None,
    ) -> SessionView:
        """Start an interview about a bot from a session: under the id of the session, or a new id if it made a bot.

        Without a slug, the interview is about the bot that the session made.

        Raises: NotFound; Invalid when neither the call nor the session names a bot; otherwise as `reconfigure`.
        """
        version = await self._stores.bots.version_of_session(stored_form(session_id))
        slug = bot_slug or (None if version is None else version.slug)
        if slug is None:
            raise Invalid(f"The draft {session_id} has not made a bot. Name the bot to change: bot_slug.")
        own_id = session_id if version is None else None
        return await self.reconfigure(slug, own_id, description, engine=engine, once=once)

    async def get(self, session_id: str) -> SessionView:
        """Return a session with its pending turn: the same question with the same options.

        Raises: NotFound; Damaged, naming the draft; Conflict when a newer version of Perdure has written it.
        """
        return await self._sessions.view(session_id)

    async def resume(self, session_id: str) -> SessionView:
        """Return a session to answer, as `get`; a session about changes of a deleted bot is rejected.

        Raises: NotFound, also when its bot was deleted; otherwise as `get`.
        """
        draft, state = await self._sessions.load(session_id)
        if state.target is not None:
            try:
                await self._stores.bots.version(state.target.slug)
            except NotFound as error:
                delete = f"perdure draft delete {state.session_id}"
                raise NotFound(f"{error.detail} This draft is about changes of it; `{delete}` removes it.") from error
        return session_view(state, draft.revision)

    async def answer(
        self,
        session_id: str,
        wire_answer: Any,
        expected_revision: int | None = None,
        *,
        engine: str | None = None,
        once: IdempotentCall | None = None,
    ) -> SessionView:
        """Answer the pending turn, and return the next; repeated calls with the same key answer one.

        With `engine`, that engine leads the session from this answer on.

        Raises: Invalid when the answer does not fit; Conflict, with the current session, when it has another revision,
        or another client has answered at the same time; NoModel; Unavailable when no model answers, and the session is
        unchanged; otherwise as `get`.
        """
        cached = self._sessions.take_cached(session_id)
        if cached is not None and once is None and expected_revision in (None, cached[0].revision):
            with contextlib.suppress(Conflict, Invalid):  # nothing was changed; retry with the stored state
                if (after := await self._apply_answer(cached[1], wire_answer, engine)) is not None:
                    return await self._sessions.save(after, cached[0], once)
        draft, state = await self._sessions.load(session_id)

        async def answer_stored() -> SessionView:
            _require_revision(draft, state, expected_revision)
            if (after := await self._apply_answer(state, wire_answer, engine)) is None:
                return session_view(state, draft.revision)
            return await self._sessions.save(after, draft, once)

        return await self._calls.in_change(once, answer_stored, self.get)  # the key is committed with the change

    async def _apply_answer(
        self, state: BuilderState, wire_answer: Any, engine_name: str | None
    ) -> BuilderState | None:
        """Return the state after an answer; None when the answer changes nothing.

        Raises: Invalid; NoModel; Unavailable when no model answers.
        """
        answer = read_answer(wire_answer)
        engine, note = self._engines.choose_for_turn(state, engine_name)
        before = await self._context.with_new_skills(state)
        after = await self._engines.builtin.next_turn(before, answer)
        is_repurposed = (after.purpose_category, after.purpose) != (before.purpose_category, before.purpose)
        past = await self._context.past(after) if is_repurposed else ()
        if past:
            context = before.context.model_copy(update={"past": (*before.context.past, *past)})
            before = before.model_copy(update={"context": context})
        if past or engine is not self._engines.builtin:
            after = await engine.next_turn(before, answer)
        return None if after == before else with_engine(after, engine.name, note)

    async def drafts(self, limit: int = 50, before: DraftPlace | None = None) -> Sequence[DraftView]:
        """Return the drafts, the last changed one first; damaged drafts are listed, too.

        `before` is the `summary.place` of the last draft of the previous page.

        Raises: Invalid
        """
        return [DraftView(each) for each in await self._stores.drafts.list_drafts(limit=limit, before=before)]

    async def delete(self, session_id: str, expected_revision: int | None = None) -> None:
        """Remove a draft, also an unreadable one; with a revision, only if that is the current revision.

        Raises: NotFound, which names the bot that the session has made, if any; Conflict, with the current session,
        when it has another revision.
        """
        session_id = stored_form(session_id)
        try:
            await self._stores.drafts.delete_draft(session_id, expected_revision)
        except NotFound as error:
            raise await self._sessions.missing(session_id) from error
        except Conflict as error:
            raise Conflict(error.detail, current=await self._sessions.current(session_id)) from error

    async def choices(self, limit: int = 50, before: ChoicePlace | None = None) -> Sequence[ChoiceView]:
        """Return past choices, newest first; `before` is the `entry.place` of the last one of the previous page.

        Raises: Invalid
        """
        return [ChoiceView(each) for each in await self._stores.choices.recall_recent(limit, before=before)]

    async def remove_choice(self, choice_id: str) -> None:
        """Remove one choice; later suggestions are made without it.

        Raises: NotFound
        """
        await self._stores.choices.remove_choice(choice_id)

    async def clear_choices(self) -> int:
        """Remove all choices; return their number."""
        return await self._stores.choices.clear_choices()

    async def find(self, prefix: str) -> str:
        """Return the id of the only draft with a prefix; a whole id is returned unchanged.

        Raises: NotFound; Conflict, naming some of the drafts, when there are several.
        """
        return await self._sessions.find(prefix)

    async def require_whole_id(self, given: str) -> str:
        """Return the whole id of a draft to change, in its stored form; a prefix is rejected.

        Raises: NotFound, naming the only draft with that prefix.
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
        """Build the bot of a session, optionally from an edited config. A second call returns the same result.

        Raises: NotFound; Invalid; Conflict when the session is not ready, was answered or deleted by another client
        meanwhile, its bot was changed since the session started, or the session has another revision.
        """
        session_id = stored_form(session_id)
        return await self._calls.keep_first(
            once, session_id, lambda: self._assemble(session_id, config, expected_revision)
        )

    async def _assemble(
        self, session_id: str, config: BuilderConfig | Mapping[str, Any] | None, expected_revision: int | None
    ) -> AssemblyResult:
        """Build the bot of a session, or return the result if the session has built it."""
        try:
            draft, state = await self._sessions.load(session_id)
        except NotFound:
            version = await self._assembler.resume_assembly(session_id)
            if version is None:
                raise
            return version
        edited = _read_edited(config)
        _require_revision(draft, state, expected_revision)
        return await self._assembler.assemble(state, edited, revision=draft.revision)

    async def changes(self, session_id: str, config: BuilderConfig | Mapping[str, Any] | None = None) -> Changes:
        """Return what `assemble` would change on disk; nothing is changed.

        Raises: as `assemble`.
        """
        edited = _read_edited(config)
        _, state = await self._sessions.load(session_id)
        return await self._assembler.preview_changes(state, edited)

    async def create_skill(self, session_id: str, request: Any, *, once: IdempotentCall | None = None) -> SkillView:
        """Create a skill during a session, which can name it from its next answer on; see `p.skills.create`.

        Raises: NotFound when the session does not exist; otherwise as `p.skills.create`.
        """
        await self._sessions.load(session_id)
        return await self._skills.create(request, once=once)


def with_engine(state: BuilderState, engine: EngineName, note: str) -> BuilderState:
    """Return a state with its engine, and a note, if any, in its pending turn."""
    turn = state.pending_turn
    if note and isinstance(turn, AskQuestion | ReadyToAssemble | Clarify):
        turn = turn.model_copy(update={"note": note})
    return state.model_copy(update={"engine": engine, "pending_turn": turn})


def _read_edited(config: BuilderConfig | Mapping[str, Any] | None) -> BuilderConfig | None:
    return config if config is None or isinstance(config, BuilderConfig) else read_config(config)


def _require_revision(draft: BuilderDraft, state: BuilderState, expected: int | None) -> None:
    """Check that a session has the expected revision.

    Raises: Conflict, with the current session.
    """
    if expected not in (None, draft.revision):
        raise Conflict(
            f"The draft {draft.session_id} has revision {draft.revision}, not {expected}.",
            current=session_view(state, draft.revision).wire(),
        )


def open_forge(
    database: DatabaseClient, bots_dir: Path, skills: Skills | None = None, engines: Engines | None = None
) -> Forge:
    """Return Forge with the stores of a database, and the bots, skills and models of a home."""
    stores = ForgeStores(
        SqlBuilderDraftStore(database),
        SqlBuilderMemoryStore(database),
        SqlBotStore(database),
        SqlIdempotencyKeys(database),
    )
    ids = SystemIds()
    skills = skills or Skills(bots_dir.parent, bots_dir, stores.keys)
    assembler = BotAssembler(
        bots_dir, stores.bots, now_us=SystemClock().now_us, new_id=ids.event_id, skills=skills.folder.texts
    )
    return Forge(stores, assembler, new_id=ids.event_id, skills=skills, engines=engines)
