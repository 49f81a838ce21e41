"""The composition root: opens a home, wires adapters to ports, and hands out what every surface calls."""

import asyncio
import logging
import os
import platform
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perdure import __version__
from perdure.app.opening import Opening
from perdure.app.script_interrupts import report_interrupt, resume_lines
from perdure.app.startup_code import examine_startup_code
from perdure.errors import Damaged, Denied, Invalid, NotFound, PerdureError, Unavailable, from_os_error
from perdure.settings import FILE_MODE, FOLDER_MODE, Settings, ensure_folder, load_settings
from perdure.store.archive import Manifest, write_archive
from perdure.store.client import DatabaseClient
from perdure.store.database import Health
from perdure.store.restore import finish_restore, restore
from perdure.store.sqlite.facts import sqlite_version
from perdure.store.swaps import Places, Restored, is_restore_pending
from perdure.store.target import parse_target

if TYPE_CHECKING:
    from perdure.app.bots import Bots
    from perdure.app.forge import Forge
    from perdure.app.goals import Goals
    from perdure.app.memory import HomeMemory
    from perdure.app.skills import Skills
    from perdure.kernel.ports import IdempotencyKeys, Leases

_LITTLE_SPACE_MB = 200
_READ_WHOLE_BYTES = 100_000_000

log = logging.getLogger(__name__)


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

    def __repr__(self) -> str:
        return f"<Perdure home={str(self.settings.home)!r}>"

    @property
    def goals(self) -> "Goals":
        """The goals of this home."""
        if self._goals is None:
            self._goals = self._make_goals()
        return self._goals

    def _make_goals(self) -> "Goals":
        from perdure.app.goals import Goals

        settings = self.settings
        return Goals(
            settings.home,
            self.database.state_store(),
            self._leases(),
            park_after_s=settings.park_after_s,
            cancel_grace_s=settings.cancel_grace_s,
            queue=self._queue,
            imports=settings.imports,
        )

    def _leases(self) -> "Leases":
        from perdure.app.system import SystemClock, is_dead

        return self.database.leases(boottime_s=SystemClock().boottime_s, is_dead=partial(is_dead, self.settings.home))

    @property
    def memory(self) -> "HomeMemory":
        """The memory of this home; it uses the database for the keys of calls, and for nothing else."""
        if self._memory is None:
            from perdure.app.memory import HomeMemory

            self._memory = HomeMemory(self.settings, self.keys)
        return self._memory

    @property
    def forge(self) -> "Forge":
        """The builder of this home."""
        if self._forge is None:
            from perdure.app.forge import open_forge

            self._forge = open_forge(self.database, self.settings.bots_dir, self.skills)
        return self._forge

    @property
    def bots(self) -> "Bots":
        """The bots of this home."""
        if self._bots is None:
            from perdure.app.bots import open_bots

            self._bots = open_bots(self.database, self.settings.bots_dir)
        return self._bots

    @property
    def skills(self) -> "Skills":
        """The skills that the bots of this home can have."""
        if self._skills is None:
            from perdure.app.skills import Skills

            self._skills = Skills(self.settings.home, self.settings.bots_dir, self.keys)
        return self._skills

    @property
    def keys(self) -> "IdempotencyKeys":
        """The calls that were made under a key."""
        from perdure.store.once import SqlIdempotencyKeys

        return SqlIdempotencyKeys(self.database)

    async def close(self) -> None:
        """Interrupt and release the goals that run here; the database stays open for its opener."""
        if self._memory is not None:
            await self._memory.close()
        if self._goals is not None:
            await self._goals.close()

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        database_url: str | None = None,
        app: str | None = None,
        recover: bool = False,
    ) -> "AbstractAsyncContextManager[Perdure]":
        """Open a home for the time of an `async with` block; it is created if it does not exist.

        `app` is the name of the application that embeds Perdure: goals that are started here are in its queue. With
        `recover`, this process resumes goals of that queue that no live worker holds, and goals that are due.

        Raises: Invalid when `app` is not 1 to 40 characters of a-z, 0-9, `_` and `-`, or `recover` is given without it.
        """
        flags = {"home": None if home is None else os.fspath(home), "database_url": database_url}
        return Opening(lambda: _open_for_program(flags, app, recover=recover))


@asynccontextmanager
async def _open_for_program(flags: dict[str, str | None], app: str | None, *, recover: bool) -> AsyncIterator[Perdure]:
    from perdure.app.asked import app_queue

    queue = app_queue(app, recover=recover)
    async with open_home(load_settings(flags), queue=queue) as p:
        if recover:
            p.goals.worker.recover()
        with report_interrupt(partial(resume_lines_of, p)):
            yield p


