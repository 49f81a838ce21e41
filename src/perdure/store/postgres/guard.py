"""Prevents writes to a database that a newer program is migrating or has migrated.

A migration holds the advisory lock `MIGRATION_LOCK`. A write transaction takes it in shared mode, and then reads the
version. So the two never overlap, and a transaction that begins after a migration sees its version. An append of a
single statement takes no such lock. Its statement checks the version itself, and a migration first locks the tables of
goals.
"""

from typing import TYPE_CHECKING, Any

from perdure.errors import Conflict
from perdure.store.migrations import Chain
from perdure.store.postgres.connection import MIGRATION_LOCK

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy as sa

_VERSION = "SELECT version_num FROM alembic_version"
_LOCKED_VERSION = f"SELECT pg_advisory_xact_lock_shared({MIGRATION_LOCK}); {_VERSION}"


class Guard:
    """Rejects transactions on a database with a newer version than this program."""

    def __init__(self, chain: Chain, location: str) -> None:
        self.head = f"{chain.head:04d}"
        self._chain = chain
        self._location = location

    def begin(self, connection: "psycopg.Connection[Any]") -> None:
        """Begin a transaction on an autocommit connection and check the version, in one round trip.

        Raises: Conflict
        """
        self._check(connection, "BEGIN")

    def check_begun(self, connection: "psycopg.Connection[Any]") -> None:
        """Check the version in the open transaction; a connection without autocommit begins one with this check.

        Raises: Conflict
        """
        self._check(connection, "")

    def refuse_newer(self, connection: "psycopg.Connection[Any]") -> None:
        """Check the version without a lock.

        Raises: Conflict
        """
        row = connection.execute(_VERSION).fetchone()
        self._reject_newer(None if row is None else row[0])

    def _check(self, connection: "psycopg.Connection[Any]", begin: str) -> None:
        import psycopg

        statements = f"{begin}; {_LOCKED_VERSION}" if begin else _LOCKED_VERSION
        try:
            cursor = connection.execute(statements.encode(), prepare=False)
        except psycopg.errors.UndefinedTable:  # never migrated
            connection.execute("ROLLBACK")
            if begin:
                connection.execute(begin.encode())
            return
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        self._reject_newer(None if row is None else row[0])

    def _reject_newer(self, version: str | None) -> None:
        if version is not None and version > self.head:
            raise Conflict(self._chain.outdated(self._location, version))


def lock_goals(core: "sa.Connection") -> None:
    """Block appends while the migration's transaction is open; reads continue."""
    (goals, events) = core.exec_driver_sql("SELECT to_regclass('goals'), to_regclass('events')").one()
    if goals is not None and events is not None:
        core.exec_driver_sql("LOCK TABLE goals, events IN EXCLUSIVE MODE")
