"""The connection of the writer to PostgreSQL. Single statements run without an explicit transaction."""

import functools
import logging
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.errors import Conflict
from perdure.store.postgres import faults
from perdure.store.postgres.connection import connect
from perdure.store.postgres.guard import Guard
from perdure.store.raw import STATEMENT, RawTransaction, TransactionKind, Values
from perdure.store.target import PostgresTarget

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
log = logging.getLogger(__name__)


class PostgresTransaction(RawTransaction):
    """A transaction on a connection of psycopg, whose placeholders are `%s`."""

    def __init__(self, connection: "psycopg.Connection[Any]", guard: Guard, *, is_logged: bool) -> None:
        super().__init__(connection, is_logged=is_logged)
        self.head = guard.head
        self._guard = guard

    def refuse_newer(self) -> None:
        """See RawTransaction.refuse_newer."""
        self._guard.refuse_newer(self._connection)

    def execute(self, statement: str, *values: Any) -> Any:
        """See RawTransaction.execute."""
        return super().execute(_marked(statement), *values)

    def execute_many(self, statement: str, rows: Sequence[Values]) -> None:
        """See RawTransaction.execute_many."""
        super().execute_many(_marked(statement), rows)


@functools.lru_cache(maxsize=256)
def _marked(statement: str) -> str:
    return statement.replace("?", "%s")


class Writer:
    """The connection of the writer, opened at its first use and replaced if it breaks. For one thread."""

    def __init__(self, target: PostgresTarget, guard: Guard, *, is_logged: bool) -> None:
        self._target = target
        self._guard = guard
        self._is_logged = is_logged
        self._connection: psycopg.Connection[Any] | None = None

    def transact(self, fn: Callable[[RawTransaction], T], kind: TransactionKind) -> T:
        """Run a function in one transaction; a single statement needs no BEGIN."""
        with faults.translated(self._target.shown):
            connection = self._sound_connection()
            raw = PostgresTransaction(connection, self._guard, is_logged=self._is_logged)
            if kind.is_statement:
                return self._run_statement(fn, raw)
            try:
                self._guard.begin(connection)
                if not kind.is_flushed:
                    raw.execute("SET LOCAL synchronous_commit = off")
                result = fn(raw)
                refuse_when_aborted(connection)
                kind.hit_before_commit()
                with self._committing():
                    connection.execute("COMMIT")
                kind.hit_after_commit()
            except BaseException:
                _roll_back(connection)
                raise
        return result

    def send(self, statements: str) -> None:
        """Run statements whose failure is harmless."""
        import psycopg

        try:
            self._sound_connection().execute(statements.encode(), prepare=False)
        except psycopg.Error as error:
            log.debug("notification to %s failed: %s", self._target.shown, error)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _run_statement(self, fn: Callable[[RawTransaction], T], raw: RawTransaction) -> T:
        STATEMENT.hit_before_commit()
        with self._committing():
            result = fn(raw)
        STATEMENT.hit_after_commit()
        return result

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Raise an unknown outcome if the connection breaks during a commit: the server may have committed."""
        import psycopg

        try:
            yield
        except psycopg.OperationalError as error:
            if self._connection is None or self._connection.closed:
                raise faults.unknown_outcome(self._target.shown) from error
            raise

    def _sound_connection(self) -> "psycopg.Connection[Any]":
        if self._connection is not None and not _is_sound(self._connection):
            self.close()
        if self._connection is None:
            self._connection = connect(self._target.url, autocommit=True)
        return self._connection


def refuse_when_aborted(connection: "psycopg.Connection[Any]") -> None:
    """Check that a transaction can be committed: the server answers a COMMIT after an error with a silent ROLLBACK.

    Raises: Conflict
    """
    from psycopg.pq import TransactionStatus

    if connection.info.transaction_status != TransactionStatus.INTRANS:
        raise Conflict(
            "A statement of this transaction was rejected, or the function ended the transaction. Nothing was stored;"
            " to continue after a rejected statement, use `with tx.nested():`."
        )


def _is_sound(connection: "psycopg.Connection[Any]") -> bool:
    """Return whether a connection is open. A server that closed it has sent a message, so no round trip is needed."""
    import psycopg

    if connection.closed:
        return False
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLIN)
    if not waiting.poll(0):
        return True
    try:
        connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True


def _roll_back(connection: "psycopg.Connection[Any]") -> None:
    import psycopg
    from psycopg.pq import TransactionStatus

    if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
        with suppress(psycopg.Error):
            connection.execute("ROLLBACK")
