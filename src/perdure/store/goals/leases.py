"""Who owns a goal, and whether that one still lives; the part that all stores share, and the one for SQL."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass

from perdure import failpoints
from perdure.kernel.ports import Owned, Runner, Worker
from perdure.store.goals.append import ENDED, ended, missing
from perdure.store.raw import RawDatabase, RawTransaction

IsDead = Callable[[str], bool]
"""Knows of a worker on the same home and boot that it is dead, however long its lease still is."""
LetGo = Callable[[str], None]
"""Is told of a goal that is given back."""

_FORGOTTEN_AFTER_US = 24 * 3600 * 1_000_000
_OWNER = (
    "SELECT goals.epoch, status, goals.worker, host, home_id, boot_id, deadline"
    " FROM goals LEFT JOIN leases ON leases.worker = goals.worker WHERE goals.id = ? AND deleted_at IS NULL"
)
_CLAIM = (
    "UPDATE goals SET epoch = epoch + 1, worker = ?, runner = coalesce(?, runner) WHERE id = ? AND epoch = ?"
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


def nobody_asks(_goal_id: str) -> None:
    """Tell nobody that a goal is given back."""


def owned(goal_id: str, owner: Worker) -> Owned:
    """Say that another worker has a goal."""
    return Owned(f"{goal_id} is being worked on by {owner.id} on {owner.host}.")


class SqlLeases(ABC):
    """The leases in a SQL database; which clock decides, its kind knows. See Leases."""

    def __init__(self, database: RawDatabase, *, is_dead: IsDead = nobody_is_dead, let_go: LetGo = nobody_asks) -> None:
        self._database = database
        self._is_dead = is_dead
        self._let_go = let_go

    async def renew(self, worker: Worker, ttl_s: float) -> None:
        """See Leases.renew. Workers that were not heard of for a day are forgotten: unknown is dead."""
        await self._database.write_raw(lambda raw: self._renew(raw, worker, round(ttl_s * 1_000_000)), flush=False)
        failpoints.hit("store.renew.after")

    async def claim(self, goal_id: str, worker: Worker, runner: Runner | None = None) -> int:
        """See Leases.claim."""
        epoch = await self._database.write_raw(lambda raw: self._claim(raw, goal_id, worker, runner))
        failpoints.hit("store.claim.after")
        return epoch

    async def release(self, goal_id: str, worker: Worker, epoch: int) -> None:
        """See Leases.release."""
        self._let_go(goal_id)
        await self._database.write_raw(lambda raw: _release(raw, goal_id, worker.id, epoch))
        failpoints.hit("store.release.after")

    async def living(self, worker_ids: Collection[str], observer: Worker) -> frozenset[str]:
        """See Leases.living."""
        if not worker_ids:
            return frozenset()
        return await self._database.read_raw(lambda raw: self._living(raw, worker_ids, observer))

    @abstractmethod
    def _now_us(self, raw: RawTransaction) -> int:
        """Read the one clock that deadlines are compared with."""

    @abstractmethod
    def _has_clock_of(self, owner: Worker, claimant: Worker) -> bool:
        """Tell whether the owner's deadline is on the clock that the claimant reads."""

    def _renew(self, raw: RawTransaction, worker: Worker, ttl_us: int) -> None:
        now_us = self._now_us(raw)
        raw.execute(_RENEW, worker.id, worker.host, worker.home_id, worker.boot_id, now_us + ttl_us)
        raw.execute("DELETE FROM leases WHERE deadline < ?", now_us - _FORGOTTEN_AFTER_US)
        failpoints.hit("store.renew.before")

    def _claim(self, raw: RawTransaction, goal_id: str, worker: Worker, runner: Runner | None) -> int:
        row = raw.first(_OWNER, goal_id)
        if row is None:
            raise missing(goal_id)
        epoch, status, owner_id, host, home_id, boot_id, deadline_us = row
        if status in ENDED:
            raise ended(goal_id)
        if deadline_us is not None and owner_id != worker.id:
            lease = Lease(Worker(owner_id, host, home_id, boot_id), deadline_us)
            if self._is_live(lease, self._now_us(raw), worker):
                raise owned(goal_id, lease.worker)
        claimed = raw.first(_CLAIM, worker.id, runner, goal_id, epoch)
        if claimed is None:
            raise Owned(f"Somebody else has claimed {goal_id} at the same moment.")
        failpoints.hit("store.claim.before")
        return int(claimed[0])

    def _living(self, raw: RawTransaction, worker_ids: Collection[str], observer: Worker) -> frozenset[str]:
        places = ", ".join("?" * len(worker_ids))
        query = f"SELECT worker, host, home_id, boot_id, deadline FROM leases WHERE worker IN ({places})"  # noqa: S608
        leases = [Lease(Worker(*row[:4]), row[4]) for row in raw.execute(query, *worker_ids).fetchall()]
        now_us = self._now_us(raw)
        return frozenset(lease.worker.id for lease in leases if self._is_live(lease, now_us, observer))

    def _is_live(self, lease: Lease, now_us: int, observer: Worker) -> bool:
        return self._has_clock_of(lease.worker, observer) and lease.is_live(now_us, observer, self._is_dead)


def _release(raw: RawTransaction, goal_id: str, worker_id: str, epoch: int) -> None:
    statement = "UPDATE goals SET worker = NULL WHERE id = ? AND worker = ? AND epoch = ?"
    raw.execute(statement, goal_id, worker_id, epoch)
    failpoints.hit("store.release.before")
