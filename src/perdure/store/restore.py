"""Put a backup into its place, so that a kill at any moment leaves the old state or the new one.

Everything is unpacked beside its place and checked first. Then the swaps to be made are written down in
`restore.json` in the home; from there on a restore can only go forward: whoever opens the home next finishes it.
Nothing is deleted: what was there is moved aside.
"""

import contextlib
import json
import logging
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from perdure import failpoints
from perdure.errors import Conflict, Damaged, Denied, Invalid, NotFound, Unavailable
from perdure.settings import CONFIG_FILE, FOLDER_MODE, ensure_folder
from perdure.store.archive import DATABASE, Manifest, unpack_archive
from perdure.store.durable import fsync, new_file, unused
from perdure.store.postgres.swap import SchemaSwap, plan_swap, refuse_when_in_use, swap_schema
from perdure.store.sqlite import faults, files
from perdure.store.sqlite.connection import connect
from perdure.store.sqlite.lockfile import LockFile
from perdure.store.target import PostgresTarget, SqliteTarget

log = logging.getLogger(__name__)

PLAN = "restore.json"
_SQLITE_MAGIC = b"SQLite format 3\0"
_GZIP_MAGIC = b"\x1f\x8b"
_PATIENCE_S = 3.0
_KEPT = (CONFIG_FILE, "logs", "*.lock", "*.replaced-*", ".*")
"""What a home may hold and still count as empty: settings, logs, locks, and what earlier restores moved aside."""


@dataclass(frozen=True)
class Places:
    """Where the things of a home belong."""

    home: Path
    database: SqliteTarget | PostgresTarget
    folders: Mapping[str, Path]


@dataclass(frozen=True)
class Swap:
    """Something new that is ready beside its place, and where the old goes."""

    new: str
    place: str
    aside: str


@dataclass(frozen=True)
class Plan:
    """All that is left to do once everything is unpacked and checked; a copy of a database is not a whole home."""

    swaps: tuple[Swap, ...]
    schema: SchemaSwap | None
    is_whole_home: bool


@dataclass(frozen=True)
class Restored:
    """What a restore put into place, and what it moved aside."""

    restored: tuple[str, ...]
    aside: tuple[str, ...]


def restore(source: Path, places: Places, *, replace: bool) -> Restored:
    """Restore an archive, or a plain copy of a SQLite database, into a home.

    Raises: NotFound, Invalid, Damaged, Denied; Conflict when something is there already, or in use. Nothing has
    changed then.
    """
    ensure_folder(places.home)
    with _one_at_a_time(places.home), _no_writers(places.database):
        _finish(places)
        try:
            plan = _stage(source, places, datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))
            if not replace:
                _refuse_what_is_there(places, plan)
            _refuse_when_in_use(places.database)
            _write_plan(places.home, plan)
            return _finish(places) or Restored((), ())
        except BaseException:
            if not is_restore_pending(places.home):
                _remove_staged(places)
            raise


def is_restore_pending(home: Path) -> bool:
    """Tell whether a restore was interrupted after its plan was written."""
    return (home / PLAN).exists()


def finish_restore(places: Places) -> Restored | None:
    """Finish a restore that was interrupted; None when there is none, which costs one look.

    Raises: Damaged when its plan cannot be read.
    """
    if not is_restore_pending(places.home):
        return None
    with _one_at_a_time(places.home), _no_writers(places.database):
        return _finish(places)


def _stage(source: Path, places: Places, mark: str) -> Plan:
    """Unpack everything beside its place, and check it."""
    _remove_staged(places)
    start = _first_bytes(source)
    if start.startswith(_SQLITE_MAGIC):
        place = _sqlite_place(places, source)
        files.copy_database(source, _staged(place), is_still=True)
        _check_database(_staged(place), source)
        return Plan((_swap(place, mark),), None, is_whole_home=False)
    if not start:
        raise Damaged(f"{source} is empty. Use another backup.")
    if not start.startswith(_GZIP_MAGIC):
        raise Invalid(f"{source} is neither an archive of `perdure db backup` nor a copy of a database.")
    dump = places.home / DATABASE if isinstance(places.database, PostgresTarget) else places.database.path
    if dump is None:
        raise Invalid("A database in memory cannot be restored. Name a file or a PostgreSQL URL.")
    targets = {DATABASE: dump, **places.folders}
    for place in targets.values():
        ensure_folder(place.parent)
    manifest = unpack_archive(source, {name: _staged(place) for name, place in targets.items()})
    for place in places.folders.values():
        if place.exists():
            _staged(place).mkdir(mode=FOLDER_MODE, exist_ok=True)  # what the archive does not have, goes too
    folders = tuple(_swap(place, mark) for place in places.folders.values() if _staged(place).exists())
    return _plan_of(manifest, places, dump, folders, source, mark)


def _plan_of(
    manifest: Manifest, places: Places, dump: Path, folders: tuple[Swap, ...], source: Path, mark: str
) -> Plan:
    kind = "postgresql" if isinstance(places.database, PostgresTarget) else "sqlite"
    if manifest.database != kind:
        raise Invalid(
            f"{source} holds a {manifest.database} database, and this home uses {kind}. Nothing was restored."
        )
    if isinstance(places.database, PostgresTarget):
        schema = plan_swap(places.database, _staged(dump), f"replaced_{mark.replace('-', '_')}")
        return Plan(folders, schema, is_whole_home=True)
    _check_database(_staged(dump), source)
    return Plan((_swap(dump, mark), *folders), None, is_whole_home=True)


def _check_database(path: Path, source: Path) -> None:
    """Read the whole database before anything else is touched.

    Raises: Damaged, Invalid, Conflict
    """
    files.recognise(path, shown=source)
    with faults.translated(source), contextlib.closing(connect(path)) as connection:
        problems = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    if problems:
        raise Damaged(f"{source} holds a damaged database: {problems[0]}. Use another backup.")
    with faults.translated(source):
        files.open_for_writing(path).close()
    fsync(path)


