"""Connections to a SQLite file with uniform settings, and SQLAlchemy engines over them.

WAL is set once, when a file is created or adopted, and only read afterwards. The driver never begins a transaction by
itself; `begin` of the engine does.
"""

import os
import sqlite3
import weakref
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from perdure.errors import Conflict, Damaged

if TYPE_CHECKING:
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

BUSY_TIMEOUT_S = 10.0
APPLICATION_ID = 0x50445552  # "PDUR": identifies databases of Perdure

FileId = tuple[int, int]
NO_FILE: FileId = (0, 0)


class _Connection(sqlite3.Connection):
    """A connection that is tracked for forks."""

    file: FileId = NO_FILE

    def close(self) -> None:
        super().close()
        _connections.discard(self)


_connections: "weakref.WeakSet[_Connection]" = weakref.WeakSet()
_inherited: set[FileId] = set()
"""Files that were open when this process was forked. SQLite assumes that this process holds their locks."""


def _keep_inherited() -> None:
    """Keep the connections of the parent open and unused in a forked child: using or closing them can damage the file.

    A connection is closed when it is freed, so an extra reference keeps it alive.
    """
    import ctypes

    for connection in list(_connections):
        _inherited.add(connection.file)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
    _connections.clear()


os.register_at_fork(after_in_child=_keep_inherited)


def connect(path: Path | None, *, mode: str = "rw", is_reader: bool = False) -> sqlite3.Connection:
    """Open an existing file (mode `rw` or `ro`), or a database in memory when there is no path.

    Raises: Conflict when this process was forked from one that has the file open; sqlite3.Error.
    """
    file = _file_to_open(path) if path is not None else NO_FILE
    connection = sqlite3.connect(
        ":memory:" if path is None else f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_S,
        factory=_Connection,
    )
    if file != NO_FILE:
        connection.file = file
        _connections.add(connection)
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        if is_reader:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _file_to_open(path: Path) -> FileId:
    try:
        status = os.stat(path)
    except OSError:
        return NO_FILE  # SQLite reports the error
    file = (status.st_dev, status.st_ino)
    if file in _inherited:
        raise Conflict(
            f"{path} was open when this process was forked, so using it here could damage it."
            " Start the process with the method `spawn` or `forkserver`, or as a program of its own."
        )
    return file


def pragma(connection: sqlite3.Connection, name: str) -> int | str:
    """Return a setting of a connection, after changing it if `name` is `name = value`."""
    value: int | str = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def file_now(path: Path | str) -> FileId:
    """Return the identity of the file with this name; writes to a file that was moved would be lost.

    Raises: Damaged when the file does not exist.
    """
    try:
        status = os.stat(path)
    except OSError as error:
        raise Damaged(f"{path} was moved or removed while it was in use; nothing was written.") from error
    return status.st_dev, status.st_ino


def engine_over(connection: sqlite3.Connection, *, begin: str = "BEGIN IMMEDIATE") -> "sa.Engine":
    """Return an engine over one connection, which the engine never closes."""
    import sqlalchemy as sa

    engine = sa.create_engine("sqlite://", creator=lambda: connection, poolclass=sa.StaticPool)
    sa.event.listen(engine, "begin", lambda core: core.exec_driver_sql(begin))
    return engine


def observed(engine: "sa.Engine", *, is_logged: bool) -> "sa.Engine":
    """Return an engine, which logs its statements if `is_logged`."""
    from perdure.store.transaction import log_statements

    if is_logged:
        log_statements(engine)
    return engine


def refuse_when_over(transaction: "Transaction") -> None:
    """Check that a transaction is still open before it is committed: later statements would have been autocommitted.

    Raises: Conflict
    """
    raw = transaction.connection.connection.driver_connection
    if not (isinstance(raw, sqlite3.Connection) and raw.in_transaction):
        raise Conflict("The transaction was ended inside its own function. What of it was stored is not known.")


def roll_back(connection: sqlite3.Connection) -> None:
    """Roll back the open transaction of a connection, if SQLite has not done so itself."""
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
