"""Connections to a SQLite file, always with the same settings, and SQLAlchemy engines over them.

WAL is set once, when the file comes to us, and only read afterwards. The driver never begins a transaction by
itself; the engine's `begin` does.
"""

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from perdure.errors import Conflict

if TYPE_CHECKING:
    import sqlalchemy as sa

    from perdure.store.transaction import Transaction

BUSY_TIMEOUT_S = 10.0
APPLICATION_ID = 0x50445552  # "PDUR": `file perdure.db` and we can tell our databases from others


def connect(path: Path | None, *, mode: str = "rw", is_reader: bool = False) -> sqlite3.Connection:
    """Open an existing file (mode `rw` or `ro`), or a database in memory when there is no path."""
    connection = sqlite3.connect(
        ":memory:" if path is None else f"file:{quote(os.fsencode(path))}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=BUSY_TIMEOUT_S,
    )
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


def pragma(connection: sqlite3.Connection, name: str) -> int | str:
    """Read one setting of a connection, or set it with `name = value` and read what it is now."""
    value: int | str = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def engine_over(connection: sqlite3.Connection) -> "sa.Engine":
    """Make an engine over one writing connection, which stays open whatever the engine does."""
    import sqlalchemy as sa

    engine = sa.create_engine("sqlite://", creator=lambda: connection, poolclass=sa.StaticPool)
    sa.event.listen(engine, "begin", lambda core: core.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def refuse_when_over(transaction: "Transaction") -> None:
    """See that a transaction is still open before it is committed: what came after its end was stored by itself.

    Raises: Conflict
    """
    raw = transaction.connection.connection.driver_connection
    if not (isinstance(raw, sqlite3.Connection) and raw.in_transaction):
        raise Conflict("The transaction was ended inside its own function. What of it was stored is not known.")


def reading_engine(path: Path, size: int) -> "sa.Engine":
    """Make an engine over a small pool of reading connections; each transaction sees one state."""
    import sqlalchemy as sa

    engine = sa.create_engine(
        "sqlite://",
        creator=lambda: connect(path, is_reader=True),
        poolclass=sa.QueuePool,
        pool_size=size,
        max_overflow=0,
    )
    sa.event.listen(engine, "begin", lambda core: core.exec_driver_sql("BEGIN"))
    return engine