def resume_lines_of(p: Perdure) -> Sequence[str]:
    """Say how to resume the goals of a home that were interrupted."""
    return resume_lines(p.goals.interrupted(), p.goals.named_home)


@asynccontextmanager
async def look_into_home(settings: Settings, *, debug: bool = False) -> AsyncIterator[Perdure]:
    """Open a home to look at it: an older database stays as it is, and where there is none at all, one is made."""
    is_new = not DatabaseClient.exists(settings.database_url)
    async with open_home(settings, migrate=is_new, debug=debug) as p:
        if (await p.database.health()).version > 0:
            yield p
            return
    async with open_home(settings, debug=debug) as p:
        yield p


@asynccontextmanager
async def open_home(
    settings: Settings, *, migrate: bool = True, must_exist: bool = False, debug: bool = False, queue: str = "cli"
) -> AsyncIterator[Perdure]:
    """Open the home that the settings name; a restore that was interrupted is finished first.

    Raises: NotFound when it must exist and there is no database; what `DatabaseClient.create` raises.
    """
    if not must_exist:
        ensure_folder(settings.home)
    await asyncio.to_thread(finish_restore, _places(settings))
    if must_exist and not DatabaseClient.exists(settings.database_url):
        raise NotFound(f"There is no database at {settings.database_url}. `perdure db migrate` makes one.")
    async with await DatabaseClient.create(settings.database_url, migrate=migrate, debug=debug) as database:
        p = Perdure(settings, database, queue=queue)
        try:
            yield p
        finally:
            await p.close()


@asynccontextmanager
async def open_ephemeral() -> AsyncIterator["Goals"]:
    """Open goals that are kept in memory alone; nothing is left when the block ends."""
    from perdure.app.goals import Goals
    from perdure.store.goals.memory_state_store import InMemoryStateStore

    with tempfile.TemporaryDirectory(prefix="perdure-ephemeral-") as folder:
        store = InMemoryStateStore()
        goals = Goals(Path(folder), store, store)
        try:
            yield goals
        finally:
            await goals.close()


async def back_up(settings: Settings, path: Path) -> Manifest:
    """Write one archive of database, bots, skills and memory while work goes on.

    Raises: NotFound when there is nothing to back up; Conflict when the file exists; Denied; Unavailable.
    """
    async with open_home(settings, migrate=False, must_exist=True) as p:
        health = await p.database.health()
        ensure_folder(path.parent)
        with _scratch_folder(path.parent) as folder:
            dump = folder / "database"
            await p.database.backup(dump)
            manifest = await asyncio.to_thread(
                write_archive,
                path,
                dump=dump,
                database=health.database,
                version=health.version,
                folders=_places(settings).folders,
                program=f"perdure {__version__}",
            )
    log.info("backed up %s into %s", health.location, path)
    return manifest