def _refuse_what_is_there(places: Places, plan: Plan) -> None:
    taken = [swap.place for swap in plan.swaps if Path(swap.place).exists()]
    if plan.is_whole_home:
        taken += [str(path) for path in sorted(places.home.iterdir()) if not any(map(path.match, _KEPT))]
    if plan.schema is not None and plan.schema.aside:
        taken.append(places.database.shown)
    if taken:
        raise Conflict(
            f"The home {places.home} is not empty. Add --replace to move aside first what is there:"
            f" {', '.join(dict.fromkeys(taken))}."
        )


def _write_plan(home: Path, plan: Plan) -> None:
    failpoints.hit("store.restore.plan.before")
    with new_file(home / PLAN) as part:
        part.write_text(json.dumps(asdict(plan), indent=1), encoding="utf-8")
    failpoints.hit("store.restore.plan.after")


def _finish(places: Places) -> Restored | None:
    """Do what the plan says and was not done yet. The caller holds both locks."""
    path = places.home / PLAN
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        schema = SchemaSwap(**content["schema"]) if content["schema"] else None
        plan = Plan(tuple(Swap(**swap) for swap in content["swaps"]), schema, content["is_whole_home"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Damaged(f"{path} cannot be read, so the restore that it belongs to cannot go on.") from error
    if plan.schema is not None and isinstance(places.database, PostgresTarget):
        swap_schema(places.database, plan.schema)
    for swap in plan.swaps:
        _carry_out(Path(swap.new), Path(swap.place), Path(swap.aside))
    failpoints.hit("store.restore.done.before")
    path.unlink()
    fsync(places.home)
    failpoints.hit("store.restore.done.after")
    restored = [swap.place for swap in plan.swaps]
    aside = [swap.aside for swap in plan.swaps if Path(swap.aside).exists()]
    if plan.schema is not None:
        restored.insert(0, places.database.shown)
        aside = [*([f"the schema {plan.schema.aside}"] if plan.schema.aside else []), *aside]
    log.info("restored %s; aside: %s", ", ".join(restored), ", ".join(aside) or "nothing")
    return Restored(tuple(restored), tuple(aside))


def _carry_out(new: Path, place: Path, aside: Path) -> None:
    """Swap one thing; do nothing when it was done before."""
    if not new.exists():
        return
    failpoints.hit("store.restore.swap.before")
    for old, kept in zip((place, *files.side_paths(place)), (aside, *files.side_paths(aside)), strict=True):
        if old.exists():
            old.rename(kept)
    fsync(place.parent)
    failpoints.hit("store.restore.swap.between")
    new.rename(place)
    fsync(place.parent)
    failpoints.hit("store.restore.swap.after")


def _swap(place: Path, mark: str) -> Swap:
    aside = unused(place.with_name(f"{place.name}.replaced-{mark}"))
    return Swap(str(_staged(place)), str(place), str(aside))


def _staged(place: Path) -> Path:
    return place.with_name(f".{place.name}.restoring")


def _remove_staged(places: Places) -> None:
    """Remove what an earlier restore left behind that was killed before it had a plan."""
    database = places.database.path if isinstance(places.database, SqliteTarget) else places.home / DATABASE
    for place in (*places.folders.values(), *([database] if database else [])):
        staged = _staged(place)
        if staged.is_dir():
            shutil.rmtree(staged)
        for part in (staged, *files.side_paths(staged)):
            part.unlink(missing_ok=True)


def _sqlite_place(places: Places, source: Path) -> Path:
    if not isinstance(places.database, SqliteTarget) or places.database.path is None:
        raise Invalid(f"{source} is a SQLite database, and this home does not use a SQLite file.")
    return places.database.path


def _first_bytes(source: Path) -> bytes:
    try:
        with source.open("rb") as file:
            return file.read(len(_SQLITE_MAGIC))
    except FileNotFoundError as error:
        raise NotFound(f"There is no backup at {source}.") from error
    except IsADirectoryError as error:
        raise Invalid(f"{source} is a folder. Name an archive of `perdure db backup`.") from error
    except OSError as error:
        raise Denied(f"{source} cannot be read: {error.strerror}.") from error


@contextlib.contextmanager
def _one_at_a_time(home: Path) -> Iterator[None]:
    lock = LockFile(home / "restore.lock")
    with contextlib.closing(lock), lock:
        yield


@contextlib.contextmanager
def _no_writers(database: SqliteTarget | PostgresTarget) -> Iterator[None]:
    """Keep every writer away from a SQLite file while it is swapped."""
    if isinstance(database, PostgresTarget) or database.path is None:
        yield
        return
    ensure_folder(database.path.parent)
    lock = LockFile(files.lock_path(database.path))
    with contextlib.closing(lock):
        try:
            lock.acquire(_PATIENCE_S)
        except Unavailable as error:
            raise _in_use(database.path) from error
        try:
            yield
        finally:
            lock.release()


def _refuse_when_in_use(database: SqliteTarget | PostgresTarget) -> None:
    """See that nobody, this process included, has the database open.

    Raises: Conflict
    """
    if isinstance(database, PostgresTarget):
        refuse_when_in_use(database)
    elif database.path is not None and database.path.exists() and _is_open_elsewhere(database.path):
        raise _in_use(database.path)


def _in_use(path: Path) -> Conflict:
    return Conflict(f"{path} is in use. Stop the programs that use it, then restore again.")


def _is_open_elsewhere(path: Path) -> bool:
    """Ask SQLite for the whole file, which it gives to nobody while somebody else has it open."""
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
