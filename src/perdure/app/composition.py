"""The composition root: opens a home, and wires adapters to ports for every surface."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perdure.app.home.opening import Opening, app_queue
from perdure.app.home.restore_places import restore_places
from perdure.app.home.script_interrupts import report_interrupt, resume_lines
from perdure.errors import NotFound
from perdure.files.folders import ensure_folder
from perdure.settings import Settings, load_settings
from perdure.store.backup.places import Places, has_unfinished_restore, is_restore_pending
from perdure.store.client import DatabaseClient

if TYPE_CHECKING:
    from perdure.app.builder.bots import Bots
    from perdure.app.builder.forge import Forge
    from perdure.app.builder.skills import Skills
    from perdure.app.goals.goals import Goals
    from perdure.app.memory.memory import HomeMemory
    from perdure.app.models.model_goals import ModelGoals
    from perdure.app.models.models import Models
    from perdure.kernel.ports import IdempotencyKeys, Leases


class Perdure:
    """An open home.

    async with Perdure.open() as p:
        print(await p.database.tables())
    """

    def __init__(self, settings: Settings, database: DatabaseClient, *, queue: str = "cli") -> None:
        self.settings = settings
        self.database = database
        self._queue = queue
        self._goals: Goals | None = None
        self._memory: HomeMemory | None = None
        self._forge: Forge | None = None
        self._bots: Bots | None = None
        self._skills: Skills | None = None
        self._models: Models | None = None

    def __repr__(self) -> str:
        return f"<Perdure home={str(self.settings.home)!r}>"

    @property
    def goals(self) -> "Goals":
        """The goals of this home."""
        if self._goals is None:
            self._goals = self._make_goals()
        return self._goals

    def _make_goals(self) -> "Goals":
        from perdure.app.goals.arguments.policies import default_policy
        from perdure.app.goals.goals import Goals

        settings = self.settings
        goals = Goals(
            settings.home,
            self.database.state_store(),
            self._leases(),
            park_after_s=settings.park_after_s,
            cancel_grace_s=settings.cancel_grace_s,
            queue=self._queue,
            imports=settings.imports,
            default_policy=partial(default_policy, settings),
        )
        goals.set_model_goals(self._make_model_goals)
        return goals

    def _make_model_goals(self) -> "ModelGoals":
        from perdure.app.models.model_goals import ModelGoals

        return ModelGoals(lambda: self.bots, lambda: self.models.client, self.settings, lambda: self.memory)

    def _leases(self) -> "Leases":
        from perdure.app.home.system import SystemClock, is_dead

        return self.database.leases(boottime_s=SystemClock().boottime_s, is_dead=partial(is_dead, self.settings.home))

    @property
    def memory(self) -> "HomeMemory":
        """The memory of this home; it uses the database only for the keys of calls."""
        if self._memory is None:
            from perdure.app.memory.memory import HomeMemory

            self._memory = HomeMemory(self.settings, self.keys)
        return self._memory

    @property
    def forge(self) -> "Forge":
        """The builder of this home."""
        if self._forge is None:
            from perdure.app.builder.engines import Engines
            from perdure.app.builder.forge import open_forge

            engines = Engines(self.settings.models, lambda: self.models.client)
            self._forge = open_forge(self.database, self.settings.bots_dir, self.skills, engines)
        return self._forge

    @property
    def bots(self) -> "Bots":
        """The bots of this home."""
        if self._bots is None:
            from perdure.app.builder.bots import open_bots

            self._bots = open_bots(self.database, self.settings.bots_dir)
        return self._bots

    @property
    def skills(self) -> "Skills":
        """The skills that the bots of this home can have."""
        if self._skills is None:
            from perdure.app.builder.skills import Skills

            self._skills = Skills(self.settings.home, self.settings.bots_dir, self.keys)
        return self._skills

    @property
    def models(self) -> "Models":
        """The models for goals of this home."""
        if self._models is None:
            from perdure.app.models.models import Models

            self._models = Models(self.settings)
        return self._models

    @property
    def keys(self) -> "IdempotencyKeys":
        """The idempotency keys of calls."""
        from perdure.store.idempotency import SqlIdempotencyKeys

        return SqlIdempotencyKeys(self.database)

    async def close(self) -> None:
        """Interrupt and release the goals that run here; the caller closes the database."""
        if self._memory is not None:
            await self._memory.close()
        if self._goals is not None:
            await self._goals.close()
        if self._models is not None:
            await self._models.close()

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        database_url: str | None = None,
        app: str | None = None,
        recover: bool = False,
    ) -> "AbstractAsyncContextManager[Perdure]":
        """Open a home inside an `async with` block; it is created if it does not exist.

        `app` is the name of the application that embeds Perdure: goals that it starts are in its queue. With
        `recover`, this process resumes goals of that queue that no live worker holds, and goals that are due.

        Raises: Invalid when `app` is not 1 to 40 characters of a-z, 0-9, `_` and `-`, or `recover` is given without it.
        """
        flags = {"home": None if home is None else os.fspath(home), "database_url": database_url}
        return Opening(lambda: _open_for_program(flags, app, recover=recover))


@asynccontextmanager
async def _open_for_program(flags: dict[str, str | None], app: str | None, *, recover: bool) -> AsyncIterator[Perdure]:
    queue = app_queue(app, recover=recover)
    async with open_home(load_settings(flags), queue=queue) as p:
        if recover:
            p.goals.worker.recover()
        with report_interrupt(partial(resume_lines_of, p)):
            yield p


def resume_lines_of(p: Perdure) -> Sequence[str]:
    """Return lines with the commands that resume the interrupted goals of a home."""
    return resume_lines(p.goals.interrupted(), p.goals.named_home)


@asynccontextmanager
async def look_into_home(settings: Settings, *, debug: bool = False) -> AsyncIterator[Perdure]:
    """Open a home to read it: an older database is not migrated, and a missing one is created."""
    is_new = not DatabaseClient.exists(settings.database_url)
    async with open_home(settings, migrate=is_new, debug=debug) as p:
        if (await p.database.health()).version > 0:
            yield p
            return
    async with open_home(settings, debug=debug) as p:
        yield p


@asynccontextmanager
async def open_unchanged(settings: Settings) -> AsyncIterator[Perdure]:
    """Open a home without creating, migrating or restoring anything.

    Raises: NotFound when the home or database does not exist, or a restore was interrupted.
    """
    if not settings.home.is_dir():
        raise NotFound(f"No home at {settings.home}. `perdure db migrate` creates one.")
    if is_restore_pending(settings.home):
        raise NotFound(f"A restore of {settings.home} was interrupted. `perdure goal list` finishes it.")
    async with open_home(settings, migrate=False, must_exist=True) as p:
        yield p


@asynccontextmanager
async def open_home(
    settings: Settings, *, migrate: bool = True, must_exist: bool = False, debug: bool = False, queue: str = "cli"
) -> AsyncIterator[Perdure]:
    """Open the home of the settings; an interrupted restore is finished first.

    Raises: NotFound when the database must exist and does not; otherwise as `DatabaseClient.create`.
    """
    if not must_exist:
        ensure_folder(settings.home)
    await asyncio.to_thread(_finish_restore, restore_places(settings))
    if must_exist and not DatabaseClient.exists(settings.database_url):
        raise NotFound(f"No database at {settings.database_url}. `perdure db migrate` creates one.")
    async with await DatabaseClient.create(settings.database_url, migrate=migrate, debug=debug) as database:
        p = Perdure(settings, database, queue=queue)
        try:
            yield p
        finally:
            await p.close()


def _finish_restore(places: Places) -> None:
    if has_unfinished_restore(places):
        from perdure.store.backup.restore import finish_restore  # archives take a sixth of the time to open a home

        finish_restore(places)


@asynccontextmanager
async def open_ephemeral() -> AsyncIterator["Goals"]:
    """Open goals that are stored only in memory, until the end of the block."""
    from perdure.app.goals.goals import Goals
    from perdure.store.goals.memory_state_store import InMemoryStateStore

    with tempfile.TemporaryDirectory(prefix="perdure-ephemeral-") as folder:
        store = InMemoryStateStore()
        goals = Goals(Path(folder), store, store)
        try:
            yield goals
        finally:
            await goals.close()
