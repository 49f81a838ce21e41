"""The argument of functions that are passed to `DatabaseClient.transaction`."""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import sqlalchemy as sa

from perdure.store.raw import sql_log

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]
T = TypeVar("T")


class Transaction:
    """One transaction, open while the function runs; its result rows must be read inside it."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection
        self._results: list[sa.CursorResult[Any]] = []

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.connection.dialect.name

    def execute(self, statement: sa.Executable | str, parameters: Parameters | None = None) -> sa.CursorResult[Any]:
        """Run a statement of SQLAlchemy Core, or plain SQL with `:name` parameters."""
        executable = _text(statement) if isinstance(statement, str) else statement
        result = self.connection.execute(executable, parameters)
        self._results.append(result)
        return result

    def scalar(self, statement: sa.Executable | str, parameters: Parameters | None = None) -> Any:
        """Return the first column of the first row, or None."""
        return self.execute(statement, parameters).scalar()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Open a savepoint: an error that leaves the block rolls back only the block."""
        with self.connection.begin_nested():
            yield

    @property
    def has_run(self) -> bool:
        """Whether any statement was run."""
        return bool(self._results)

    def close_results(self) -> None:
        """Close cursors with unread rows: an open one would hold its snapshot."""
        for result in self._results:
            result.close()


@functools.lru_cache(maxsize=512)
def _text(statement: str) -> sa.TextClause:
    """Parse plain SQL, with a cache."""
    return sa.text(statement)


def run_in(
    core: sa.Connection, fn: Callable[[Transaction], T], require_open: Callable[[Transaction], None] | None = None
) -> T:
    """Run a function in the open transaction of a connection, and check that the transaction is still open afterwards.

    Raises: TypeError when the function returns an awaitable or a generator, which would run after the transaction.
    """
    transaction = Transaction(core)
    try:
        result = fn(transaction)
    finally:
        transaction.close_results()
    if inspect.isawaitable(result) or inspect.isgenerator(result):
        raise TypeError(f"a transaction cannot return a {type(result).__name__}: finish everything inside it")
    if require_open is not None:
        require_open(transaction)
    return result


def log_statements(engine: sa.Engine) -> None:
    """Log every statement of an engine, without its values."""

    @sa.event.listens_for(engine, "before_cursor_execute")
    def log_statement(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sql_log.info("%s", statement)
