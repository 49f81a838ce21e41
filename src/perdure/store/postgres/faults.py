"""PostgreSQL's errors in our words, in one place."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdure.errors import Conflict, Damaged, Denied, Invalid, PerdureError, Unavailable

if TYPE_CHECKING:
    import psycopg

_CLASSES: dict[str, type[PerdureError]] = {
    "22": Invalid,  # a value that does not fit
    "28": Denied,  # who are you?
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
    "55P03": Unavailable,  # a lock that was waited for too long
    "42501": Denied,
}
_NOT_LET_IN = ("password", "authentication", "role", "pg_hba")
"""While connecting, the driver gives no code, only the server's words."""


@contextmanager
def translated(location: str) -> Iterator[None]:
    """Turn the driver's errors into ours."""
    import psycopg

    try:
        yield
    except psycopg.Error as error:
        raise (translate(error, location) or error) from error


@contextmanager
def translated_from_core(location: str) -> Iterator[None]:
    """Turn SQLAlchemy's errors, and the driver's, into ours."""
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
    """Say that a connection broke while the server may or may not have committed."""
    return Unavailable(
        f"The connection to {location} broke during a commit. Whether the change was stored is not known; look first."
    )


def translate(error: "psycopg.Error", location: str) -> PerdureError | None:
    """Say what happened; None when it is a mistake in our own SQL, which should stay what it is."""
    from psycopg import DataError, InterfaceError, OperationalError

    state = error.sqlstate or ""
    reason = (str(error).strip() or "no reason given").splitlines()[0].rstrip(".?! ")
    kind = _CODES.get(state) or _CLASSES.get(state[:2])
    if kind is not None:
        return kind(f"The database at {location} refused: {reason}.")
    if not state and isinstance(error, DataError):
        return Invalid(f"The database at {location} cannot store this: {reason}.")
    if not state and isinstance(error, OperationalError | InterfaceError):
        if any(word in reason for word in _NOT_LET_IN):
            return Denied(f"The database at {location} does not let us in: {reason}.")
        return Unavailable(f"The database at {location} cannot be used now: {reason}.")
    return None