@contextmanager
def _scratch_folder(parent: Path) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix=".perdure-backup-", dir=parent))
    except OSError as error:
        raise from_os_error(f"The folder {parent} cannot be written", error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def restore_backup(settings: Settings, source: Path, *, replace: bool) -> Restored:
    """Put a backup into the home; see `perdure.store.restore`."""
    return await asyncio.to_thread(restore, source, _places(settings), replace=replace)


def _places(settings: Settings) -> Places:
    from perdure.bots import LOCK_FILE
    from perdure.memory.places import LOCK_FILES

    return Places(
        home=settings.home,
        database=parse_target(settings.database_url),
        folders={"bots": settings.bots_dir, "skills": settings.skills_dir, "memory": settings.memory_state_dir},
        locks={"bots": (LOCK_FILE,), "memory": LOCK_FILES},
    )


Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """One thing that `doctor` looked at."""

    name: str
    status: Status
    detail: str
    exit_code: int = 0


async def examine(settings: Settings, *, fix: bool = False) -> list[Check]:
    """Look at everything that Perdure depends on; change nothing, except permissions when asked to fix."""
    if fix:
        _make_private(settings)
    home = _examine_home(settings)
    return [
        Check("python", "ok", f"{platform.python_version()} on {platform.system()}"),
        home,
        *([] if home.status == "fail" else [await _examine_database(settings)]),
        _examine_sqlite(),
        _examine_memory(settings),
        *_examine_imports(settings),
        _examine_git(),
        Check("python-path", *examine_startup_code()),
    ]


def _examine_home(settings: Settings) -> Check:
    home = settings.home
    if home.is_symlink() and not home.exists():
        return Check("home", "fail", f"{home} is a link that leads nowhere", Unavailable.exit_code)
    nearest = next(path for path in (home, *home.parents) if path.exists())
    if not nearest.is_dir():
        return Check("home", "fail", f"{nearest} is not a folder", Invalid.exit_code)
    if not os.access(nearest, os.W_OK):
        return Check("home", "fail", f"{nearest} cannot be written", Denied.exit_code)
    if nearest != home:
        return Check("home", "ok", f"{home} is not there yet; the first command that needs it makes it")
    if loose := [path for path in _private_paths(settings) if path.stat().st_mode & 0o077]:
        return Check("home", "warn", f"{loose[0]} can be read by others; `perdure doctor --fix` makes it private")
    free_mb = shutil.disk_usage(home).free >> 20
    return Check("home", "ok" if free_mb >= _LITTLE_SPACE_MB else "warn", f"{home}, {free_mb:,} MB free")


async def _examine_database(settings: Settings) -> Check:
    try:
        if is_restore_pending(settings.home):
            return Check(
                "database", "warn", "a restore was interrupted; the next command that opens the home finishes it"
            )
        if not DatabaseClient.exists(settings.database_url):
            return Check("database", "ok", "not there yet; the first command that needs it makes it")
        async with open_home(settings, migrate=False, must_exist=True) as p:
            health = await p.database.health()
            problems = await p.database.verify() if health.version == health.head and _is_quick(health) else []
            sample = "" if problems or health.version < health.head else await _sample(p.database)
    except PerdureError as error:
        return Check("database", "fail", error.detail, error.exit_code)
    if problems:
        return Check("database", "fail", problems[0], Damaged.exit_code)
    if health.version < health.head:
        return Check("database", "warn", f"version {health.version:04d} of {health.head:04d}; run `perdure db migrate`")
    return Check("database", "ok", f"{health.database}, version {health.version:04d}, {health.location}{sample}")


async def _sample(database: DatabaseClient) -> str:
    """Check some histories, and say so.

    Raises: Damaged
    """
    from perdure.app.verification import sample_histories

    sample = await sample_histories(database)
    if sample.problems:
        raise Damaged(sample.problems[0])
    if sample.total == 0:
        return ""
    return f"; a sample of {sample.checked} of {sample.total:,} histories is unchanged, `perdure db verify` checks all"


def _is_quick(health: Health) -> bool:
    """Tell whether the whole database can be read in about a second."""
    size = health.facts.get("size_bytes")
    return isinstance(size, int) and size <= _READ_WHOLE_BYTES


def _examine_sqlite() -> Check:
    version = sqlite_version()
    if not version.is_usable:
        return Check("sqlite", "fail", f"{version.text} is too old; {version.oldest} or newer is needed")
    note = "; its WAL-reset bug cannot strike, because our lock file keeps writers apart" if version.is_affected else ""
    return Check("sqlite", "ok", f"{version.text}{note}")


def _examine_memory(settings: Settings) -> Check:
    from perdure.memory.places import LOG_FILE, Places

    places = Places(settings.memory_state_dir / LOG_FILE)
    try:
        chosen = settings.memory
    except Invalid as error:
        return Check("memory", "fail", error.detail, error.exit_code)
    if places.failed.exists():
        detail = f"a flush of {places.log} has failed; `perdure memory verify --clear` allows appends again"
        return Check("memory", "fail", detail, Damaged.exit_code)
    if not chosen.enabled:
        return Check("memory", "ok", "switched off (memory.enabled)")
    return Check("memory", "ok", f"{places.log}{'' if places.log.exists() else ' is not there yet'}")


def _examine_imports(settings: Settings) -> list[Check]:
    """Name the modules of flows; they are not imported, which would run their code."""
    try:
        names = settings.imports
    except Invalid as error:
        return [Check("imports", "fail", error.detail, error.exit_code)]
    return [Check("imports", "ok", ", ".join(names))] if names else []


def _examine_git() -> Check:
    git = shutil.which("git")
    return Check("git", "ok", git) if git else Check("git", "warn", "not found; projects will need it")


def _private_paths(settings: Settings) -> list[Path]:
    """Return what must be private: the home and what is in it. What lies elsewhere is not ours to judge."""
    home = settings.home
    inside = [*home.iterdir(), *home.glob("logs/*")] if home.is_dir() else []
    return [path for path in (home, *inside) if path.exists() and not path.is_symlink()]


def _make_private(settings: Settings) -> None:
    for path in _private_paths(settings):
        try:
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
        except OSError as error:
            raise from_os_error(f"{path} cannot be made private", error) from error
