"""The ports of the store, the leases, the clock and the ids. Their docstrings are the specification.

The ports of minds and tools are in `kernel.mind` and `kernel.tool`; `kernel.run_context` combines them.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from perdure.errors import Conflict, KeyTaken
from perdure.kernel.conversation.conversation import Overview
from perdure.kernel.events import Event, ForkedFrom, MindKind, ParentCall
from perdure.kernel.fold import GoalState, WaitingFor
from perdure.kernel.summary import ALL_GOALS, GoalFilter, Summary

__all__ = [
    "ALL_GOALS",
    "Admit",
    "Appended",
    "ChangeListener",
    "ChangedGoals",
    "Changes",
    "ClaimedGoal",
    "Clock",
    "Ended",
    "Event",
    "ForkedFrom",
    "GoalDirectory",
    "GoalFilter",
    "GoalState",
    "GoalStore",
    "IdempotencyKeys",
    "IdempotentCall",
    "Ids",
    "Inbox",
    "InboxRow",
    "Leases",
    "MindKind",
    "Overview",
    "Owned",
    "OwnerSilent",
    "ParentCall",
    "Posted",
    "StateStore",
    "Summary",
    "WaitingFor",
    "Worker",
]


class Owned(Conflict):
    """Another worker owns the goal, or is claiming it. This is not a failure of the goal; retry soon."""


class Ended(Conflict):
    """The goal has ended: it cannot be claimed, and nothing can be appended or posted to it."""

    def __init__(self, goal_id: str) -> None:
        super().__init__(f"{goal_id} has ended.")


class OwnerSilent(Owned):
    """The owner of a goal has not renewed its lease, but not yet for long enough to be proven dead."""

    def __init__(self, goal_id: str, owner: "Worker", left_s: float) -> None:
        super().__init__(
            f"{goal_id} may still be run by {owner.id} on {owner.host}, whose lease seems to have expired. That worker"
            f" is proven dead if it does not renew the lease for another {math.ceil(left_s)} s. Try again then."
        )
        self.owner = owner
        self.left_s = left_s


class LeaseLost(BaseException):
    """Another worker may own the goal. No code may catch this before the loop has ended the running calls."""


@dataclass(frozen=True, slots=True)
class Appended:
    """A durable append: the seq of its last event, and whether the inbox has new posts."""

    seq: int
    inbox_waiting: bool


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A post to a goal that is not an event yet."""

    id: str
    kind: str
    payload: dict[str, Any]
    key: str
    created_us: int


class Posted(NamedTuple):
    """A post to a goal with a key."""

    kind: str
    payload: dict[str, Any]
    seq: int | None
    """The event that the post became; None while it is in the inbox."""


Admit = Callable[[Sequence[Event], Sequence[InboxRow]], None]
"""Checks whether a post is valid: called with the newer events of the goal and the pending inbox rows, it raises to
reject the post. A store may call it more than once for one post."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that runs goals; its id is new at each start."""

    id: str
    host: str
    home_id: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class ChangedGoals:
    """The goals with new events since a mark, with the last seq of each, and the mark for the next call."""

    mark: Any
    """Opaque; made by the store and passed back to it."""
    goals: Mapping[str, int] = field(default_factory=dict)
    is_reset: bool = False
    """Whether the event at the mark no longer exists or differs: the store was restored or replaced, or the goal with
    the newest event was deleted. Then `goals` is empty, and any goal may have changed."""


ChangeListener = Callable[[str | None, Sequence[Event]], None]
"""Called with a goal and the durable events that were appended to it; with no events if the goal was deleted; or with
None if any goal may have changed. It may be called on any thread and must not block."""


@dataclass(frozen=True, slots=True)
class ClaimedGoal:
    """A goal that a worker claimed with `claim_next`."""

    goal: Summary
    """The goal as stored, owned by the worker."""
    epoch: int
    former: str | None
    """The id of the worker that owned it before, if there was one."""


