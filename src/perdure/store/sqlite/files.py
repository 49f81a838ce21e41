"""Prepares a SQLite file: creates it atomically, or recognises, rejects or migrates an existing one.

An existing database is never replaced by an empty one: a file that cannot be read is rejected and not changed. Only
SQLite opens the file: closing any other descriptor of it would release the locks that SQLite holds in this process.
"""

import contextlib
import logging
import os
import secrets
import sqlite3
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perdure import failpoints
from perdure.errors import Conflict, Damaged, Invalid, Unavailable, from_os_error
from perdure.filelock.lock import FileLock
from perdure.files.atomic import part_file, unused
from perdure.store.backup.new_file import new_file
from perdure.store.migrations import CHAIN, Chain
from perdure.store.sqlite import faults
from perdure.store.sqlite.connection import APPLICATION_ID, connect, engine_over, pragma
from perdure.store.sqlite.facts import sqlite_version

log = logging.getLogger(__name__)

SMALLEST_BYTES = 512
"""The size of the smallest database; SQLite would treat a file of one byte as an empty database."""


@dataclass(frozen=True)
class Probe:
    """The identification of a database file."""

    version: int
    application_id: int
    is_empty: bool
    revisions: Sequence[str]
    """The revisions in the table of Alembic; normally one, the version."""

    @property
    def is_ours(self) -> bool:
        return self.application_id == APPLICATION_ID

    @property
    def is_blank(self) -> bool:
        return self.application_id == 0 and self.is_empty and self.version == 0


def lock_path(path: Path) -> Path:
    """Return the path of the lock file of a database."""
    return path.with_name(path.name + ".lock")


def side_paths(path: Path) -> tuple[Path, Path]:
    """Return the paths of the log and the shared index that SQLite keeps beside a database."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


def staged_path(path: Path) -> Path:
    """Return the path at which a restore unpacks a replacement."""
    return path.with_name(f".{path.name}.restoring")


def refuse_strangers(path: Path) -> None:
    """Reject a foreign file before a lock file is created beside it.

    Raises: Invalid, Damaged, Denied
    """
    if _file_size(path) and not lock_path(path).exists():
        if is_too_small(path):
            raise Damaged(f"{path} is too small to be a database. It was not changed; name another file.")
        recognise(path)


def prepare(path: Path, lock: FileLock, chain: Chain, *, migrate: bool) -> None:
    """Ensure that a database of Perdure is at `path`: create it, or recognise and migrate an existing one.

    The caller holds `lock`.

    Raises: Invalid, Denied, Damaged, Conflict, Unavailable; an existing file is then unchanged.
    """
    if not (version := sqlite_version()).is_usable:
        raise Unavailable(f"SQLite {version.oldest} or newer is needed; this Python has {version.text}.")
    if not has_database(path, lock):
        create(path, chain, migrate=migrate)
        return
    found = recognise(path, chain)
    if found.is_blank:
        adopt(path)
    if migrate and found.version < chain.head:
        if found.version > 0:
            copy_before_migration(path, found.version)
        upgrade(path, chain)


def has_database(path: Path, lock: FileLock) -> bool:
    """Return whether a file exists at a path.

    Raises: Invalid when it is not a file; Damaged when it is missing or empty although its log or lock file exists.
    """
    size = _file_size(path)
    if not size and is_log_left(path):
        wal, _ = side_paths(path)
        raise Damaged(
            f"{path} is missing or empty, but {wal.name} is still there. Put the file back beside it,"
            " or restore a backup with `perdure db restore --replace ARCHIVE`. To start with an empty database,"
            f" remove {wal.name}."
        )
    if size == 0 and not lock.is_new:
        raise Damaged(
            f"{path} is empty, but it was a database before. Restore a backup with"
            " `perdure db restore --replace ARCHIVE`, or remove the file to start with an empty database."
        )
    if is_too_small(path):
        raise Damaged(f"{path} is too small to be a database. It was not changed; name another file.")
    return bool(size)


def is_log_left(path: Path) -> bool:
    """Return whether the log of a database exists; SQLite removes it when the last connection closes."""
    wal, _ = side_paths(path)
    return os.path.lexists(wal)


def is_too_small(path: Path) -> bool:
    """Return whether a file is too small to be a database."""
    return 0 < (_file_size(path) or 0) < SMALLEST_BYTES


def create(path: Path, chain: Chain, *, migrate: bool) -> None:
    """Create a new database under a temporary name, then rename it."""
    if staged_path(path).exists():
        raise Conflict(
            f"A restore of {path} was interrupted. Open its home to finish it, for example by `perdure db status`."
        )
    for leftover in path.parent.glob(f".{path.name}.new-*"):
        leftover.unlink(missing_ok=True)  # of a killed process; the caller holds the lock
    try:
        with part_file(path, name=f".{path.name}.new-{secrets.token_hex(4)}") as part:
            part.close()
            _fill(part.path, chain, migrate=migrate)
            part.fsync()
            failpoints.hit("store.create.before")
            part.replace()
    except OSError as error:
        raise from_os_error(f"The folder {path.parent} cannot be written", error) from error
    failpoints.hit("store.create.after")


def _fill(new: Path, chain: Chain, *, migrate: bool) -> None:
    try:
        adopt(new)
        if migrate:
            upgrade(new, chain)
    finally:
        for beside in side_paths(new):
            beside.unlink(missing_ok=True)


_RESTORE = "Restore a backup with `perdure db restore --replace ARCHIVE`."


def recognise(path: Path, chain: Chain = CHAIN, *, shown: Path | None = None) -> Probe:
    """Identify a database file without changing it; errors name it `shown`.

    Raises: Damaged when it cannot be read; Invalid when it belongs to another program; Conflict when it is newer.
    """
    found = probe(path)
    if found.is_ours and found.version < 1 and not found.is_empty:
        raise Damaged(
            f"{shown or path} has tables, but `user_version` is {found.version}. It was not changed. {_RESTORE}"
        )
    if not (found.is_ours or found.is_blank):
        raise Invalid(f"{shown or path} is a SQLite database of another program. It was not changed.")
    if found.version > chain.head:
        raise Conflict(chain.refusal(str(shown or path), f"{found.version:04d}"))
    for revision in found.revisions:
        if not chain.is_known(revision):
            raise Conflict(chain.refusal(str(shown or path), revision))
    if found.version >= 1 and list(found.revisions) != [f"{found.version:04d}"]:
        noted = ", ".join(found.revisions) or "nothing"
        raise Damaged(
            f"{shown or path} has `user_version` {found.version:04d}, but {noted} in its table `alembic_version`. It"
            f" was not changed. {_RESTORE}"
        )
    return found


def probe(path: Path) -> Probe:
    """Return the identification of a file, by a read-only connection. The caller holds the lock.

    Raises: Damaged, Denied
    """
    with faults.translated(path), contextlib.closing(connect(path, mode=_still_mode(path))) as connection:
        return Probe(
            version=int(pragma(connection, "user_version")),
            application_id=int(pragma(connection, "application_id")),
            is_empty=connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0,
            revisions=_revisions(connection),
        )


def _revisions(connection: sqlite3.Connection) -> Sequence[str]:
    """Return the revisions in the table of Alembic, which another tool may have changed without the version."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
        return ()
    return [str(row[0]) for row in connection.execute("SELECT * FROM alembic_version")]


