"""The leases of goals: rules that all stores share, and the implementation in SQL."""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from perdure import failpoints
from perdure.kernel.ports import NOTHING, ClaimedGoal, Ended, Owned, OwnerSilent, Worker
from perdure.statuses import FINAL, Status
from perdure.store.goals.append import can_reopen, missing, not_failed
from perdure.store.goals.heartbeats import Lease
from perdure.store.goals.rows import BY_ID, summary_of
from perdure.store.raw import RawDatabase, RawTransaction, Values

IsDead = Callable[[str], bool]
"""Returns whether a worker with the same home and boot is dead, regardless of its lease."""
OnRelease = Callable[[str], None]
"""Called with the id of a goal whose lease is released."""

_LEASE = "leases.worker, host, home_id, boot_id, deadline, ttl_us, beat"
_OWNER = (
    f"SELECT goals.epoch, status, parent_id IS NOT NULL, goals.worker, {_LEASE}"  # noqa: S608
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


LIKELY = {
    "posted": "status NOT IN ('open', 'done', 'failed', 'cancelled') AND inbox_count > 0 AND deleted_at IS NULL",
    "open": "status NOT IN ('waiting', 'done', 'failed', 'cancelled') AND deleted_at IS NULL",
}
"""The goals that a worker may claim next: waiting goals with posts, before open goals.

Each kind has a partial index, idx_goals_posted and idx_goals_queue. The status is compared by NOT IN, so that no
planner uses idx_goals_status: without statistics both databases preferred that index, and read every open goal.
"""
OWNERS = """
WITH RECURSIVE owners (worker) AS (
    SELECT CAST('' AS TEXT)
    UNION ALL
    SELECT (SELECT goals.worker FROM goals WHERE {likely} AND queue = ? AND goals.worker > owners.worker
            ORDER BY goals.worker LIMIT 1)
    FROM owners WHERE owners.worker IS NOT NULL)
SELECT worker FROM owners WHERE worker > ''"""
"""Finds each owner by one index lookup, regardless of the number of its goals."""
_FIRST = (
    "SELECT goal_no, id, epoch, status, worker FROM goals WHERE {conditions} ORDER BY worker, goal_no LIMIT 1{lock}"
)
"""PostgreSQL uses the order of the index within `worker IS NULL` only if the query also orders by the worker."""
_AFTER = "goal_no > (SELECT goal_no FROM goals WHERE id = ?)"


@dataclass(frozen=True)
class GoalRange:
    """Goals of one kind, queue and owner, in the order of their numbers: one range of an index."""

    likely: str
    queue: str
    owner: str | None

    def first(self, wanted: "ClaimQuery", lock: str = "") -> tuple[str, Values]:
        """Return the query of its first goal."""
        owned_by: tuple[str, Values] = ("worker IS NULL", ()) if self.owner is None else ("worker = ?", (self.owner,))
        parts = [(LIKELY[self.likely], ()), ("queue = ?", (self.queue,)), owned_by, *wanted.conditions()]
        conditions = " AND ".join(condition for condition, _ in parts)
        values = tuple(value for _, given in parts for value in given)
        return _FIRST.format(conditions=conditions, lock=lock), values


@dataclass(frozen=True)
class ClaimQuery:
    """The parameters of `claim_next`."""

    queues: tuple[str, ...]
    worker: Worker
    skip: Mapping[str, int]
    after: str | None
    is_skipped: str
    """The condition that a goal, as `id@seq`, is in a JSON list, as the database writes it."""

    def conditions(self) -> "Iterator[tuple[str, Values]]":
        """Yield the further conditions of a goal to claim, with their values."""
        if self.skip:
            skipped = [f"{goal_id}@{seq}" for goal_id, seq in self.skip.items()]
            yield f"NOT {self.is_skipped}", (orjson.dumps(skipped).decode(),)
        if self.after is not None:
            yield _AFTER, (self.after,)


def lease_of(row: Any) -> Lease:
    """Read a row of LEASES."""
    return Lease(Worker(*row[:4]), *row[4:7])


def is_known_dead(owner: Worker, observer: Worker, is_dead: IsDead) -> bool:
    """Return whether an observer with the same home and boot knows that a worker is dead."""
    is_beside = (owner.home_id, owner.boot_id) == (observer.home_id, observer.boot_id)
    return is_beside and is_dead(owner.id)


def require_claimable(goal_id: str, status: Status, *, is_child: bool, reopen: bool) -> None:
    """See Leases.claim.

    Raises: Ended; Conflict when the goal cannot be reopened.
    """
    if reopen and not can_reopen(status, is_child=is_child):
        raise not_failed(goal_id, status)
    if not reopen and status in FINAL:
        raise Ended(goal_id)


def epoch_step() -> int:
    """Return the increment of the epoch in a claim: a random number, so that no epoch is ever assigned twice.

    A database that goes back to an earlier state (a restore, a failover to a lagging replica) does not know the epochs
    that were assigned since. With increments of 1, the next claim would assign the epoch of a worker that is still
    alive. With random increments of up to 2^40, the probability is 2^-40. The column has 63 bits, enough for at least 8
    million claims of one goal.
    """
    return secrets.randbelow(2**40) + 1


def assume_alive(_worker_id: str) -> bool:
    """Return False, so that the lease decides."""
    return False


def ignore_release(_goal_id: str) -> None:
    """Do nothing when a goal is released."""


def owned(goal_id: str, owner: Worker) -> Owned:
    """Return the error for a goal that another worker owns."""
    return Owned(f"{goal_id} is being worked on by {owner.id} on {owner.host}.")


class SqlLeases(ABC):
    """The leases in a SQL database; subclasses decide whether a worker is dead. See Leases."""

    _is_skipped: str
    """The SQL condition that a goal, as `id@seq`, is in a JSON list; it differs between databases."""
    _lock: str
    """The SQL clause that makes a claimant skip rows that another one has locked."""

    def __init__(
        self,
        database: RawDatabase,
        *,
        boottime_s: Callable[[], float],
        is_dead: IsDead = assume_alive,
        on_release: OnRelease = ignore_release,
    ) -> None:
        self._database = database
        self._boottime_s = boottime_s
        self._is_dead = is_dead
        self._on_release = on_release

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
        self._on_release(goal_id)
        await self._database.write_raw(lambda raw: _release(raw, goal_id, worker.id, epoch))
        failpoints.hit("store.release.after")

    async def living(self, worker_ids: Collection[str], observer: Worker) -> frozenset[str]:
        """See Leases.living."""
        if not worker_ids:
            return frozenset()
        return await self._database.read_raw(lambda raw: self._living(raw, worker_ids, observer))

    async def claim_next(
        self, queues: Collection[str], worker: Worker, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> ClaimedGoal | None:
        """See Leases.claim_next."""
        wanted = ClaimQuery(tuple(queues), worker, skip, after, self._is_skipped)
        claimed = await self._database.write_raw(lambda raw: self._claim_next(raw, wanted))
        if claimed is not None:
            failpoints.hit("store.claim.after")
        return claimed

    async def has_next(
        self, queues: Collection[str], worker: Worker, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> bool:
        """See Leases.has_next."""
        wanted = ClaimQuery(tuple(queues), worker, skip, after, self._is_skipped)
        return bool(await self._database.read_raw(lambda raw: self._ranges(raw, wanted)))

    @abstractmethod
    def _now_us(self, raw: RawTransaction) -> int:
        """Return the time of the clock that deadlines are compared with."""

    @abstractmethod
    def _left_s(self, lease: Lease, now_us: int, observer: Worker, asked_s: float) -> float | None:
        """Return the seconds until a worker is proven dead: 0 if it is, None if it seems alive.

        Any other number is how much longer the observer must see no renewal. The lease was read after `asked_s`, by the
        clock of the observer.
        """

    @abstractmethod
    def _prefer_order(self, raw: RawTransaction) -> None:
        """Make the planner read an index in its order, even without statistics."""

    @abstractmethod
    def _forget(self, raw: RawTransaction, now_us: int) -> None:
        """Delete leases that were not renewed for long; an unknown worker counts as dead."""

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
        epoch, status, is_child, owner_id, *lease = row
        require_claimable(goal_id, status, is_child=bool(is_child), reopen=reopen)
        if lease[0] is not None and owner_id != worker.id:
            self._require_dead(raw, goal_id, lease_of(lease), worker, asked_s)
        claimed = raw.first(_CLAIM, epoch_step(), worker.id, queue, worker.id, goal_id, epoch, status)
        if claimed is None:
            raise Owned(f"Another worker has claimed {goal_id} at the same moment.")
        failpoints.hit("store.claim.before")
        return int(claimed[0])

    def _claim_next(self, raw: RawTransaction, wanted: ClaimQuery) -> ClaimedGoal | None:
        """Claim the first goal of the first range, skipping goals that another claimant has locked."""
        for each in self._ranges(raw, wanted):
            statement, values = each.first(wanted, self._lock)
            if (found := raw.first(statement, *values)) is not None:
                break
        else:
            return None
        _, goal_id, epoch, status, former = found
        worker_id = wanted.worker.id
        claimed = raw.first(_CLAIM, epoch_step(), worker_id, None, worker_id, goal_id, epoch, status)
        goal = raw.first(BY_ID, goal_id)
        if claimed is None or goal is None:
            raise Owned(f"Another worker has claimed {goal_id} at the same moment.")
        failpoints.hit("store.claim.before")
        return ClaimedGoal(summary_of(goal), int(claimed[0]), former)

    def _ranges(self, raw: RawTransaction, wanted: ClaimQuery) -> list[GoalRange]:
        """Return the ranges with a goal to claim, in the order of these goals."""
        self._prefer_order(raw)
        found: list[tuple[int, int, GoalRange]] = []
        for rank, likely in enumerate(LIKELY if wanted.after is None else ("open",)):
            for queue in wanted.queues:
                for owner in (None, *self._claimable_owners(raw, likely, queue, wanted.worker)):
                    each = GoalRange(likely, queue, owner)
                    statement, values = each.first(wanted)
                    if (row := raw.first(statement, *values)) is not None:
                        found.append((rank, row[0], each))
        return [each for _, _, each in sorted(found, key=lambda one: one[:2])]

    def _claimable_owners(self, raw: RawTransaction, likely: str, queue: str, claimant: Worker) -> list[str]:
        """Return the owners of goals that are proven dead."""
        statement = OWNERS.format(likely=LIKELY[likely])
        owners = [row[0] for row in raw.execute(statement, queue).fetchall() if row[0] != claimant.id]
        living = {lease.worker.id for lease, left_s in self._seen(raw, owners, claimant) if left_s != 0}
        return [owner for owner in owners if owner not in living]

    def _require_dead(self, raw: RawTransaction, goal_id: str, lease: Lease, claimant: Worker, asked_s: float) -> None:
        left_s = self._left_s(lease, self._now_us(raw), claimant, asked_s)
        if left_s is None:
            raise owned(goal_id, lease.worker)
        if left_s > 0:
            raise OwnerSilent(goal_id, lease.worker, left_s)

    def _living(self, raw: RawTransaction, worker_ids: Collection[str], observer: Worker) -> frozenset[str]:
        return frozenset(lease.worker.id for lease, left_s in self._seen(raw, worker_ids, observer) if left_s is None)

    def _seen(
        self, raw: RawTransaction, worker_ids: Collection[str], observer: Worker
    ) -> list[tuple[Lease, float | None]]:
        """Return the leases of some workers, each with its `_left_s`."""
        if not worker_ids:
            return []
        asked_s = self._boottime_s()
        places = ", ".join("?" * len(worker_ids))
        rows = raw.execute(f"{LEASES} WHERE worker IN ({places})", *worker_ids).fetchall()
        now_us = self._now_us(raw)
        leases = [lease_of(row) for row in rows]
        return [(lease, self._left_s(lease, now_us, observer, asked_s)) for lease in leases]


def _release(raw: RawTransaction, goal_id: str, worker_id: str, epoch: int) -> None:
    statement = "UPDATE goals SET worker = NULL WHERE id = ? AND worker = ? AND epoch = ?"
    raw.execute(statement, goal_id, worker_id, epoch)
    failpoints.hit("store.release.before")


def _retire(raw: RawTransaction, worker_id: str) -> None:
    raw.execute("DELETE FROM leases WHERE worker = ?", worker_id)
    failpoints.hit("store.retire.before")
