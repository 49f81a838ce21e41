"""The writing connections to a SQLite file, one with and one without flushes, and transactions on them."""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from perdure.errors import Conflict
from perdure.store.migrations import Chain
from perdure.store.raw import CORE, RawTransaction, TransactionKind, WouldWait
from perdure.store.sqlite import faults, files
from perdure.store.sqlite.checkpoint import CheckpointPlan
from perdure.store.sqlite.connection import (
    NO_FILE,
    engine_over,
    file_now,
    observed,
    refuse_when_over,
    roll_back,
)

if TYPE_CHECKING:
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

_BUSY_AT_CLOSE_MS = 100

T = TypeVar("T")
log = logging.getLogger(__name__)


class Writer:
    """The writing connections to a file. The caller of every method holds the lock file."""

    def __init__(self, path: Path, chain: Chain, *, is_logged: bool) -> None:
        self.has_written = False
        self._path = path
        self._name = str(path)
        self._chain = chain
        self.is_logged = is_logged
        self._file = NO_FILE
        self._connection: sqlite3.Connection | None = None
        self._unflushed: sqlite3.Connection | None = None
        self._engine: sa.Engine | None = None
        self._wal, _ = files.side_paths(path)
        self._plan = CheckpointPlan()

    @property
    def is_ready(self) -> bool:
        """Whether the connection is open, and its file still has its name."""
        return self._connection is not None and self._file == file_now(self._name)

    @property
    def is_checkpoint_due(self) -> bool:
        """Count one commit, and return whether about 1,000 pages have gathered in the log."""
        return self._plan.is_due(self._wal)

    def connect(self) -> None:
        """Open the writing connection. The lock is held, so the file cannot be replaced meanwhile."""
        with faults.translated(self._path):
            self._connection = files.open_for_writing(self._path)
        self._file = file_now(self._path)

    def disconnect(self) -> None:
        """Close the connections; the last one to close checkpoints."""
        for connection in (self._unflushed, self._connection):
            if connection is not None:
                connection.close()
        self._connection = self._unflushed = self._engine = None

    def connection(self, kind: TransactionKind, *, is_inline: bool = False) -> sqlite3.Connection:
        """Return the connection for a kind of transaction, and open it unless `is_inline`.

        Raises: WouldWait
        """
        if not self.is_ready:
            if is_inline:
                raise WouldWait
            self.disconnect()
            files.recognise(self._path, self._chain)
            self.connect()
        self.has_written = True
        assert self._connection is not None  # noqa: S101 (connect has opened it)
        return self._unflushed_connection() if not kind.is_flushed else self._connection

    def transact_core(self, connection: sqlite3.Connection, fn: "Callable[[Transaction], T]") -> T:
        """Run a function in one transaction on the connection of SQLAlchemy."""
        from perdure.store.transaction import run_in

        if self._engine is None:
            self._engine = observed(engine_over(connection), is_logged=self.is_logged)
        with faults.translated_from_core(self._path), self._engine.begin() as core:
            self.refuse_newer(connection)
            result = run_in(core, fn, refuse_when_over)
            CORE.hit_before_commit()
        CORE.hit_after_commit()
        return result

    def checkpoint(self) -> None:
        """Run a checkpoint. A failure does not affect committed transactions."""
        if self._connection is None:
            return
        try:
            _, pages, _ = self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            log.warning("checkpoint of %s failed: %s", self._path, error)
            if faults.is_io_error(error):
                self.disconnect()
        else:
            self._plan.done(self._wal, pages)

    def checkpoint_before_close(self) -> None:
        """Checkpoint the log completely, unless another connection prevents it."""
        if self._connection is not None:
            try:
                self._connection.execute(f"PRAGMA busy_timeout = {_BUSY_AT_CLOSE_MS}")
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                log.info("checkpoint of %s at close failed: %s", self._path, error)

    def refuse_newer(self, connection: sqlite3.Connection) -> None:
        """Check in the transaction that no newer program has migrated the file.

        Raises: Conflict
        """
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        if version > self._chain.head:
            raise Conflict(self._chain.outdated(self._name, f"{version:04d}"))

    def _unflushed_connection(self) -> sqlite3.Connection:
        """Return a connection whose commits are atomic but not flushed individually."""
        if self._unflushed is None:
            with faults.translated(self._path):
                self._unflushed = files.open_for_writing(self._path)
                self._unflushed.execute("PRAGMA synchronous = NORMAL")
        return self._unflushed


def run_transaction(
    connection: sqlite3.Connection,
    fn: Callable[[RawTransaction], T],
    kind: TransactionKind,
    *,
    is_logged: bool,
    check: Callable[[sqlite3.Connection], None] | None = None,
) -> T:
    """Run a check and a function in one transaction on a connection of the driver, and commit."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        if check is not None:
            check(connection)
        result = fn(RawTransaction(connection, is_logged=is_logged))
        kind.hit_before_commit()
        connection.execute("COMMIT")
        kind.hit_after_commit()
    except BaseException:
        roll_back(connection)
        raise
    return result
