"""A SQLite file from nothing to ready: made whole beside its place, recognised, refused or migrated.

A database that is there is never replaced by an empty one: whatever cannot be read is refused and left as it is.
Its file is opened by SQLite only: closing any other descriptor of it would drop the locks that SQLite holds on it
in this process.
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
"""No database is smaller; SQLite would take a file of one byte for an empty one."""


@dataclass(frozen=True)
class Probe:
    """What a file says about itself."""

    version: int
    application_id: int
    is_empty: bool
    revisions: Sequence[str]
    """What Alembic has noted: one revision, the version."""

    @property
    def is_ours(self) -> bool:
        return self.application_id == APPLICATION_ID

    @property
    def is_blank(self) -> bool:
        return self.application_id == 0 and self.is_empty and self.version == 0


def lock_path(path: Path) -> Path:
    """The lock file of a database."""
    return path.with_name(path.name + ".lock")


def side_paths(path: Path) -> tuple[Path, Path]:
    """The log and the shared index that SQLite keeps beside a database."""
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


def staged_path(path: Path) -> Path:
    """Where a restore unpacks what is to take the place of something."""
    return path.with_name(f".{path.name}.restoring")


def refuse_strangers(path: Path) -> None:
    """Refuse what was never ours before a lock file is put beside it.

    Raises: Invalid, Damaged, Denied
    """
    if _file_size(path) and not lock_path(path).exists():
        if is_too_small(path):
            raise Damaged(f"{path} is too small to be a database. It was not changed; name another file.")
        recognise(path)


def prepare(path: Path, lock: FileLock, chain: Chain, *, migrate: bool) -> None:
    """See to it that a database of ours is at `path`: make a new one, or recognise and migrate what is there.

    The caller holds `lock`.

    Raises: Invalid, Denied, Damaged, Conflict, Unavailable; what was there is then unchanged.
    """
    if not (version := sqlite_version()).is_usable:
        raise Unavailable(f"SQLite {version.oldest} or newer is needed; this Python has {version.text}.")
    if not is_there(path, lock):
        create(path, chain, migrate=migrate)
        return
    found = recognise(path, chain)
    if found.is_blank:
        adopt(path)
    if migrate and found.version < chain.head:
        if found.version > 0:
            copy_before_migration(path, found.version)
        upgrade(path, chain)


def is_there(path: Path, lock: FileLock) -> bool:
    """Tell a database from an empty place.

    Raises: Invalid when it is not a file; Damaged when it is gone or empty, but something of it is left.
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
    """Tell whether the log of a database is there; it is removed when the last connection closes."""
    wal, _ = side_paths(path)
    return os.path.lexists(wal)


def is_too_small(path: Path) -> bool:
    """Tell whether a file is there that cannot be a database."""
    return 0 < (_file_size(path) or 0) < SMALLEST_BYTES


def create(path: Path, chain: Chain, *, migrate: bool) -> None:
    """Make a new database whole under another name, then rename it into its place."""
    if staged_path(path).exists():
        raise Conflict(
            f"A restore of {path} was interrupted. Open its home to finish it, for example by `perdure db status`."
        )
    for leftover in path.parent.glob(f".{path.name}.new-*"):
        leftover.unlink(missing_ok=True)  # of a process that was killed here; we hold the lock
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


def recognise(path: Path, chain: Chain = CHAIN, *, shown: Path | None = None) -> Probe:
    """Look at a file without changing it; errors speak of it as `shown`.

    Raises: Damaged when it cannot be read; Invalid when it is another program's; Conflict when it is newer.
    """
    found = probe(path)
    if found.is_ours and found.version < 1 and not found.is_empty:
        raise Damaged(
            f"{shown or path} says that its version is {found.version}, but it has tables. It was not changed."
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
            f"{shown or path} says that its version is {found.version:04d}, and its table alembic_version has {noted}."
            " It was not changed. Restore a backup with `perdure db restore --replace ARCHIVE`."
        )
    return found


def probe(path: Path) -> Probe:
    """Read what a file says about itself, by a connection that cannot write. The caller holds the lock.

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
    """Return what Alembic has noted, which another tool may have changed without the version."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'alembic_version'").fetchone() is None:
        return ()
    return [str(row[0]) for row in connection.execute("SELECT * FROM alembic_version")]


def adopt(path: Path) -> None:
    """Mark a file as ours."""
    with faults.translated(path), contextlib.closing(open_for_writing(path)) as connection:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Open a file that is there, and see to it that it is in WAL mode. The caller holds the lock.

    The mode stays in the file, so it is set when the file is made or comes from elsewhere, and then only read.
    """
    connection = connect(path)
    try:
        if pragma(connection, "journal_mode") != "wal" and pragma(connection, "journal_mode = WAL") != "wal":
            raise Damaged(f"{path} cannot be put into WAL mode. Its file system may not support it; use another.")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")  # a file that is read-only refuses it now
        connection.execute("ROLLBACK")
    except BaseException:
        connection.close()
        raise
    return connection


def upgrade(path: Path, chain: Chain) -> None:
    """Run the migrations that a file has not seen."""
    with faults.translated(path), contextlib.closing(open_for_writing(path)) as raw:
        upgrade_connection(raw, str(path), chain)


def upgrade_connection(raw: sqlite3.Connection, location: str, chain: Chain = CHAIN) -> None:
    """Run the migrations on an open connection.

    Foreign keys are off meanwhile, because rebuilding a table would delete the rows that point at it; that none
    was left pointing nowhere is checked before each commit.
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
    """Keep the file as it was, under a name that says so: there is no way back but this."""
    moment = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    copy = unused(path.with_name(f"{path.name}.before-{version + 1:04d}-{moment}"))
    failpoints.hit("store.migrate.copy.before")
    copy_database(path, copy, is_still=True)
    log.info("kept the file as it was as %s", copy)
    failpoints.hit("store.migrate.copy.after")


def copy_database(source: Path, target: Path, *, is_still: bool = False) -> None:
    """Copy a database, with all that is committed, into a new file, which is whole or absent.

    Others may write to it meanwhile, unless it `is_still`; then nothing is left beside it.

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
            raise Damaged(f"{source} is damaged ({reason}), so a copy would be too. Look with `perdure db verify`.")


def _still_mode(path: Path) -> str:
    """Return the URI for a file without a writer: without a log to read, not even side files are created."""
    wal, _ = side_paths(path)
    return "ro" if _file_size(wal) else "ro&immutable=1"


def _file_size(path: Path) -> int | None:
    """The size of a file, or None when there is none.

    Raises: Invalid when something else is there; Denied when we may not look.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise from_os_error(f"{path} cannot be looked at", error) from error
    if not stat.S_ISREG(status.st_mode):
        raise Invalid(f"{path} must be a database file, but it is not a file.")
    return status.st_size
