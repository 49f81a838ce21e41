"""Translates errors of SQLite into errors of Perdure."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.errors import Conflict, Damaged, Denied, Invalid, PerdureError, Unavailable, from_os_error

AFFECTED_BEFORE = (3, 51, 3)
"""Older versions can damage a WAL database when several processes write and checkpoint at once."""
OLDEST = (3, 37, 0)
"""The oldest version with strict tables."""

_MEANINGS: dict[str, tuple[type[PerdureError], str]] = {
    "SQLITE_NOTADB": (
        Damaged,
        "{location} is not a SQLite database, or its header is damaged. It was not changed."
        " Restore a backup with `perdure db restore --replace ARCHIVE`, or name another file.",
    ),
    "SQLITE_CORRUPT": (
        Damaged,
        "{location} is damaged ({error}). It was not changed."
        " Restore a backup with `perdure db restore --replace ARCHIVE`.",
    ),
    "SQLITE_CONSTRAINT": (Invalid, "The database refused the change: {error}."),
    "SQLITE_MISMATCH": (Invalid, "The database refused the value: {error}."),
    "SQLITE_TOOBIG": (Invalid, "The database refused the value: {error}."),
    "SQLITE_READONLY": (Denied, "{location} cannot be written: {error}."),
    "SQLITE_PERM": (Denied, "{location} cannot be written: {error}."),
    "SQLITE_CANTOPEN": (Denied, "{location} cannot be opened. Check the permissions of the file and its folder."),
    "SQLITE_FULL": (
        Unavailable,
        "There is no space left for {location}; nothing was changed. Make room and try again.",
    ),
    "SQLITE_BUSY": (Unavailable, "{location} is in use by another program; nothing was changed. Try again."),
    "SQLITE_LOCKED": (Unavailable, "{location} is in use by another program; nothing was changed. Try again."),
    "SQLITE_IOERR": (
        Unavailable,
        "The disk failed under {location} ({name}). It is unknown whether the last change was stored.",
    ),
}
_FILES = 6
"""The maximum number of files that SQLite opens for a database: the file, its log, its index, a journal, folders."""
_NO_TEXT = "{location} is damaged: a text in it is not valid UTF-8. It was not changed."
_CONFLICTS = (
    "SQLITE_CONSTRAINT_UNIQUE",
    "SQLITE_CONSTRAINT_PRIMARYKEY",
    "SQLITE_CONSTRAINT_FOREIGNKEY",
    "SQLITE_CONSTRAINT_ROWID",
    "SQLITE_CONSTRAINT_TRIGGER",
)


def is_io_error(error: BaseException | None) -> bool:
    """Return whether an error, or a cause of it, is an I/O error, after which a connection is not usable."""
    while error is not None:
        if isinstance(error, sqlite3.Error) and _name(error).startswith("SQLITE_IOERR"):
            return True
        error = getattr(error, "orig", None) or error.__cause__
    return False


@contextmanager
def translated(location: object) -> Iterator[None]:
    """Translate errors of the driver."""
    try:
        yield
    except sqlite3.Error as error:
        raise (translate(error, str(location)) or error) from error
    except UnicodeDecodeError as error:
        raise Damaged(_NO_TEXT.format(location=location)) from error


@contextmanager
def translated_from_core(location: object) -> Iterator[None]:
    """Translate errors of SQLAlchemy and of the driver."""
    from sqlalchemy.exc import DBAPIError

    with translated(location):
        try:
            yield
        except DBAPIError as error:
            if isinstance(error.orig, sqlite3.Error):
                raise (translate(error.orig, str(location)) or error) from error
            raise


def translate(error: sqlite3.Error, location: str) -> PerdureError | None:
    """Return the translated error; None for a mistake in the SQL of Perdure, which is raised unchanged."""
    name = _name(error)
    if name in _CONFLICTS:
        return Conflict(f"The database refused the change: {error}.")
    if str(error) == "unsupported file format":
        name = "SQLITE_CORRUPT"
    if str(error).startswith("Could not decode to UTF-8"):
        return Damaged(_NO_TEXT.format(location=location))
    if name.startswith("SQLITE_CANTOPEN") and (refusal := _refusal_of_descriptors()) is not None:
        return from_os_error(f"{location} cannot be opened", refusal)
    kind, sentence = _MEANINGS.get("_".join(name.split("_")[:2]), (None, ""))
    return kind(sentence.format(location=location, error=error, name=name)) if kind else None


def _refusal_of_descriptors() -> OSError | None:
    """Return the error of an attempt to open as many files as SQLite needs; None if it succeeds.

    SQLite does not report why it could not open a file.
    """
    held: list[int] = []
    try:
        held.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(_FILES))
    except OSError as error:
        return error
    finally:
        for file in held:
            os.close(file)
    return None


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")
