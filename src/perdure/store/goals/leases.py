"""Who owns a goal, and whether that one still lives; the part that all stores share, and the one for SQL."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perdure.errors import Conflict
from perdure.kernel.ports import Worker
from perdure.store.database import Database
from perdure.store.goals.append import ENDED, ended, missing
from perdure.store.goals.rows import first, run

if TYPE_CHECKING:
    from perdure.store.transaction import Transaction

IsDead = Callable[[str], bool]
"""Knows of a worker on the same home and boot that it is dead, however long its lease still is."""

_FORGOTTEN_AFTER_US = 24 * 3600 * 1_000_000
_OWNER = (
    "SELECT goals.epoch, status, goals.worker, host, home_id, boot_id, deadline"
    " FROM goals LEFT JOIN leases ON leases.worker = goals.worker WHERE goals.id = ? AND deleted_at IS NULL"
)
_CLAIM = (
    "UPDATE goals SET epoch = epoch + 1, worker = ? WHERE id = ? AND epoch = ?"
    " AND deleted_at IS NULL AND status IN ('open', 'waiting') RETURNING epoch"
)
_RENEW = (
    "INSERT INTO leases (worker, host, home_id, boot_id, deadline) VALUES (?, ?, ?, ?, ?) ON CONFLICT (worker)"
    " DO UPDATE SET host = excluded.host, home_id = excluded.home_id, boot_id = excluded.boot_id,"
    " deadline = excluded.deadline"
)


@dataclass(frozen=True, slots=True)
class Lease:
    """A worker that said that it lives until a moment, on the clock of whoever keeps the leases."""

    worker: Worker
    deadline_us: int

    def is_live(self, now_us: int, claimant: Worker, is_dead: IsDead) -> bool:
        """Tell whether a claimant has to leave the worker's goals alone."""
        owner = self.worker
        if self.deadline_us <= now_us:
            return False
        is_beside = (owner.home_id, owner.boot_id) == (claimant.home_id, claimant.boot_id)
        return not (is_beside and is_dead(owner.id))


def nobody_is_dead(_worker_id: str) -> bool:
    """Know nothing: then the deadline decides."""
    return False


def owned(goal_id: str, owner: Worker) -> Conflict:
    """Say that another worker has a goal."""
    return Conflict(f"{goal_id} is being worked on by {owner.id} on {owner.host}.")


class SqlLeases(ABC):
    """The leases in a SQL database; which clock decides, its kind knows. See Leases."""

    def __init__(self, database: Database, *, is_dead: IsDead = nobody_is_dead) -> None:
        self._database = database
        self._is_dead = is_dead

    async def renew(self, worker: Worker, ttl_s: float) -> None:
        """See Leases.renew. Workers that were not heard of for a day are forgotten: unknown is dead."""
        await self._database.write(lambda tx: self._renew(tx, worker, round(ttl_s * 1_000_000)))

    async def claim(self, goal_id: str, worker: Worker) -> int:
        """See Leases.claim."""
        return await self._database.write(lambda tx: self._claim(tx, goal_id, worker))

    async def release(self, goal_id: str, worker: Worker, epoch: int) -> None:
        """See Leases.release."""
        statement = "UPDATE goals SET worker = NULL WHERE id = ? AND worker = ? AND epoch = ?"

        def give_back(tx: "Transaction") -> None:
            run(tx, statement, goal_id, worker.id, epoch)

        await self._database.write(give_back)

    @abstractmethod
    def _now_us(self, tx: "Transaction") -> int:
        """Read the one clock that deadlines are compared with."""

    @abstractmethod
    def _has_clock_of(self, owner: Worker, claimant: Worker) -> bool:
        """Tell whether the owner's deadline is on the clock that the claimant reads."""

    def _renew(self, tx: "Transaction", worker: Worker, ttl_us: int) -> None:
        now_us = self._now_us(tx)
        run(tx, _RENEW, worker.id, worker.host, worker.home_id, worker.boot_id, now_us + ttl_us)
        run(tx, "DELETE FROM leases WHERE deadline < ?", now_us - _FORGOTTEN_AFTER_US)

    def _claim(self, tx: "Transaction", goal_id: str, worker: Worker) -> int:
        row = first(tx, _OWNER, goal_id)
        if row is None:
            raise missing(goal_id)
        epoch, status, owner_id, host, home_id, boot_id, deadline_us = row
        if status in ENDED:
            raise ended(goal_id)
        if deadline_us is not None and owner_id != worker.id:
            owner = Worker(owner_id, host, home_id, boot_id)
            lease = Lease(owner, deadline_us)
            if self._has_clock_of(owner, worker) and lease.is_live(self._now_us(tx), worker, self._is_dead):
                raise owned(goal_id, owner)
        claimed = first(tx, _CLAIM, worker.id, goal_id, epoch)
        if claimed is None:
            raise Conflict(f"Somebody else has claimed {goal_id} at the same moment.")
        return int(claimed[0])
