"""What the function given to `DatabaseClient.transaction` works with."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

sql_log = logging.getLogger("perdure.store.sql")

Parameters = Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Transaction:
    """One transaction, open for as long as the function runs; its result rows must be read inside it."""

    def __init__(self, connection: sa.Connection) -> None:
        self.connection = connection

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.connection.dialect.name

    def execute(self, statement: sa.Executable | str, parameters: Parameters | None = None) -> sa.CursorResult[Any]:
        """Run a statement of SQLAlchemy Core, or plain SQL with `:name` parameters."""
        executable = sa.text(statement) if isinstance(statement, str) else statement
        return self.connection.execute(executable, parameters)

    def scalar(self, statement: sa.Executable | str, parameters: Parameters | None = None) -> Any:
        """Return the first column of the first row, or None."""
        return self.execute(statement, parameters).scalar()

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Open a savepoint: an error that leaves the block undoes the block and nothing else."""
        with self.connection.begin_nested():
            yield


def log_statements(engine: sa.Engine) -> None:
    """Log every statement of an engine, without its values."""

    @sa.event.listens_for(engine, "before_cursor_execute")
    def log_statement(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sql_log.info("%s", statement)
