"""Who owns a goal, and whether that one still lives; the part that all stores share, and the one for SQL."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from perdure import failpoints
from perdure.kernel.ports import FINAL, Ended, Owned, OwnerSilent, Status, Worker
from perdure.store.goals.append import missing, not_failed
from perdure.store.goals.heartbeats import Lease
from perdure.store.raw import RawDatabase, RawTransaction

IsDead = Callable[[str], bool]
"""Knows of a worker on the same home and boot that it is dead, however long its lease still is."""
LetGo = Callable[[str], None]
"""Is told of a goal that is given back."""

_LEASE = "leases.worker, host, home_id, boot_id, deadline, ttl_us, beat"
_OWNER = (
    f"SELECT goals.epoch, status, goals.worker, {_LEASE}"  # noqa: S608
    " FROM goals LEFT JOIN leases ON leases.worker = goals.worker WHERE goals.id = ? AND deleted_at IS NULL"
)
LEASES = f"SELECT {_LEASE} FROM leases"  # noqa: S608
_CLAIM = (
    "UPDATE goals SET epoch = epoch + ?, worker = ?, queue = coalesce(?, queue),"
    " deaths = deaths + CASE WHEN worker <> ? THEN 1 ELSE 0 END"
    " WHERE id = ? AND epoch = ? AND status = ? AND deleted_at IS NULL RETURNING epoch"
)
_RENEW = (
    "INSERT INTO leases (worker, host, home_id, boot_id, deadline, ttl_us) VALUES (?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (worker) DO UPDATE SET host = excluded.host, home_id = excluded.home_id, boot_id = excluded.boot_id,"
    " deadline = excluded.deadline, ttl_us = excluded.ttl_us, beat = leases.beat + 1"
)


def lease_of(row: Any) -> Lease:
    """Read a row of LEASES."""
    return Lease(Worker(*row[:4]), *row[4:7])


def is_known_dead(owner: Worker, observer: Worker, is_dead: IsDead) -> bool:
    """Tell whether an observer beside a worker knows that it is dead, whatever its lease says."""
    is_beside = (owner.home_id, owner.boot_id) == (observer.home_id, observer.boot_id)
    return is_beside and is_dead(owner.id)


def require_claimable(goal_id: str, status: Status, *, reopen: bool) -> None:
    """See Leases.claim.

    Raises: Ended; Conflict when the goal is to be reopened and has not failed.
    """
    if reopen and status != "failed":
        raise not_failed(goal_id, status)
    if not reopen and status in FINAL:
        raise Ended(goal_id)


def epoch_step() -> int:
    """Return by how much a claim raises the epoch: a random number, so that no epoch is ever assigned twice.

    A database that goes back to an earlier state (a restore, a failover to a replica that lags) does not know the
    epochs that were assigned since, and none of our code runs at that moment. With steps of 1 the next claim would
    assign the epoch of a worker that still lives. With random steps of up to 2^40 it does so with a probability of
    2^-40, and the column, which has 63 bits, has room for at least 8 million claims of one goal.
    """
    return secrets.randbelow(2**40) + 1


def nobody_is_dead(_worker_id: str) -> bool:
    """Know nothing: then the lease decides."""
    return False


def nobody_asks(_goal_id: str) -> None:
    """Tell nobody that a goal is given back."""


def owned(goal_id: str, owner: Worker) -> Owned:
    """Say that another worker has a goal."""
    return Owned(f"{goal_id} is being worked on by {owner.id} on {owner.host}.")


class SqlLeases(ABC):
    """The leases in a SQL database; what tells that a worker is dead, its kind knows. See Leases."""

    def __init__(
        self,
        database: RawDatabase,
        *,
        boottime_s: Callable[[], float],
        is_dead: IsDead = nobody_is_dead,
        let_go: LetGo = nobody_asks,
    ) -> None:
        self._database = database
        self._boottime_s = boottime_s
        self._is_dead = is_dead
        self._let_go = let_go

    async def renew(self, worker: Worker, ttl_s: float) -> None:
        """See Leases.renew."""
        await self._database.write_raw(lambda raw: self._renew(raw, worker, round(ttl_s * 1_000_000)), flush=False)
        failpoints.hit("store.renew.after")

    async def retire(self, worker: Worker) -> None:
        """See Leases.retire."""
        await self._database.write_raw(lambda raw: _retire(raw, worker.id), flush=False)
        failpoints.hit("store.retire.after")

    async def claim(self, goal_id: str, worker: Worker, queue: str | None = None, *, reopen: bool = False) -> int:
        """See Leases.claim."""
        epoch = await self._database.write_raw(lambda raw: self._claim(raw, goal_id, worker, queue, reopen=reopen))
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
    def _left_s(self, lease: Lease, now_us: int, observer: Worker, asked_s: float) -> float | None:
        """Tell whether a worker is dead: 0 when that is certain, None when it lives as far as anybody can tell.

        Anything else is for how many seconds the observer has to see no sign of life until it is certain. The lease was
        read after `asked_s`, on the observer's own clock.
        """

    @abstractmethod
    def _forget(self, raw: RawTransaction, now_us: int) -> None:
        """Remove leases of workers that were not heard of for long: unknown is dead."""

    def _renew(self, raw: RawTransaction, worker: Worker, ttl_us: int) -> None:
        now_us = self._now_us(raw)
        raw.execute(_RENEW, worker.id, worker.host, worker.home_id, worker.boot_id, now_us + ttl_us, ttl_us)
        self._forget(raw, now_us)
        failpoints.hit("store.renew.before")

    def _claim(self, raw: RawTransaction, goal_id: str, worker: Worker, queue: str | None, *, reopen: bool) -> int:
        asked_s = self._boottime_s()
        row = raw.first(_OWNER, goal_id)
        if row is None:
            raise missing(goal_id)
        epoch, status, owner_id, *lease = row
        require_claimable(goal_id, status, reopen=reopen)
        if lease[0] is not None and owner_id != worker.id:
            self._require_dead(raw, goal_id, lease_of(lease), worker, asked_s)
        claimed = raw.first(_CLAIM, epoch_step(), worker.id, queue, worker.id, goal_id, epoch, status)
        if claimed is None:
            raise Owned(f"Somebody else has claimed {goal_id} at the same moment.")
        failpoints.hit("store.claim.before")
        return int(claimed[0])

    def _require_dead(self, raw: RawTransaction, goal_id: str, lease: Lease, claimant: Worker, asked_s: float) -> None:
        left_s = self._left_s(lease, self._now_us(raw), claimant, asked_s)
        if left_s is None:
            raise owned(goal_id, lease.worker)
        if left_s > 0:
            raise OwnerSilent(goal_id, lease.worker, left_s)

    def _living(self, raw: RawTransaction, worker_ids: Collection[str], observer: Worker) -> frozenset[str]:
        asked_s = self._boottime_s()
        places = ", ".join("?" * len(worker_ids))
        rows = raw.execute(f"{LEASES} WHERE worker IN ({places})", *worker_ids).fetchall()
        now_us = self._now_us(raw)
        leases = [lease_of(row) for row in rows]
        return frozenset(lease.worker.id for lease in leases if self._left_s(lease, now_us, observer, asked_s) is None)


def _release(raw: RawTransaction, goal_id: str, worker_id: str, epoch: int) -> None:
    statement = "UPDATE goals SET worker = NULL WHERE id = ? AND worker = ? AND epoch = ?"
    raw.execute(statement, goal_id, worker_id, epoch)
    failpoints.hit("store.release.before")


def _retire(raw: RawTransaction, worker_id: str) -> None:
    raw.execute("DELETE FROM leases WHERE worker = ?", worker_id)
    failpoints.hit("store.retire.before")
