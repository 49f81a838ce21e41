"""Plain SQL through the drivers alone, to try what the database itself allows."""

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import psycopg
import pytest

Refusal = Literal["check", "not null", "unique", "foreign key", "type", "trigger"]

_SQLITE = {
    "check": "CHECK constraint failed",
    "not null": "NOT NULL constraint failed",
    "unique": "UNIQUE constraint failed",
    "foreign key": "FOREIGN KEY constraint failed",
    "type": "cannot store",
    "trigger": "events",
}
_POSTGRESQL = {
    "check": "23514",
    "not null": "23502",
    "unique": "23505",
    "foreign key": "23503",
    "type": "22P02",
    "trigger": "P0001",
}


class PlainSql(Protocol):
    """One open transaction on a database."""

    name: str

    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement with `:name` parameters and return its rows."""
        ...

    def refuses(self, why: Refusal, statement: str, values: Mapping[str, Any] | None = None, rule: str = "") -> None:
        """Assert that the database refuses a statement for this reason, naming this rule where it names any.

        The rule of a trigger is the sentence that it says.
        """
        ...


def insert(table: str, values: Mapping[str, Any]) -> str:
    """An INSERT with one `:name` parameter for each value."""
    return f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(':' + name for name in values)})"


class _Sqlite:
    name = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values or {}).fetchall()

    def refuses(self, why: Refusal, statement: str, values: Mapping[str, Any] | None = None, rule: str = "") -> None:
        self._connection.execute("SAVEPOINT attempt")
        with pytest.raises(sqlite3.IntegrityError, match=_SQLITE[why]) as refused:
            self.run(statement, values)
        self._connection.execute("ROLLBACK TO attempt")
        if why == "check":
            assert str(refused.value).endswith(f": {rule}") or not rule, refused.value
        if why == "trigger":
            assert str(refused.value) == rule


class _Postgres:
    name = "postgresql"

    def __init__(self, connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
        self._connection = connection

    def run(self, statement: str, values: Mapping[str, Any] | None = None) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(_pyformat(statement, values or {}), values or {})
        return cursor.fetchall() if cursor.description else []

    def refuses(self, why: Refusal, statement: str, values: Mapping[str, Any] | None = None, rule: str = "") -> None:
        with pytest.raises(psycopg.Error) as refused, self._connection.transaction():
            self.run(statement, values)
        assert refused.value.sqlstate == _POSTGRESQL[why], refused.value
        named = refused.value.diag.message_primary if why == "trigger" else refused.value.diag.constraint_name
        assert named == rule or not rule


def _pyformat(statement: str, names: Sequence[str] | Mapping[str, Any]) -> str:
    statement = statement.replace("%", "%%")
    for name in sorted(names, key=len, reverse=True):
        statement = statement.replace(f":{name}", f"%({name})s")
    return statement


class Connections:
    """One connection to each database that was asked for; tests use it one after the other."""

    def __init__(self) -> None:
        self._sqlite: dict[str, sqlite3.Connection] = {}
        self._postgres: dict[str, psycopg.Connection[tuple[Any, ...]]] = {}

    @contextlib.contextmanager
    def sqlite(self, path: str) -> Iterator[PlainSql]:
        """Begin a transaction on a SQLite file, and roll it back."""
        if path not in self._sqlite:
            self._sqlite[path] = sqlite3.connect(path, isolation_level=None)
            self._sqlite[path].execute("PRAGMA foreign_keys = ON")
        connection = self._sqlite[path]
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield _Sqlite(connection)
        finally:
            connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def postgres(self, url: str) -> Iterator[PlainSql]:
        """Begin a transaction on a PostgreSQL database, and roll it back."""
        if url not in self._postgres:
            self._postgres[url] = psycopg.connect(url)
        connection = self._postgres[url]
        try:
            yield _Postgres(connection)
        finally:
            connection.rollback()

    def close(self) -> None:
        for sqlite in self._sqlite.values():
            sqlite.close()
        for postgres in self._postgres.values():
            postgres.close()
