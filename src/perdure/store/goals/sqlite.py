"""Goals in SQLite."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from perdure.kernel.ports import Worker
from perdure.store.database import Database
from perdure.store.goals.leases import IsDead, SqlLeases, nobody_is_dead
from perdure.store.goals.sql_state_store import SqlStateStore

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction


class SqliteStateStore(SqlStateStore):
    """The histories of goals in SQLite. See StateStore."""


class SqliteLeases(SqlLeases):
    """The leases in SQLite, on the clock of this machine since it was started. See Leases."""

    def __init__(
        self, database: Database, *, boottime_s: Callable[[], float], is_dead: IsDead = nobody_is_dead
    ) -> None:
        super().__init__(database, is_dead=is_dead)
        self._boottime_s = boottime_s

    def _now_us(self, tx: "Transaction") -> int:  # noqa: ARG002 (SQLite has no clock of its own)
        return round(self._boottime_s() * 1_000_000)

    def _has_clock_of(self, owner: Worker, claimant: Worker) -> bool:
        """A deadline of another boot says nothing; that worker is gone with it."""
        return owner.boot_id == claimant.boot_id
