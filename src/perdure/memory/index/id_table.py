"""A table of record ids in a temporary file: an import may know more of them than fit into memory."""

import sqlite3
from hashlib import blake2b

from perdure.memory.index.index_db import translate_sqlite_errors

FORGOTTEN = -1
"""The number of the file of a forgotten record; real numbers are 0 or more."""


class IdTable:
    """The locations of records by id. The file is removed when this is closed."""

    def __init__(self) -> None:
        """Raises: Unusable."""
        self._connection = sqlite3.connect("", isolation_level=None)  # no name: SQLite removes the file by itself
        self._run("CREATE TABLE names (name BLOB PRIMARY KEY, file INTEGER, at INTEGER) WITHOUT ROWID")
        self._run("BEGIN")

    def put(self, name: str, file: int, at: int) -> None:
        """Store the location of the last record with an id: the number of a file, and an offset."""
        self._run("INSERT OR REPLACE INTO names VALUES (?, ?, ?)", _digest(name), file, at)

    def hide(self, name: str) -> None:
        """Mark the record with an id as forgotten."""
        self.put(name, FORGOTTEN, 0)

    def find(self, name: str) -> tuple[int, int] | None:
        """Return the location of the last record with an id."""
        location: tuple[int, int] | None = self._run(
            "SELECT file, at FROM names WHERE name = ?", _digest(name)
        ).fetchone()
        return location

    def close(self) -> None:
        """Close the temporary file, which removes it."""
        self._connection.close()

    @translate_sqlite_errors
    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)


def _digest(name: str) -> bytes:
    return blake2b(name.encode(errors="surrogatepass"), digest_size=16).digest()
