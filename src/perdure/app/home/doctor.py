"""The checks of `perdure doctor`: the state of everything that Perdure depends on."""

import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from perdure.app import open_home
from perdure.app.access.secret_files import SECRETS_FOLDER
from perdure.app.home.startup_code import examine_startup_code
from perdure.app.home.verification import sample_histories
from perdure.app.models.models import Models
from perdure.errors import Damaged, Denied, Invalid, PerdureError, Unavailable, from_os_error
from perdure.files.folders import FOLDER_MODE
from perdure.files.opening import FILE_MODE
from perdure.memory.paths import LOG_FILE, MemoryFiles
from perdure.settings import Settings
from perdure.store.backup.places import is_restore_pending
from perdure.store.client import DatabaseClient
from perdure.store.database import Health
from perdure.store.sqlite.facts import sqlite_version

_LITTLE_SPACE_MB = 200
_READ_WHOLE_BYTES = 100_000_000

Status = Literal["ok", "warn", "fail"]


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    detail: str
    exit_code: int = 0


async def examine(settings: Settings, *, fix: bool = False) -> list[Check]:
    """Run all checks; with `fix`, first make the files of the home private. Nothing else is changed."""
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
        _examine_models(settings),
        _examine_git(),
        Check("python-path", *examine_startup_code()),
    ]


def _examine_home(settings: Settings) -> Check:
    home = settings.home
    if home.is_symlink() and not home.exists():
        return Check("home", "fail", f"{home} is a broken symbolic link", Unavailable.exit_code)
    nearest = next(path for path in (home, *home.parents) if path.exists())
    if not nearest.is_dir():
        return Check("home", "fail", f"{nearest} is not a folder", Invalid.exit_code)
    if not os.access(nearest, os.W_OK):
        return Check("home", "fail", f"{nearest} cannot be written", Denied.exit_code)
    if nearest != home:
        return Check("home", "ok", f"{home} does not exist yet; the first command that needs it creates it")
    if loose := [path for path in _private_paths(settings) if path.stat().st_mode & 0o077]:
        return Check("home", "warn", f"{loose[0]} can be read by other users; `perdure doctor --fix` makes it private")
    free_mb = shutil.disk_usage(home).free >> 20
    return Check("home", "ok" if free_mb >= _LITTLE_SPACE_MB else "warn", f"{home}, {free_mb:,} MB free")


async def _examine_database(settings: Settings) -> Check:
    try:
        if is_restore_pending(settings.home):
            return Check(
                "database", "warn", "a restore was interrupted; the next command that opens the home finishes it"
            )
        if not DatabaseClient.exists(settings.database_url):
            return Check("database", "ok", "does not exist yet; the first command that needs it creates it")
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
    """Check a sample of histories, and return a note about it.

    Raises: Damaged
    """
    sample = await sample_histories(database)
    if sample.problems:
        raise Damaged(sample.problems[0])
    if sample.total == 0:
        return ""
    return f"; checked {sample.checked} of {sample.total:,} histories, all valid; `perdure db verify` checks all"


def _is_quick(health: Health) -> bool:
    """Return whether the whole database can be read in about a second."""
    size = health.facts.get("size_bytes")
    return isinstance(size, int) and size <= _READ_WHOLE_BYTES


def _examine_sqlite() -> Check:
    version = sqlite_version()
    if not version.is_usable:
        return Check("sqlite", "fail", f"{version.text} is too old; install {version.oldest} or newer")
    note = "; its WAL-reset bug has no effect, because a lock file separates writers" if version.is_affected else ""
    return Check("sqlite", "ok", f"{version.text}{note}")


def _examine_memory(settings: Settings) -> Check:
    places = MemoryFiles(settings.memory_state_dir / LOG_FILE)
    try:
        chosen = settings.memory
    except Invalid as error:
        return Check("memory", "fail", error.detail, error.exit_code)
    if places.failed.exists():
        detail = f"a flush of {places.log} failed; `perdure memory verify --clear` allows appends again"
        return Check("memory", "fail", detail, Damaged.exit_code)
    if not chosen.enabled:
        return Check("memory", "ok", "switched off (memory.enabled)")
    return Check("memory", "ok", f"{places.log}{'' if places.log.exists() else ' does not exist yet'}")


def _examine_imports(settings: Settings) -> list[Check]:
    """Return the modules of flows; they are not imported, because an import would run their code."""
    try:
        names = settings.imports
    except Invalid as error:
        return [Check("imports", "fail", error.detail, error.exit_code)]
    return [Check("imports", "ok", ", ".join(names))] if names else []


def _examine_models(settings: Settings) -> Check:
    """Return the default model, and what it lacks; no request is sent."""
    try:
        known = Models(settings).list()
    except PerdureError as error:
        return Check("models", "fail", error.detail, error.exit_code)
    chosen = next((model for model in known if model["source"] == "default"), None)
    if chosen is None:
        return Check("models", "ok", "none is configured; `perdure model list` shows the supported models")
    if chosen["next"] is not None:
        return Check("models", "warn", f"{chosen['name']} needs {chosen['missing']}: {chosen['next']}")
    if not chosen["ready"]:
        return Check("models", "warn", f"{chosen['name']} needs {chosen['missing']}")
    key = "no key" if chosen["key"] is None else f"key from {chosen['key']}"
    return Check("models", "ok", f"{chosen['name']}, {key}; `perdure model test` sends a test request")


def _examine_git() -> Check:
    git = shutil.which("git")
    return Check("git", "ok", git) if git else Check("git", "warn", "not found; projects require it")


def _private_paths(settings: Settings) -> list[Path]:
    """Return the paths that must be private: the home and its files, without links to other places."""
    home = settings.home
    inside = [*home.iterdir(), *home.glob("logs/*"), *home.glob(f"{SECRETS_FOLDER}/*")] if home.is_dir() else []
    return [path for path in (home, *inside) if path.exists() and not path.is_symlink()]


def _make_private(settings: Settings) -> None:
    for path in _private_paths(settings):
        try:
            path.chmod(FOLDER_MODE if path.is_dir() else FILE_MODE)
        except OSError as error:
            raise from_os_error(f"{path} cannot be made private", error) from error
