"""The histories and leases of goals in memory, for ephemeral runs and tests."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import orjson
from uuid_utils import uuid7

from perdure.kernel.events import size_of
from perdure.kernel.history.deletion import has_fork, not_finished
from perdure.kernel.ports import (
    ALL_GOALS,
    NOTHING,
    Admit,
    Appended,
    ChangedGoals,
    ChangeListener,
    ClaimedGoal,
    Ended,
    Event,
    ForkedFrom,
    GoalFilter,
    InboxRow,
    Posted,
    Summary,
    Worker,
)
from perdure.statuses import Status
from perdure.store.goals.append import (
    Append,
    json_text,
    missing,
    no_such_event,
    replaced,
    require_key,
    require_same_post,
    the_one,
)
from perdure.store.goals.heartbeats import Lease
from perdure.store.goals.leases import IsDead, assume_alive, epoch_step, is_known_dead, owned, require_claimable


@dataclass(slots=True)
class _Goal:
    """A goal with its events, keys and inbox: the rows of a database."""

    summary: Summary
    events: list[Event] = field(default_factory=list)
    keys: dict[str, Event] = field(default_factory=dict)
    inbox: dict[str, InboxRow] = field(default_factory=dict)
    epoch: int = 1
    is_deleted: bool = False
    changed_no: int = 0
    """The number of the newest append of events, over all goals."""

    @property
    def has_ended(self) -> bool:
        return self.summary.is_final

    def is_of(self, status: Status, queue: str) -> bool:
        return (self.summary.status, self.summary.queue) == (status, queue) and not self.is_deleted

    def own(self, worker: Worker, queue: str | None = None) -> None:
        """Assign a new owner and epoch."""
        was = self.summary
        self.epoch += epoch_step()
        deaths = was.deaths + (was.worker not in (None, worker.id))
        self.summary = replace(was, worker=worker.id, queue=queue or was.queue, deaths=deaths)

    def accepts(self, append: Append) -> bool:
        now = (self.summary.last_seq, self.events[-1].hash, self.epoch)
        is_as_expected = now == (append.expected_seq, append.expected_hash, append.epoch)
        is_admitted = append.is_in_order and append.accepts(self.summary.status)
        return is_as_expected and is_admitted and append.taken <= self.inbox.keys()

    def take(self, append: Append) -> Appended:
        is_released = append.release and (append.ends or len(self.inbox) == len(append.taken))
        worker = None if is_released else self.summary.worker
        was = self.summary
        self.summary = replace(
            append.summary, last_seq=append.seq, worker=worker, start_key=was.start_key, queue=was.queue
        )
        self.events += append.events
        if append.key is not None and append.events:
            self.keys[append.key] = append.events[-1]
        for row_id in append.taken:
            del self.inbox[row_id]
        return Appended(append.seq, inbox_waiting=bool(self.inbox))


class _Goals(dict[str, _Goal]):
    """The goals by id, including deleted ones, and their histories across forks."""

    def existing(self, goal_id: str) -> _Goal:
        """Return a goal that was not deleted.

        Raises: NotFound
        """
        goal = self.get(goal_id)
        if goal is None or goal.is_deleted:
            raise missing(goal_id)
        return goal

    def history(self, goal: _Goal) -> list[Event]:
        """Return the events of a goal; those of a fork begin with those of its origins."""
        parts = [goal.events]
        left_at = goal.summary.last_seq
        while (origin := goal.summary.forked_from) is not None:
            goal = self.existing(origin.goal_id)
            left_at = min(left_at, origin.seq)
            parts.append([event for event in goal.events if event.seq <= left_at])
        return [event for part in reversed(parts) for event in part]

    def require_origin(self, origin: ForkedFrom | None, expected_hash: bytes) -> None:
        """Check that the event exists after which a fork continues.

        Raises: NotFound; Conflict.
        """
        if origin is None:
            return
        found = self.get(origin.goal_id)
        if found is None or found.is_deleted or found.summary.last_seq < origin.seq:
            raise no_such_event(origin)
        at = [event for event in self.history(found) if event.seq == origin.seq]
        if not at or at[0].hash != expected_hash:
            raise replaced(origin.goal_id, origin.seq)


class InMemoryStateStore:
    """The goals, and the leases on them, in memory. See GoalStore and Leases.

    No method awaits, so each is one transaction.
    """

    def __init__(
        self,
        *,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        boottime_s: Callable[[], float] = time.monotonic,
        is_dead: IsDead = assume_alive,
    ) -> None:
        self._now_us = now_us
        self._boottime_s = boottime_s
        self._is_dead = is_dead
        self._goals = _Goals()
        self._start_keys: dict[str, str] = {}
        self._leases: dict[str, Lease] = {}
        self._appends = 0
        self._listeners: list[ChangeListener] = []

    async def append_event(  # noqa: PLR0913 (see the port)
        self,
        goal_id: str,
        events: Sequence[Event],
        *,
        expected_seq: int,
        expected_hash: bytes,
        epoch: int,
        summary: Summary,
        key: str | None = None,
        worker: str | None = None,
        taken: Sequence[str] = (),
        release: bool = False,
        takes_key_of: str | None = None,
    ) -> Appended:
        """See StateStore.append_event."""
        expected = (expected_seq, expected_hash, epoch)
        append = Append(
            goal_id, tuple(events), *expected, summary, key, worker, frozenset(taken), release, takes_key_of
        )
        append.require_sense()
        goal = self._goals.get(goal_id)
        if goal is not None and (answer := _first_answer(goal, append)) is not None:
            return answer
        if append.makes_goal:
            done = self._create(append)
        else:
            goal = self._goals.existing(goal_id)
            if not goal.accepts(append):
                raise append.refusal(goal.summary.status, goal.summary.last_seq, goal.events[-1].hash, goal.epoch)
            done = goal.take(append)
            self._post_end(append)
        self._note_change(append)
        return done

    def _note_change(self, append: Append) -> None:
        if append.events:
            self._appends += 1
            self._goals[append.goal_id].changed_no = self._appends
            self._notify(append.goal_id, append.events)

    def _notify(self, goal_id: str, events: Sequence[Event]) -> None:
        for listener in tuple(self._listeners):
            listener(goal_id, events)

    def _post_end(self, append: Append) -> None:
        """Post the end of a child to its parent, unless the parent has ended."""
        parent = self._goals.get(append.summary.parent.goal_id) if append.summary.parent is not None else None
        if append.ends_child and parent is not None and not (parent.is_deleted or parent.has_ended):
            row = append.end_of_child(str(uuid7()))
            parent.inbox[row.id] = row

    async def load(
        self, goal_id: str, *, after: int = 0, upto: int | None = None, max_bytes: int | None = None
    ) -> list[Event]:
        """See StateStore.load."""
        events = self._events(goal_id, after, upto)
        if max_bytes is None:
            return events
        sizes = accumulate(size_of(len(event.payload.encode())) for event in events)
        return events[: max(1, sum(size <= max_bytes for size in sizes))]

    def _events(self, goal_id: str, after: int, upto: int | None = None) -> list[Event]:
        goal = self._goals.existing(goal_id)
        until = goal.summary.last_seq if upto is None else upto
        return [event for event in self._goals.history(goal) if after < event.seq <= until]

    async def list_goals(
        self, *, where: GoalFilter = ALL_GOALS, limit: int = 50, before: str | None = None
    ) -> list[Summary]:
        """See StateStore.list_goals."""
        ids = list(self._goals)
        if before is not None:
            ids = ids[: ids.index(before)] if before in self._goals else []
        newest = (self._goals[goal_id] for goal_id in reversed(ids))
        found = (goal.summary for goal in newest if not goal.is_deleted)
        return [goal for goal in found if _matches(goal, where)][:limit]

    async def due(
        self, now_us: int, *, queue: str | None = None, limit: int = 50, after: Summary | None = None
    ) -> list[Summary]:
        """See GoalDirectory.due."""
        there = [(n, goal.summary) for n, goal in enumerate(self._goals.values()) if not goal.is_deleted]
        found = [(n, goal) for n, goal in there if queue in (None, goal.queue)]
        due = [(goal.due_us, n, goal) for n, goal in found if goal.due_us is not None and goal.due_us <= now_us]
        last = (-1, -1) if after is None else (after.due_us or 0, list(self._goals).index(after.goal_id))
        return [goal for *place, goal in sorted(due, key=lambda each: each[:2]) if tuple(place) > last][:limit]

    async def conversations(
        self, bot: str | None, *, limit: int = 50, after: tuple[int, str] | None = None
    ) -> list[Summary]:
        """See GoalDirectory.conversations."""
        numbers = {goal_id: n for n, goal_id in enumerate(self._goals)}
        there = [goal.summary for goal in self._goals.values() if not goal.is_deleted and goal.summary.bot == bot]
        found = [((goal.overview.last_us, numbers[goal.goal_id]), goal) for goal in there if goal.overview is not None]
        before = None if after is None else (after[0], numbers.get(after[1], -1))
        listed = [(place, goal) for place, goal in found if before is None or place < before]
        return [goal for _, goal in sorted(listed, key=lambda each: each[0], reverse=True)][:limit]

    async def count_queued(self, *, queue: str) -> int:
        """See GoalDirectory.count_queued."""
        return sum(goal.is_of("open", queue) and goal.summary.worker is None for goal in self._goals.values())

    async def find(self, prefix: str) -> Summary:
        """See StateStore.find."""
        begun = [goal for name, goal in self._goals.items() if name.startswith(prefix)]
        found = [goal.summary for goal in reversed(begun) if not goal.is_deleted]
        deleted = [goal.summary.goal_id for goal in begun if goal.is_deleted]
        return the_one(prefix, sorted(found, key=lambda summary: len(summary.goal_id)), deleted)

    async def started(self, key: str) -> Summary | None:
        """See GoalDirectory.started."""
        require_key(key)
        goal = self._goals.get(self._start_keys.get(key, ""))
        return None if goal is None else goal.summary

    async def delete(self, goal_id: str, *, even_unfinished: bool = False) -> None:
        """See StateStore.delete."""
        goal = self._goals.existing(goal_id)
        if not (goal.has_ended or even_unfinished):
            raise not_finished(goal_id)
        for name, other in self._goals.items():
            origin = other.summary.forked_from
            if not other.is_deleted and origin is not None and origin.goal_id == goal_id:
                raise has_fork(goal_id, name)
        self._start_keys.pop(goal.summary.start_key or "", None)
        rest = replace(goal.summary, text="", bot=None, workdir=None, flow=None, detail=None, tags=(), overview=None)
        if not goal.has_ended:
            rest = replace(rest, status="cancelled", waiting_for=None, worker=None, due_us=None)
        self._goals[goal_id] = _Goal(rest, is_deleted=True)
        self._notify(goal_id, ())

    async def post(  # noqa: PLR0913 (what is posted, its key, its check and its moment)
        self,
        goal_id: str,
        kind: str,
        payload: dict[str, Any],
        *,
        key: str,
        after: int = 0,
        admit: Admit | None = None,
        created_us: int | None = None,
    ) -> bool:
        """See Inbox.post."""
        require_key(key)
        at_us = self._now_us() if created_us is None else created_us
        row = InboxRow(str(uuid7()), kind, orjson.loads(json_text(payload)), key, at_us)
        goal = self._goals.existing(goal_id)
        for known in _posts(goal, key):
            require_same_post(goal_id, row, known.kind, known.payload)
            return False
        if admit is not None:
            admit(self._events(goal_id, after), list(goal.inbox.values()))
        if goal.has_ended:
            raise Ended(goal_id)
        goal.inbox[row.id] = row
        return True

    async def inbox(self, goal_id: str) -> list[InboxRow]:
        """See Inbox.inbox."""
        return list(self._goals[goal_id].inbox.values()) if goal_id in self._goals else []

    async def posted(self, worker_id: str) -> list[str]:
        """See Inbox.posted."""
        return [name for name, goal in self._goals.items() if goal.summary.worker == worker_id and goal.inbox]

    async def posted_as(self, goal_id: str, key: str) -> Posted | None:
        """See Inbox.posted_as."""
        require_key(key)
        goal = self._goals.get(goal_id)
        if goal is None or goal.is_deleted:
            return None
        return next(iter(_posts(goal, key)), None)

    async def changes(self, after: Any | None) -> ChangedGoals:
        """See Changes.changes."""
        if after is None:
            return ChangedGoals(self._appends)
        changed = {name: goal for name, goal in self._goals.items() if goal.changed_no > after and not goal.is_deleted}
        return ChangedGoals(self._appends, {name: goal.summary.last_seq for name, goal in changed.items()})

    def watch(self, listener: ChangeListener) -> Callable[[], None]:
        """See Changes.watch."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    async def renew(self, worker: Worker, ttl_s: float) -> None:
        """See Leases.renew."""
        self._leases[worker.id] = Lease(worker, self._boottime_us() + round(ttl_s * 1_000_000))

    async def retire(self, worker: Worker) -> None:
        """See Leases.retire."""
        self._leases.pop(worker.id, None)

    async def claim(self, goal_id: str, worker: Worker, queue: str | None = None, *, reopen: bool = False) -> int:
        """See Leases.claim."""
        goal = self._goals.existing(goal_id)
        is_child = goal.summary.parent is not None
        require_claimable(goal_id, goal.summary.status, is_child=is_child, reopen=reopen)
        if not self._is_free(goal, worker):
            raise owned(goal_id, self._leases[goal.summary.worker or ""].worker)
        goal.own(worker, queue)
        return goal.epoch

    async def claim_next(
        self, queues: Collection[str], worker: Worker, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> ClaimedGoal | None:
        """See Leases.claim_next."""
        goal = self._next(queues, worker, skip, after)
        if goal is None:
            return None
        former = goal.summary.worker
        goal.own(worker)
        return ClaimedGoal(goal.summary, goal.epoch, former)

    async def has_next(
        self, queues: Collection[str], worker: Worker, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> bool:
        """See Leases.has_next."""
        return self._next(queues, worker, skip, after) is not None

    def _next(
        self, queues: Collection[str], worker: Worker, skip: Mapping[str, int], after: str | None
    ) -> _Goal | None:
        ids = list(self._goals)
        place = -1 if after is None else ids.index(after)
        there = [(n, goal) for n, goal in enumerate(self._goals.values()) if goal.summary.queue in queues]
        free = [(n, goal) for n, goal in there if goal.summary.worker != worker.id and self._is_free(goal, worker)]
        free = [(n, goal) for n, goal in free if skip.get(goal.summary.goal_id) != goal.summary.last_seq]
        posted = [goal for _, goal in free if after is None and goal.inbox and goal.summary.status == "waiting"]
        unheld = [goal for n, goal in free if n > place and goal.summary.status == "open"]
        return next(iter([*posted, *unheld]), None)

    def _is_free(self, goal: _Goal, worker: Worker) -> bool:
        lease = self._leases.get(goal.summary.worker or "")
        return lease is None or goal.summary.worker == worker.id or not self._is_live(lease, worker)

    async def release(self, goal_id: str, worker: Worker, epoch: int) -> None:
        """See Leases.release."""
        goal = self._goals.get(goal_id)
        if goal is not None and (goal.summary.worker, goal.epoch) == (worker.id, epoch):
            goal.summary = replace(goal.summary, worker=None)

    async def living(self, worker_ids: Collection[str], observer: Worker) -> frozenset[str]:
        """See Leases.living."""
        known = [lease for name, lease in self._leases.items() if name in worker_ids]
        return frozenset(lease.worker.id for lease in known if self._is_live(lease, observer))

    def _create(self, append: Append) -> Appended:
        if not append.is_in_order or append.goal_id in self._goals:
            raise append.refusal("open", 0, b"", 0)
        if append.taken:
            raise append.not_in_inbox()
        start_key = append.summary.start_key
        if append.takes_key_of is None and start_key is not None and start_key in self._start_keys:
            raise append.key_was_used()
        self._goals.require_origin(append.summary.forked_from, append.expected_hash)
        if append.takes_key_of is not None:
            self._take_key(append, self._goals.existing(append.takes_key_of))
        self._goals[append.goal_id] = goal = _Goal(replace(append.summary, worker=append.worker))
        if start_key is not None:
            self._start_keys[start_key] = append.goal_id
        return goal.take(append)

    def _take_key(self, append: Append, owner: _Goal) -> None:
        if owner.summary.start_key != append.summary.start_key:
            raise append.key_was_taken()
        owner.summary = replace(owner.summary, start_key=None)

    def _is_live(self, lease: Lease, observer: Worker) -> bool:
        is_over = lease.deadline_us <= self._boottime_us()
        return not (is_over or is_known_dead(lease.worker, observer, self._is_dead))

    def _boottime_us(self) -> int:
        return round(self._boottime_s() * 1_000_000)


def _matches(goal: Summary, where: GoalFilter) -> bool:
    wanted = {name: getattr(where, name) for name in ("queue", "worker", "flow", "start_key", "bot")}
    is_same = all(value in (None, getattr(goal, name)) for name, value in wanted.items())
    is_in_status = where.statuses is None or goal.status in where.statuses
    is_child = where.parent in (None, goal.parent.goal_id if goal.parent else "")
    is_fork = where.forked_from in (None, goal.forked_from.goal_id if goal.forked_from else "")
    has_tag = where.tag is None or where.tag in goal.tags
    is_after = where.created_after_us is None or goal.created_us >= where.created_after_us
    is_before = where.created_before_us is None or goal.created_us < where.created_before_us
    is_old = where.updated_before_us is None or goal.updated_us < where.updated_before_us
    return is_same and is_in_status and is_fork and is_child and has_tag and is_after and is_before and is_old


def _posts(goal: _Goal, key: str) -> list[Posted]:
    """Return what was posted to a goal under a key, from its inbox and from its history."""
    known = [Posted(row.kind, row.payload, None) for row in goal.inbox.values() if row.key == key]
    if (event := goal.keys.get(key)) is not None:
        known.append(Posted(event.type, orjson.loads(event.payload), event.seq))
    return known


def _first_answer(goal: _Goal, append: Append) -> Appended | None:
    """Return the first result of an append that was made before; None for a new one.

    Raises: Conflict
    """
    known = goal.keys.get(append.key or "")
    if append.key is None or known is None:
        return None
    if known.hash != append.hash:
        raise append.other_events()
    return Appended(known.seq, inbox_waiting=bool(goal.inbox))
