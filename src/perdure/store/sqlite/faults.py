"""SQLite's errors in our words, in one place."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from perdure.errors import Conflict, Damaged, Denied, Invalid, PerdureError, Unavailable

AFFECTED_BEFORE = (3, 51, 3)
"""Older versions can damage a WAL database when several processes write and checkpoint at once."""
OLDEST = (3, 37, 0)
"""Strict tables need this."""

_CONFLICTS = (
    "SQLITE_CONSTRAINT_UNIQUE",
    "SQLITE_CONSTRAINT_PRIMARYKEY",
    "SQLITE_CONSTRAINT_FOREIGNKEY",
    "SQLITE_CONSTRAINT_ROWID",
    "SQLITE_CONSTRAINT_TRIGGER",
)


def is_affected() -> bool:
    """Tell whether this SQLite has the WAL-reset bug that the lock file guards against."""
    return sqlite3.sqlite_version_info < AFFECTED_BEFORE


def is_io_error(error: BaseException | None) -> bool:
    """Tell whether a disk failed, however the error was wrapped: the state of its connection is not known."""
    while error is not None:
        if isinstance(error, sqlite3.Error) and _name(error).startswith("SQLITE_IOERR"):
            return True
        error = getattr(error, "orig", None) or error.__cause__
    return False


@contextmanager
def translated(location: object) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise (translate(error, str(location)) or error) from error


@contextmanager
def translated_from_core(location: object) -> Iterator[None]:
    """Turn SQLAlchemy's errors, and the driver's, into ours."""
    from sqlalchemy.exc import DBAPIError

    with translated(location):
        try:
            yield
        except DBAPIError as error:
            if isinstance(error.orig, sqlite3.Error):
                raise (translate(error.orig, str(location)) or error) from error
            raise


def translate(error: sqlite3.Error, location: str) -> PerdureError | None:
    """Say what happened; None when it is a mistake in our own SQL, which should stay what it is."""
    name = _name(error)
    primary = "_".join(name.split("_")[:2])
    match primary:
        case "SQLITE_NOTADB":
            return Damaged(
                f"{location} is not a SQLite database, or its header is damaged. It was left as it is."
                " Restore a backup with `perdure db restore --replace ARCHIVE`, or name another file."
            )
        case "SQLITE_CORRUPT":
            return Damaged(
                f"{location} is damaged ({error}). It was left as it is."
                " Look with `perdure db verify`, restore with `perdure db restore --replace ARCHIVE`."
            )
        case "SQLITE_CONSTRAINT":
            kind = Conflict if name in _CONFLICTS else Invalid
            return kind(f"The database refused the change: {error}.")
        case "SQLITE_MISMATCH" | "SQLITE_TOOBIG" | "SQLITE_RANGE":
            return Invalid(f"The database refused the value: {error}.")
        case "SQLITE_READONLY" | "SQLITE_PERM" | "SQLITE_AUTH":
            return Denied(f"{location} cannot be written: {error}. Check the permissions of the file and its folder.")
        case "SQLITE_CANTOPEN":
            return Denied(f"{location} cannot be opened: {error}. Check the permissions of the file and its folder.")
        case "SQLITE_FULL":
            return Unavailable(f"There is no space left for {location}; nothing was changed. Make room and try again.")
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return Unavailable(f"{location} is in use by another program; nothing was changed. Try again.")
        case "SQLITE_IOERR":
            return Unavailable(
                f"The disk failed under {location} ({name}). Whether the last change was stored is not known; look first."
            )
    return None


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", "")