def adopt(path: Path) -> None:
    """Mark a file as a database of Perdure."""
    with faults.translated(path), contextlib.closing(open_for_writing(path)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open an existing file, and ensure that it is in WAL mode. The caller holds the lock.

    The mode is stored in the file, so it is set when the file is created or adopted, and then only read.
    """
    connection = connect(path)
    try:
        if pragma(connection, "journal_mode") != "wal" and pragma(connection, "journal_mode = WAL") != "wal":
            raise Damaged(f"{path} cannot be put into WAL mode. Its file system may not support it; use another.")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")  # fails now if the file is read-only
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


def upgrade(path: Path, chain: Chain) -> None:
    """Run the missing migrations on a file."""
    with faults.translated(path), contextlib.closing(open_for_writing(path)) as raw:
        upgrade_connection(raw, str(path), chain)


def upgrade_connection(raw: sqlite3.Connection, location: str, chain: Chain = CHAIN) -> None:
    """Run the missing migrations on an open connection.

    Foreign keys are off meanwhile, because rebuilding a table would delete the rows that refer to it. Before each
    commit, all references are checked.
    """
    from perdure.store.migrate import run_migrations

    def before_commit(revision: int) -> None:
        if orphans := raw.execute("PRAGMA foreign_key_check").fetchall():
            raise Damaged(f"Migration {revision:04d} would leave {len(orphans)} rows that point nowhere.")
        raw.execute(f"PRAGMA user_version = {revision}")

    raw.execute("PRAGMA foreign_keys = OFF")
    try:
        with faults.translated_from_core(location), engine_over(raw).connect() as connection:
            run_migrations(connection, chain, before_commit)
    finally:
        raw.execute("PRAGMA foreign_keys = ON")


def copy_before_migration(path: Path, version: int) -> None:
    """Copy the file before a migration, which cannot be undone otherwise."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    copy = unused(path.with_name(f"{path.name}.before-{version + 1:04d}-{moment}"))
    failpoints.hit("store.migrate.copy.before")
    copy_database(path, copy, is_still=True)
    log.info("copied the database before the migration: %s", copy)
    failpoints.hit("store.migrate.copy.after")


def copy_database(source: Path, target: Path, *, is_still: bool = False) -> None:
    """Copy a database, with all commits, to a new file, which is complete or does not exist.

    Other processes may write to the source meanwhile. With `is_still` they must not, and no side files are created.

    Raises: Conflict when the target exists; Damaged, Denied, Unavailable
    """
    with (
        new_file(target) as part,
        faults.translated(source),
        contextlib.closing(connect(source, mode=_still_mode(source) if is_still else "ro")) as reading,
        contextlib.closing(sqlite3.connect(part)) as writing,
    ):
        reading.backup(writing)
        if (found := writing.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            reason = " ".join(found.split())
            raise Damaged(f"{source} is damaged ({reason}), so a copy would be too. Check it with `perdure db verify`.")


def _still_mode(path: Path) -> str:
    """Return the mode for a file without a writer: if it has no log, no side files are created."""
    wal, _ = side_paths(path)
    return "ro" if _file_size(wal) else "ro&immutable=1"


def _file_size(path: Path) -> int | None:
    """Return the size of a file; None if it does not exist.

    Raises: Invalid when it is not a file; Denied.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise from_os_error(f"{path} cannot be examined", error) from error
    if not stat.S_ISREG(status.st_mode):
        raise Invalid(f"{path} must be a database file, but it is not a file.")
    return status.st_size
