"""Restores a backup, so that a kill at any moment leaves either the old or the new state.

First everything is unpacked beside its final path and checked. Then a plan of the swaps is made durable, and
`restore_plan` carries it out. A kill before the plan leaves the old state; after it, the next start finishes the swaps.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from perdure.errors import Conflict, Damaged, Invalid, NotFound, from_os_error
from perdure.filelock.lock import FileLock
from perdure.files.folders import FOLDER_MODE, ensure_folder
from perdure.files.fsync import fsync_path
from perdure.settings import CONFIG_FILE
from perdure.store.backup.archive import Manifest, unpack_archive
from perdure.store.backup.exclusion import Exclusion, in_use
from perdure.store.backup.places import DATABASE, Places, has_unfinished_restore, is_restore_pending
from perdure.store.backup.restore_plan import (
    Plan,
    Restored,
    Swap,
    finish,
    pending_plan,
    remove_staged,
    swap_for,
    write_plan,
)
from perdure.store.sqlite import faults, files
from perdure.store.sqlite.connection import connect
from perdure.store.target import PostgresTarget, SqliteTarget

_SQLITE_MAGIC = b"SQLite format 3\0"
_GZIP_MAGIC = b"\x1f\x8b"
_KEPT = (CONFIG_FILE, "logs", "run", "home_id", "*.lock", "*.replaced-*", ".*")
"""Names in a home that still counts as empty: settings, logs, locks, its id, and files that restores moved aside."""


def restore(source: Path, places: Places, *, replace: bool) -> Restored:
    """Restore an archive, or a plain copy of a SQLite database, into a home.

    Raises: NotFound, Invalid, Damaged, Denied; Conflict when the home is not empty, or in use. Nothing has
    changed then.
    """
    ensure_folder(places.home)
    with _translate_os_errors(), _one_at_a_time(places.home):
        _finish(places)
        try:
            plan = _stage(source, places, datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))
            return _swap(places, plan, replace=replace)
        except BaseException:
            if not is_restore_pending(places.home):
                remove_staged(places)
            raise


def finish_restore(places: Places) -> Restored | None:
    """Finish an interrupted restore, or clean up after it; None when there is none.

    Raises: Damaged when its plan cannot be read.
    """
    if not has_unfinished_restore(places):
        return None
    with _translate_os_errors(), _one_at_a_time(places.home):
        return _finish(places)


def _swap(places: Places, plan: Plan, *, replace: bool) -> Restored:
    """Check that a plan can be carried out, make it durable, and carry it out."""
    with Exclusion(places) as exclusion:
        if isinstance(places.database, SqliteTarget):
            exclusion.lock_folders(plan)
        exclusion.lock_database()
        if not replace:
            _require_empty(places, plan)
        _require_swappable(places, plan)
        write_plan(places.home, plan)
        return finish(places, exclusion.lock_folders) or Restored((), ())


def _finish(places: Places) -> Restored | None:
    with Exclusion(places) as exclusion:
        plan = pending_plan(places)
        if plan is not None and isinstance(places.database, SqliteTarget):
            exclusion.lock_folders(plan)
        exclusion.lock_database()
        return finish(places, exclusion.lock_folders)


def _stage(source: Path, places: Places, mark: str) -> Plan:
    """Unpack everything beside its final path, and check it."""
    if isinstance(places.database, SqliteTarget) and source == places.database.path:
        raise Invalid(f"{source} is the database itself. Name a backup.")  # and opening it here would drop its locks
    start = _first_bytes(source)
    if not start:
        raise Damaged(f"{source} is empty. Use another backup.")
    if start.startswith(_SQLITE_MAGIC):
        return _stage_copy(source, places, mark)
    if start.startswith(_GZIP_MAGIC):
        return _stage_archive(source, places, mark)
    raise Invalid(f"{source} is neither an archive of `perdure db backup` nor a copy of a database.")


def _stage_copy(source: Path, places: Places, mark: str) -> Plan:
    place = _sqlite_place(places, source)
    files.copy_database(source, files.staged_path(place), is_still=True)
    _check_database(files.staged_path(place), source)
    return _plan(places, (swap_for(place, mark),), mark, is_whole_home=False)


def _stage_archive(source: Path, places: Places, mark: str) -> Plan:
    dump = places.home / DATABASE if isinstance(places.database, PostgresTarget) else places.database.path
    if dump is None:
        raise Invalid("A database in memory cannot be restored. Name a file or a PostgreSQL URL.")
    targets = {DATABASE: dump, **places.folders}
    for place in targets.values():
        ensure_folder(place.parent)
    manifest = unpack_archive(source, {name: files.staged_path(place) for name, place in targets.items()})
    for place in places.folders.values():
        if os.path.lexists(place):
            files.staged_path(place).mkdir(mode=FOLDER_MODE, exist_ok=True)  # if it is not in the archive
    staged = [place for place in places.folders.values() if files.staged_path(place).exists()]
    return _plan_of(manifest, places, dump, tuple(swap_for(place, mark) for place in staged), source, mark)


def _plan_of(
    manifest: Manifest, places: Places, dump: Path, folders: tuple[Swap, ...], source: Path, mark: str
) -> Plan:
    kind = "postgresql" if isinstance(places.database, PostgresTarget) else "sqlite"
    if manifest.database != kind:
        raise Invalid(
            f"{source} holds a {manifest.database!r} database, and this home uses {kind}. Nothing was restored."
        )
    if isinstance(places.database, PostgresTarget):
        return _plan(places, folders, mark, dump=str(files.staged_path(dump)))
    _check_database(files.staged_path(dump), source)
    return _plan(places, (swap_for(dump, mark), *folders), mark)


def _plan(
    places: Places, swaps: tuple[Swap, ...], mark: str, *, dump: str | None = None, is_whole_home: bool = True
) -> Plan:
    return Plan(str(places.home), places.database.shown, swaps, dump, mark.replace("-", "_"), is_whole_home)


def _check_database(path: Path, source: Path) -> None:
    """Read the whole database before any file is changed.

    Raises: Damaged, Invalid, Conflict
    """
    if files.recognise(path, shown=source).version == 0:
        raise Invalid(f"{source} holds a database without tables, which is not a backup.")
    with faults.translated(source), contextlib.closing(connect(path)) as connection:
        problems = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        problems += [f"rows of {row[0]} point nowhere" for row in connection.execute("PRAGMA foreign_key_check")]
    if problems:
        raise Damaged(f"{source} holds a damaged database: {' '.join(problems[0].split())}. Use another backup.")
    with faults.translated(source):
        files.open_for_writing(path).close()
    fsync_path(path)


def _has_tables(target: PostgresTarget) -> bool:
    from perdure.store.postgres.restore_tables import has_tables

    return has_tables(target)


def _require_empty(places: Places, plan: Plan) -> None:
    taken = [swap.place for swap in plan.swaps if os.path.lexists(swap.place)]
    if plan.is_whole_home:
        taken += [str(path) for path in sorted(places.home.iterdir()) if not any(map(path.match, _KEPT))]
    if isinstance(places.database, PostgresTarget) and _has_tables(places.database):
        taken.append(places.database.shown)
    if taken:
        raise Conflict(
            f"The home {places.home} is not empty. Add --replace to move the existing files aside first:"
            f" {', '.join(dict.fromkeys(taken))}."
        )


def _sqlite_place(places: Places, source: Path) -> Path:
    if not isinstance(places.database, SqliteTarget) or places.database.path is None:
        raise Invalid(f"{source} is a SQLite database, and this home does not use a SQLite file.")
    return places.database.path


@contextlib.contextmanager
def _translate_os_errors() -> Iterator[None]:
    """Translate errors of the operating system; the next start finishes the restore."""
    try:
        yield
    except OSError as error:
        raise from_os_error(str(error.filename or "The home"), error) from error


def _first_bytes(source: Path) -> bytes:
    try:
        if source.exists() and not (source.is_file() or source.is_dir()):
            raise Invalid(f"{source} is not a file.")
        with source.open("rb") as file:
            return file.read(len(_SQLITE_MAGIC))
    except FileNotFoundError as error:
        raise NotFound(f"There is no backup at {source}.") from error
    except IsADirectoryError as error:
        raise Invalid(f"{source} is a folder. Name an archive of `perdure db backup`.") from error
    except OSError as error:
        raise from_os_error(f"{source} cannot be read", error) from error


@contextlib.contextmanager
def _one_at_a_time(home: Path) -> Iterator[None]:
    lock = FileLock(home / "restore.lock", kind="outer")
    with contextlib.closing(lock), lock:
        yield


def _require_swappable(places: Places, plan: Plan) -> None:
    """Check that every swap is possible, and that no process, including this one, has the database open.

    Raises: Conflict, Invalid; Damaged, Denied, Unavailable for PostgreSQL.
    """
    for swap in plan.swaps:
        if os.path.ismount(swap.place):
            raise Invalid(f"{swap.place} is a mount point, which cannot be moved aside.")
    database = places.database
    if isinstance(database, PostgresTarget):
        if plan.dump is not None:
            from perdure.store.postgres.restore_tables import refuse_a_dump

            refuse_a_dump(database, Path(plan.dump))
    elif database.path is not None and database.path.exists() and _is_open_elsewhere(database.path):
        raise in_use(database.path)


def _is_open_elsewhere(path: Path) -> bool:
    """Return whether another connection has a SQLite file open, by an attempt to lock all of it."""
    try:
        with contextlib.closing(connect(path)) as connection:
            connection.execute("PRAGMA busy_timeout = 0")
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN EXCLUSIVE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        return error.sqlite_errorname.startswith("SQLITE_BUSY")
    except sqlite3.DatabaseError:
        return False  # damaged: a reason to replace it
    return False