class StateStore(Protocol):
    """The histories of goals. Every key must be a text of 1 to 200 characters; another one is Invalid."""

    async def append_event(  # noqa: PLR0913 (one append does all of this in one transaction)
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
        """Append events to a goal: all or nothing, and durable when it returns.

        The goal must be at `expected_seq` and `epoch`, and its event at `expected_seq` must have `expected_hash`, which
        is 32 zero bytes before the first event. So after a restore of the database to an earlier state, or a failover
        to one, a worker cannot append to a history that differs from the one it wrote.

        Events that begin with a `goal` event create the goal, owned by `worker` at epoch 1, and only once per start
        key. For a fork, `expected_seq` and `expected_hash` are those of the last event that it shares with the other
        goal. Events that begin with a `reopened` event require a goal that has failed, or a child that was cancelled;
        all others require a goal that has not ended.

        In the same transaction:
        - When the goal ends and has a parent that has not ended, its end is posted to the inbox of the parent: kind
          `child`, payload `{goal_id, seq}`, key `<goal id>@<seq>`.
        - With `takes_key_of`, a new goal takes the start key of another goal, which must be the key in the summary. The
          other goal loses the key and is otherwise unchanged, even if it has ended or a worker runs it.
        - The inbox rows in `taken` are removed.
        - With `release`, the goal is released, unless it has not ended and has more rows in its inbox: then the worker
          keeps it, and `inbox_waiting` is true.

        `key` identifies this call and takes precedence over seq, hash and epoch: the same key with the same events
        returns the first result. A conflict of one goal does not affect others.

        Raises: Conflict when another worker has appended, claimed or taken an inbox row, when the history was replaced,
        the key identifies other events, or the other goal no longer has the start key to take; NotFound; Unavailable.
        """
        ...

    async def load(
        self, goal_id: str, *, after: int = 0, upto: int | None = None, max_bytes: int | None = None
    ) -> list[Event]:
        """Return the events of a goal after a seq, up to another, in seq order; a fork's begin with its parents'.

        With `max_bytes`, return only the first events whose sizes (see `events.size_of`) add up to at most that, but
        at least one event if there is one. The store does not read the payloads of the other events.

        Raises: NotFound
        """
        ...

    async def list_goals(
        self,
        *,
        where: GoalFilter = ALL_GOALS,
        limit: int = 50,
        before: str | None = None,
    ) -> list[Summary]:
        """Return goals, newest first; `before` is the last goal id of the page before.

        A filter by one status, a flow, a start key, the origin of forks or the parent of children reads one index
        range. Other filters are applied row by row.
        """
        ...

    async def find(self, prefix: str) -> Summary:
        """Return the only goal whose id begins with a prefix.

        Raises: NotFound, also for a deleted goal, with that reason; Conflict when there are several.
        """
        ...

    async def delete(self, goal_id: str, *, even_unfinished: bool = False) -> None:
        """Remove the events of a finished goal without forks. Its row stays, and its key is free.

        With `even_unfinished`, an unfinished goal is removed too, even if a worker owns it: that worker cannot append
        to it any more.

        Raises: NotFound; Conflict when it is not finished, or has forks.
        """
        ...


class Inbox(Protocol):
    """Posts to goals from processes that do not own them; the owner turns them into events.

    Keys are as in StateStore.
    """

    async def post(  # noqa: PLR0913 (a post, its key, its check and its time)
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
        """Add a row to the inbox of a goal, durably; return whether it is new.

        `created_us` is the time of the post by the clock of the posting process; without it, the store reads its clock.

        A post whose key the inbox or the history already has is ignored, even if the goal has ended. `admit` is called
        in the transaction of the post, with the events after seq `after` and the pending inbox rows. No event and no
        post is added to the goal between that call and the commit.

        Raises: NotFound; Ended; Conflict when the key identifies another post; the exception of `admit`. Nothing is
        posted then.
        """
        ...

    async def inbox(self, goal_id: str) -> list[InboxRow]:
        """Return the rows that were posted and not yet taken, in order of arrival."""
        ...

    async def posted(self, worker_id: str) -> list[str]:
        """Return the goals that a worker owns and whose inbox is not empty, in one query."""
        ...

    async def posted_as(self, goal_id: str, key: str) -> Posted | None:
        """Return the post to a goal with a key, even if it has become an event."""
        ...


class GoalDirectory(Protocol):
    """Finds goals by start key and by due time, lists conversations, and counts queued goals."""

    async def started(self, key: str) -> Summary | None:
        """Return the goal with a start key, unless it does not exist or was deleted."""
        ...

    async def due(
        self, now_us: int, *, queue: str | None = None, limit: int = 50, after: Summary | None = None
    ) -> list[Summary]:
        """Return goals whose `due_us` has passed, the longest due first, from one index range; see Summary.

        `after` is the last goal of the previous page, as returned then.
        """
        ...

    async def conversations(
        self, bot: str | None, *, limit: int = 50, after: tuple[int, str] | None = None
    ) -> list[Summary]:
        """Return the conversations with a bot, or with the assistant, the last used first, from one index range.

        These are the goals with an `overview`, ended ones too, ordered by its `last_us`. `after` is the `last_us` and
        the id of the last goal of the previous page, as returned then; a conversation that is used meanwhile moves to
        the front.
        """
        ...

    async def count_queued(self, *, queue: str) -> int:
        """Return how many open goals of a queue no worker owns."""
        ...


class Changes(Protocol):
    """Reports changed goals to processes that follow them."""

    async def changes(self, after: Any | None) -> ChangedGoals:
        """Return the goals with new events since a mark, from any process; without a mark, return only a current mark.

        Every event that is durable at the call is covered by this call or an earlier one, whatever the order in which
        concurrent transactions commit. A goal without new events may be included; its seq shows that.
        """
        ...

    def watch(self, listener: ChangeListener) -> Callable[[], None]:
        """Call a listener for every append and deletion of this process, and when another process may have appended.

        The returned function ends the watch. Appends of other processes are signalled without their events; such a
        signal may come late, without a change, or not at all.
        """
        ...


class GoalStore(StateStore, Inbox, GoalDirectory, Changes, Protocol):
    """All ports of one adapter, for the composition root; other code uses only the ports that it needs."""


NOTHING: Mapping[str, int] = MappingProxyType({})
"""Skips no goal."""


class Leases(Protocol):
    """The right to append to a goal. The epoch rises with each owner, and earlier owners are fenced out.

    An epoch is never assigned twice, even if the database goes back to an earlier state that does not know the last
    epochs: a claim raises the epoch by a random step.

    A worker is dead when its lease has expired. If expiry is measured by a clock that may jump, it is only a hint. Then
    a worker is proven dead when a claimant has observed no renewal for the length of the lease, by the monotonic clock
    of the claimant. Each `claim` and each `living` is such an observation. A claimant on the same host may have a
    faster proof.
    """

    async def renew(self, worker: Worker, ttl_s: float) -> None:
        """Set the lease of a worker to expire after `ttl_s`; the first call registers the worker.

        Not flushed to disk: a power failure may undo it.
        """
        ...

    async def retire(self, worker: Worker) -> None:
        """End the lease of a worker that runs nothing any more. Not flushed to disk."""
        ...

    async def claim(self, goal_id: str, worker: Worker, queue: str | None = None, *, reopen: bool = False) -> int:
        """Become the owner of a goal that has none, or whose owner is dead, and return the new epoch.

        With a queue, the goal is moved to it. With `reopen`, only a failed goal, or a child that was cancelled, can be
        claimed, and keeps its status until its `reopened` event is appended. A claim from a dead owner adds one to the
        deaths of the goal.

        Raises: NotFound; Owned when another live worker owns it, or claimed it first; OwnerSilent when the owner is not
        yet proven dead, and the claim must be retried; Ended, or with `reopen` Conflict when the goal is not failed or
        cancelled.
        """
        ...

    async def claim_next(
        self, queues: Collection[str], worker: Worker, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> ClaimedGoal | None:
        """Claim the next goal of some queues, as `claim` does, if there is one.

        Waiting goals with rows in their inbox come first, because no worker may have noticed the rows; then open goals;
        the oldest first. Only goals without an owner, or with an owner that is proven dead as for `claim`, are claimed.
        A goal in `skip` is not claimed while its last seq equals the value in `skip`. With `after`, only open goals
        that follow that goal are claimed.

        Concurrent workers claim different goals and never block each other. One may find no goal while another checks
        the last one; its next call finds it. The rows that are read do not depend on the number of open goals: they are
        the first goal that is not skipped, of each owner and of those without one.

        Raises: Owned when another worker claimed it first.
        """
        ...

    async def has_next(
        self, queues: Collection[str], worker: Worker, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> bool:
        """Return whether `claim_next` would find a goal. Nothing is written, and `worker` need not be known."""
        ...

    async def release(self, goal_id: str, worker: Worker, epoch: int) -> None:
        """Release a goal; do nothing if the worker no longer owns it."""
        ...

    async def living(self, worker_ids: Collection[str], observer: Worker) -> frozenset[str]:
        """Return which of some workers are alive, as seen by an observer; `claim` demands a stricter proof."""
        ...


@dataclass(frozen=True, slots=True)
class IdempotentCall:
    """One call of a client, identified by a key that the client chose."""

    key: str
    route: str
    """The route or operation."""
    body_sha256: bytes
    """The hash of its arguments."""
    subject: str = ""
    """The id of what it changed, or its result."""

    def require_same(self, known: "IdempotentCall") -> None:
        """Check that the key was not used for another call.

        Raises: KeyTaken
        """
        if (self.route, self.body_sha256) != (known.route, known.body_sha256):
            raise KeyTaken(f"The key {self.key!r} was used for another call, of {known.route}. Use a new one.")


class IdempotencyKeys(Protocol):
    """The calls with an idempotency key, kept for a day.

    A store that contains the changes of a call commits the key in the same transaction, so that both exist or neither.
    """

    async def find(self, key: str) -> IdempotentCall | None:
        """Return the call with a key, if there is one."""
        ...

    async def keep(self, call: IdempotentCall) -> IdempotentCall:
        """Store a call whose changes are outside the database, durably; return the first call with its key."""
        ...

    async def settle(self, call: IdempotentCall, subject: str) -> IdempotentCall:
        """Replace the provisional `call.subject` by the final one; return the stored call.

        The first of several callers settles it. A call that was forgotten meanwhile is returned settled but not stored.
        """
        ...

    async def forget(self, call: IdempotentCall) -> None:
        """Free the key of a rejected call that changed nothing; do nothing if the key belongs to another call."""
        ...


class Clock(Protocol):
    """Reads the time and sleeps."""

    def now_us(self) -> int:
        """Return microseconds since 1970, UTC; the clock may jump."""
        ...

    def boottime_s(self) -> float:
        """Return seconds since the machine was booted, including its sleep; this clock never jumps."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Generates unique ids."""

    def event_id(self) -> str:
        """Return a UUIDv7."""
        ...

    def goal_id(self, text: str) -> str:
        """Return an id `YYYYMMDD-HHMMSS-slug-xxxx`, in UTC."""
        ...
