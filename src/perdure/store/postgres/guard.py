"""What keeps a process from writing a database that a newer program migrates, or has migrated.

A migration holds the advisory lock `MIGRATION_LOCK`. A write transaction takes it too, shared, and reads the version
after that: so the two never overlap, and a transaction that begins after a migration sees its version. An append of a
single statement takes no such lock; it looks at the version itself, and a migration locks the tables of goals first.
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
    """Refuses transactions on a database whose version is newer than this program."""

    def __init__(self, chain: Chain, location: str) -> None:
        self.head = f"{chain.head:04d}"
        self._chain = chain
        self._location = location

    def begin(self, connection: "psycopg.Connection[Any]") -> None:
        """Begin a transaction on a connection that commits by itself, in one round trip.

        Raises: Conflict
        """
        self._checked(connection, "BEGIN")

    def check_begun(self, connection: "psycopg.Connection[Any]") -> None:
        """See the same in the transaction that is open on a connection, or that its next statement begins.

        Raises: Conflict
        """
        self._checked(connection, "")

    def refuse_newer(self, connection: "psycopg.Connection[Any]") -> None:
        """Look at the version alone.

        Raises: Conflict
        """
        row = connection.execute(_VERSION).fetchone()
        self._require(None if row is None else row[0])

    def _checked(self, connection: "psycopg.Connection[Any]", begin: str) -> None:
        import psycopg

        statements = f"{begin}; {_LOCKED_VERSION}" if begin else _LOCKED_VERSION
        try:
            found = connection.execute(statements.encode(), prepare=False)
        except psycopg.errors.UndefinedTable:  # never migrated, by a newer program neither
            connection.execute("ROLLBACK")
            if begin:
                connection.execute(begin.encode())
            return
        while found.nextset():
            pass
        row = found.fetchone()
        self._require(None if row is None else row[0])

    def _require(self, version: str | None) -> None:
        if version is not None and version > self.head:
            raise Conflict(self._chain.outdated(self._location, version))


def lock_goals(core: "sa.Connection") -> None:
    """Block appends while the migration's transaction is open; reads continue."""
    (goals, events) = core.exec_driver_sql("SELECT to_regclass('goals'), to_regclass('events')").one()
    if goals is not None and events is not None:
        core.exec_driver_sql("LOCK TABLE goals, events IN EXCLUSIVE MODE")
