"""What can be done with Forge: begin an interview, answer, take it up again, and build what it has come to."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perdure.app.builder.interview_context import detected_models, past_choices
from perdure.app.builder.list_views import ChoiceView, DraftView
from perdure.app.builder.sessions import SESSION_ID, SessionOver, SessionView, known_form, session_view
from perdure.app.builder.skills import Skills, SkillView
from perdure.app.home.system import SystemClock, SystemIds
from perdure.app.idempotency import Idempotency
from perdure.errors import Conflict, Damaged, Invalid, NotFound, PerdureError
from perdure.forge.answers import read_answer
from perdure.forge.assembly.assembly import AssemblyResult, BotAssembler
from perdure.forge.assembly.changes import Changes
from perdure.forge.config import BuilderConfig, read_config
from perdure.forge.drafts import damaged, draft_of, state_of
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
from perdure.forge.state import BuilderState, PastChoice, Surroundings
from perdure.kernel.ports import IdempotencyKeys, IdempotentCall
from perdure.store.builder.bots import SqlBotStore
from perdure.store.builder.choices import SqlBuilderMemoryStore
from perdure.store.builder.drafts import SqlBuilderDraftStore
from perdure.store.client import DatabaseClient
from perdure.store.idempotency import SqlIdempotencyKeys

_MOST_SHOWN = 5
MOST_HELD = 256
_SHOWN = 60


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
        self._environment = environment
        self._calls = Idempotency(stores.keys)
        self._held: dict[str, tuple[BuilderDraft, BuilderState]] = {}

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
        here = await self._surroundings()
        state = await self._engine.start(session_id, description, here)
        if past := await self._past(state):
            state = await self._engine.start(session_id, description, here.model_copy(update={"past": past}))
        return await self._saved(state, None, once)

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
        here = await self._surroundings()
        state = await self._engine.reconfigure(session_id, description, here, target)
        if past := await self._past(state):
            here = here.model_copy(update={"past": past})
            state = await self._engine.reconfigure(session_id, description, here, target)
        return await self._saved(state, None, once)

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
        draft, state = await self._opened(session_id)
        return session_view(state, draft.revision)

    async def resume(self, session_id: str) -> SessionView:
        """Return a session that is to be answered further, as `get`; a change of a deleted bot is refused.

        Raises: NotFound, also when its bot was deleted; otherwise as `get`.
        """
        draft, state = await self._opened(session_id)
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
        not, or somebody else has answered at the same moment; otherwise as `get`.
        """
        held = self._held.pop(session_id, None)
        if held is not None and once is None and expected_revision in (None, held[0].revision):
            with contextlib.suppress(Conflict, Invalid):  # nothing was changed then: what is there now decides
                if (after := await self._after(held[1], wire_answer)) is not None:
                    return await self._saved(after, held[0], once)
        draft, state = await self._opened(session_id)

        async def answered() -> SessionView:
            _require_revision(draft, state, expected_revision)
            if (after := await self._after(state, wire_answer)) is None:
                return session_view(state, draft.revision)
            return await self._saved(after, draft, once)

        return await self._calls.in_change(once, answered, self.get)  # its key is visible if what it did was

    async def _after(self, state: BuilderState, wire_answer: Any) -> BuilderState | None:
        """Return the state after an answer; None when the answer changes nothing.

        Raises: Invalid
        """
        answer = read_answer(wire_answer)
        before = await self._with_new_skills(state)
        after = await self._engine.next_turn(before, answer)
        is_other = (after.purpose_category, after.purpose) != (before.purpose_category, before.purpose)
        if is_other and (past := await self._past(after)):
            surroundings = before.surroundings.model_copy(update={"past": (*before.surroundings.past, *past)})
            after = await self._engine.next_turn(before.model_copy(update={"surroundings": surroundings}), answer)
        return None if after == before else after

    async def _past(self, state: BuilderState) -> tuple[PastChoice, ...]:
        """Return what was chosen for bots of the purpose of a state, unless the state knows it."""
        if any(each.purpose == state.purpose for each in state.surroundings.past):
            return ()
        return await past_choices(self._stores.choices, self._stores.bots, state.purpose_category, state.purpose)

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
            raise await self._missing(session_id) from error
        except Conflict as error:
            raise Conflict(error.detail, current=await self._current(session_id)) from error

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
        if SESSION_ID.fullmatch(prefix.lower()):
            return prefix.lower()
        found = await self._stores.drafts.find_drafts(prefix.lower(), limit=_MOST_SHOWN + 1) if prefix else []
        if not found:
            raise NotFound(f"There is no draft whose id begins with {prefix[:60]!r}. `perdure draft list` shows them.")
        if len(found) > 1:
            shown = [f"{draft.session_id}  {draft.initial_description[:_SHOWN]}" for draft in found[:_MOST_SHOWN]]
            many = f"More than {_MOST_SHOWN}" if len(found) > _MOST_SHOWN else str(len(found))
            raise Conflict(f"{many} drafts have ids that begin with {prefix!r}. Type more of it.", errors=shown)
        return found[0].session_id

    async def require_whole_id(self, given: str) -> str:
        """Return the id of a draft that is to be changed, in the form in which it is kept; a prefix is not enough.

        Raises: NotFound, naming the only draft whose id begins so.
        """
        if SESSION_ID.fullmatch(given.lower()):
            return given.lower()
        try:
            meant = f" Did you mean {await self.find(given)}?"
        except (NotFound, Conflict):
            meant = ""
        raise NotFound(f"No draft has the id {given[:60]!r}.{meant} Commands that change a draft need the whole id.")

    async def assemble(
        self,
        session_id: str,
        config: BuilderConfig | Mapping[str, Any] | None = None,
        expected_revision: int | None = None,
        *,
        once: IdempotentCall | None = None,
    ) -> AssemblyResult:
        """Build the bot that a session has come to; the config may be an edited one. A second call builds nothing.

        Raises: NotFound; Invalid; Conflict when the session is not ready, was answered or deleted by somebody else
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
            draft, state = await self._opened(session_id)
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
        _, state = await self._opened(session_id)
        return await self._assembler.preview_changes(state, whole)

    async def create_skill(self, session_id: str, request: Any, *, once: IdempotentCall | None = None) -> SkillView:
        """Make a skill in the course of a session, which can name it from its next answer on; see `p.skills.create`.

        Raises: NotFound when there is no such session; otherwise as `p.skills.create`.
        """
        await self._opened(session_id)
        return await self._skills.create(request, once=once)

    async def _opened(self, session_id: str) -> tuple[BuilderDraft, BuilderState]:
        """Load a session with its pending turn, which is kept first if it was not yet."""
        session_id = known_form(session_id)
        try:
            draft = await self._stores.drafts.load_draft(session_id)
        except NotFound as error:
            raise await self._missing(session_id) from error
        except Damaged as error:
            raise damaged(session_id, error.detail) from error
        state = state_of(draft)
        resumed = await self._engine.resume(state)
        if resumed != state:
            try:
                draft = await self._stores.drafts.save_draft(draft_of(resumed), draft.revision)
            except Conflict:
                return await self._opened(session_id)  # somebody else was quicker, and has kept it
        return draft, resumed

    async def _saved(
        self, state: BuilderState, before: BuilderDraft | None, once: IdempotentCall | None
    ) -> SessionView:
        """Keep a state over the draft before it, if there is one."""
        kept = None if once is None else replace(once, subject=state.session_id)
        revision = before.revision if before else 0
        try:
            draft = await self._stores.drafts.save_draft(draft_of(state), revision, kept, over=before)
        except Conflict as error:
            begun = f"There is a draft of the session {state.session_id} already; go on with it, or begin another."
            raise Conflict(error.detail if before else begun, current=await self._current(state.session_id)) from error
        self._hold(draft, state)
        return session_view(state, draft.revision)

    def _hold(self, draft: BuilderDraft, state: BuilderState) -> None:
        """Hold what was kept last: whoever answers next need not read it, and the revision tells whether it is old."""
        self._held[state.session_id] = draft, state
        while len(self._held) > MOST_HELD:
            del self._held[next(iter(self._held))]

    async def _current(self, session_id: str) -> Mapping[str, Any] | None:
        try:
            return (await self.get(session_id)).wire()
        except PerdureError:
            return None  # it is gone, or cannot be shown; the conflict stays one

    async def _free_id(self, wanted: str | None) -> str:
        """Return the id of a new session.

        Raises: Invalid when it is no UUID; Conflict when it is taken.
        """
        if wanted is None:
            return self._new_id()
        if not SESSION_ID.fullmatch(wanted.lower()):
            raise Invalid(f"A session id is a UUID, which {wanted[:60]!r} is not.")
        made = await self._stores.bots.made_by(wanted.lower())
        if made is not None:
            raise Conflict(f"The session {wanted} has made the bot {made.slug} already. Begin another.")
        return wanted.lower()

    async def _missing(self, session_id: str) -> NotFound:
        made = await self._stores.bots.made_by(session_id)
        if made is None:
            return NotFound(f"There is no session {session_id}.")
        return SessionOver(session_id, made.slug, made.number)

    async def _surroundings(self) -> Surroundings:
        return Surroundings(models=detected_models(self._environment), skills=await self._known_skills())

    async def _known_skills(self) -> tuple[tuple[str, str], ...]:
        return tuple((each.skill.name, each.skill.description) for each in await self._skills.list())

    async def _with_new_skills(self, state: BuilderState) -> BuilderState:
        """Let a session know of the skills that were made since it began; what it knew of stays as it was."""
        if self._skills.shelf.is_empty():
            return state
        known = state.surroundings.skills
        new = await asyncio.to_thread(self._skills.shelf.skills, dict(known))
        if not new:
            return state
        all_of_them = (*known, *((skill.name, skill.description) for skill in new))
        surroundings = state.surroundings.model_copy(update={"skills": all_of_them})
        return state.model_copy(update={"surroundings": surroundings})


def _whole(config: BuilderConfig | Mapping[str, Any] | None) -> BuilderConfig | None:
    return config if config is None or isinstance(config, BuilderConfig) else read_config(config)


def _require_revision(draft: BuilderDraft, state: BuilderState, expected: int | None) -> None:
    """See that a session is where somebody has seen it.

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
