"""Goals in PostgreSQL."""

from typing import TYPE_CHECKING

from perdure.kernel.ports import Worker
from perdure.store.goals.leases import SqlLeases
from perdure.store.goals.rows import run
from perdure.store.goals.sql_state_store import SqlStateStore

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction


class PostgresStateStore(SqlStateStore):
    """The histories of goals in PostgreSQL. See StateStore."""


class PostgresLeases(SqlLeases):
    """The leases in PostgreSQL, on the server's clock alone. See Leases."""

    def _now_us(self, tx: "Transaction") -> int:
        return int(run(tx, "SELECT CAST(extract(epoch FROM now()) * 1000000 AS BIGINT)").scalar_one())

    def _has_clock_of(self, owner: Worker, claimant: Worker) -> bool:  # noqa: ARG002 (all read the server's)
        return True
