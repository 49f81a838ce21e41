"""Translates errors of PostgreSQL into errors of Perdure."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdure.errors import Conflict, Damaged, Denied, Invalid, PerdureError, Unavailable

if TYPE_CHECKING:
    import psycopg

_CLASSES: dict[str, type[PerdureError]] = {
    "22": Invalid,  # a value that does not fit
    "28": Denied,  # invalid authorization
    "40": Conflict,  # serialisation failure, deadlock
    "53": Unavailable,  # out of disk, memory or connections
    "57": Unavailable,  # shut down by an operator
    "58": Unavailable,  # the disk failed under the server
    "XX": Damaged,
}
_CODES: dict[str, type[PerdureError]] = {
    "23502": Invalid,  # not null
    "23503": Conflict,  # foreign key
    "23505": Conflict,  # unique
    "23514": Invalid,  # check
    "25006": Denied,  # read-only transaction
    "3D000": Unavailable,  # no such database
    "55P03": Unavailable,  # lock timeout
    "42501": Denied,
}
_DENIED_WORDS = ("password", "authentication", "role", "pg_hba")
"""Words in the message of the server: while connecting, the driver provides no code."""


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Translate errors of the driver."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise (translate(error, location) or error) from error


@contextmanager
def translated_from_core(location: str) -> Iterator[None]:
    """Translate errors of SQLAlchemy and of the driver."""
    import psycopg
    from sqlalchemy.exc import DBAPIError

    with translated(location):
        try:
            yield
        except DBAPIError as error:
            if isinstance(error.orig, psycopg.Error):
                raise (translate(error.orig, location) or error) from error
            raise


def unknown_outcome(location: str) -> Unavailable:
    """Return the error for a connection that broke during a commit."""
    return Unavailable(
        f"The connection to {location} broke during a commit. It is unknown whether the change was stored."
    )


def translate(error: "psycopg.Error", location: str) -> PerdureError | None:
    """Return the translated error; None for a mistake in the SQL of Perdure, which is raised unchanged."""
    from psycopg import DataError, InterfaceError, OperationalError

    state = error.sqlstate or ""
    reason = (str(error).strip() or "no reason given").splitlines()[0].rstrip(".?! ")
    kind = _CODES.get(state) or _CLASSES.get(state[:2])
    if kind is not None:
        return kind(f"The database at {location} refused: {reason}.")
    if not state and isinstance(error, DataError):
        return Invalid(f"The database at {location} cannot store this: {reason}.")
    if not state and isinstance(error, OperationalError | InterfaceError):
        if any(word in reason for word in _DENIED_WORDS):
            return Denied(f"The database at {location} denied the connection: {reason}.")
        return Unavailable(f"The database at {location} cannot be used now: {reason}.")
    return None
