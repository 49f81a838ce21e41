"""Connections to PostgreSQL with uniform settings, and SQLAlchemy engines over them."""

import os
import socket
from typing import TYPE_CHECKING, Any, cast

from perdure.errors import Invalid, Unavailable
from perdure.extras import install_command
from perdure.store.database import Connected

if TYPE_CHECKING:
    import psycopg
    import sqlalchemy as sa

_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 5,  # a lost server is detected before the lease expires
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 15_000,
}
LOCK_TIMEOUT_S = 10
APPLICATION_NAME = "perdure"
"""The prefix of `application_name`, by which a restore recognizes connections of Perdure."""
OURS = f"datname = current_database() AND split_part(application_name, '/', 1) = '{APPLICATION_NAME}'"
"""Selects connections of Perdure from `pg_stat_activity`; older versions have only the prefix as name."""
MIGRATION_LOCK = 0x5045524455524531
"""The key of the advisory lock that serializes migrations and restores."""


def connect(url: str, *, autocommit: bool = False, is_reader: bool = False) -> "psycopg.Connection[Any]":
    """Open a connection whose commits are durable when they return.

    Raises: Unavailable when the driver is not installed; Invalid when the URL cannot be read; driver errors.
    """
    require_driver()
    import psycopg

    options = parse_url(url)
    for name, value in _TIMEOUTS.items():
        options.setdefault(name, value)
    options["application_name"] = f"{APPLICATION_NAME}/{os.getpid()}@{socket.gethostname()}"
    connection = psycopg.connect(**options, autocommit=True)
    level = connection.execute("SHOW synchronous_commit").fetchone()
    stays = level[0] if level and level[0] != "off" else "on"  # set here, so that it cannot change meanwhile
    connection.execute(f"SET synchronous_commit = {stays}".encode())
    connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'".encode())
    if is_reader:
        connection.execute("SET default_transaction_read_only = on")
        connection.execute("SET default_transaction_isolation = 'repeatable read'")
    connection.autocommit = autocommit
    return connection


def parse_url(url: str) -> dict[str, Any]:
    """Parse a URL as libpq does. Messages do not quote invalid parts, which may be pieces of a password.

    Raises: Invalid
    """
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        parts = {"host": "@"}
    misread = [name for name in ("host", "port", "dbname") if "@" in str(parts.get(name, ""))]
    if misread or not str(parts.get("port", "0")).replace(",", "").isdecimal():
        raise Invalid(
            "The PostgreSQL URL cannot be read. It should look like postgresql://USER:PASSWORD@HOST/NAME, with special"
            " characters of the password written as %XX (@ is %40, / is %2F)."
        ) from None
    return parts


def require_driver() -> None:
    """Check that psycopg can be imported.

    Raises: Unavailable
    """
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise Unavailable(
            f"PostgreSQL needs the package psycopg, which is not installed. Run: {install_command('postgres')}"
        ) from error


def connected_to(connection: "psycopg.Connection[Any]") -> list[Connected]:
    """Return the other processes of Perdure that are connected to the same database."""
    query = f"SELECT DISTINCT application_name, host(client_addr) FROM pg_stat_activity WHERE {OURS}"  # noqa: S608
    found = {_connected(name, address) for name, address in connection.execute(query.encode()).fetchall()}
    return sorted(found - {Connected(socket.gethostname(), os.getpid())}, key=str)


def _connected(name: str, address: str | None) -> Connected:
    """Return the process of a connection from its `application_name`."""
    pid, _, host = name.partition("/")[2].partition("@")
    return Connected(host, int(pid)) if pid.isdecimal() else Connected(address or socket.gethostname())


def raw(core: "sa.Connection") -> "psycopg.Connection[Any]":
    """Return the driver's connection under one of SQLAlchemy's."""
    return cast("psycopg.Connection[Any]", core.connection.driver_connection)


def engine_over(url: str, *, size: int, is_reader: bool = False) -> "sa.Engine":
    """Return an engine over a pool of such connections; broken ones are replaced before their use."""
    import sqlalchemy as sa

    return sa.create_engine(
        "postgresql+psycopg://",
        creator=lambda: connect(url, is_reader=is_reader),
        pool_size=size,
        max_overflow=0,
        pool_pre_ping=True,
    )
