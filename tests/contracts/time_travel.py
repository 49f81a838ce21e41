"""A database that goes back in time, as a restore or a failover to a replica that lags makes it: by plain rows."""

from typing import Any

from perdure.store.database import Database
from perdure.store.transaction import Transaction

TABLES = ("goals", "events", "inbox", "leases")
Taken = dict[str, list[dict[str, Any]]]


async def taken_now(database: Database) -> Taken:
    """Copy the rows of goals as they are now."""

    def take(tx: Transaction) -> Taken:
        return {table: [dict(row._mapping) for row in tx.execute(f"SELECT * FROM {table}")] for table in TABLES}

    return await database.read(take)


async def put_back(database: Database, taken: Taken) -> None:
    """Let the rows of goals be what they were, in one transaction; everybody stays connected."""
    await database.write(lambda tx: _put_back(tx, taken))


def _put_back(tx: Transaction, taken: Taken) -> None:
    kept = ("events_are_never_changed", "events_go_with_their_goal")
    is_sqlite = tx.dialect == "sqlite"
    triggers = []
    if is_sqlite:
        query = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'"
        triggers = list(tx.execute(query).scalars())
    for name in kept:
        tx.execute(f"DROP TRIGGER {name}" if is_sqlite else f"ALTER TABLE events DISABLE TRIGGER {name}")
    for table in ("events", "inbox", "goals", "leases"):
        tx.execute(f"DELETE FROM {table}")
    for table in TABLES:
        for row in taken[table]:
            names = ", ".join(row)
            tx.execute(f"INSERT INTO {table} ({names}) VALUES ({', '.join(f':{name}' for name in row)})", row)
    for sql in triggers:
        tx.execute(sql)
    if not is_sqlite:
        tx.execute("ALTER TABLE events ENABLE TRIGGER ALL")
