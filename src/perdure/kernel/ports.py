"""What the kernel asks of the store, of other workers and of the clock. The docstrings are the specification.

What decides and acts in one goal has ports of its own: `kernel.mind`, `kernel.tool`, together `kernel.run_context`.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from perdure.errors import Conflict, KeyTaken
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
    "Owned",
    "OwnerSilent",
    "ParentCall",
    "StateStore",
    "Summary",
    "WaitingFor",
    "Worker",
]


class Owned(Conflict):
    """Another worker has the goal, or claims it at this moment. This is not a failure of the goal: retry soon."""


class Ended(Conflict):
    """The goal has ended: it cannot be claimed, and nothing can be appended or posted to it."""

    def __init__(self, goal_id: str) -> None:
        super().__init__(f"{goal_id} has ended.")


class OwnerSilent(Owned):
    """The owner of a goal shows no sign of life, but not for long enough to be sure that it is dead."""

    def __init__(self, goal_id: str, owner: "Worker", left_s: float) -> None:
        super().__init__(
            f"{goal_id} may still be worked on by {owner.id} on {owner.host}, whose lease seems to be over. That worker"
            f" is dead if it gives no sign of life for another {math.ceil(left_s)} s. Try again then."
        )
        self.owner = owner
        self.left_s = left_s


class LeaseLost(BaseException):
    """Another worker may own the goal by now; no code may catch this before the loop has ended the running calls."""


@dataclass(frozen=True, slots=True)
class Appended:
    """A durable append: the seq of its last event, and whether the inbox has new posts."""

    seq: int
    inbox_waiting: bool


@dataclass(frozen=True, slots=True)
class InboxRow:
    """Something that was posted to a goal and not yet turned into an event."""

    id: str
    kind: str
    payload: dict[str, Any]
    key: str
    created_us: int


Admit = Callable[[Sequence[Event], Sequence[InboxRow]], None]
"""Decides whether something may be posted: it is called with the newer events of the goal and with the inbox rows that
are still pending, and raises to reject the post. A store may call it more than once for one post."""


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that runs goals; its id is new at each start."""

    id: str
    host: str
    home_id: str
    boot_id: str


@dataclass(frozen=True, slots=True)
class ChangedGoals:
    """The goals that have got events since a mark, with the last seq of each, and the mark for the next call."""

    mark: Any
    """Made by the store, and only passed back to it."""
    goals: Mapping[str, int] = field(default_factory=dict)
    is_reset: bool = False
    """Whether the event at the mark is gone or another one: the store was restored or replaced, or the goal with the
    newest event was deleted. Then `goals` is empty, and any goal may have changed."""


ChangeListener = Callable[[str | None, Sequence[Event]], None]
"""Called with a goal and the events that were appended to it, which are durable, or without events when the goal was
deleted; or with None when anything may have changed. It is called on any thread and must not block."""


@dataclass(frozen=True, slots=True)
class ClaimedGoal:
    """A goal that a worker has claimed without naming it."""

    goal: Summary
    """The goal as it is in the store, owned by the worker."""
    epoch: int
    former: str | None
    """The id of the worker that owned it before, if there was one."""


class StateStore(Protocol):
    """The histories of goals. A key, wherever one is given, is a text of 1 to 200 characters; else it is Invalid."""

    async def append_event(  # noqa: PLR0913 (all that one append may do happens in one transaction)
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
        is 32 zero bytes before the first event. So a worker whose database was restored to an earlier state, or failed
        over to one, cannot append to a history that is not the one it wrote. Events that begin with a `goal` event
        make the goal, owned by `worker` at epoch 1, and once only for a start key; for a fork `expected_seq` is where
        it left its parent, and `expected_hash` the hash of the parent's event there.
        When the goal ends and has a parent that has not ended, the same transaction posts its end to the parent's
        inbox: kind `child`, payload `{goal_id, seq}`, key `<goal id>@<seq>`.
        With `takes_key_of`, a new goal takes the start key of another goal, which has to be the key in the summary.
        The other goal has no key afterwards and is otherwise unchanged, also when it has ended or a worker runs it.
        Events that begin with a `reopened` event need a goal that has failed, or a child that was cancelled; all
        others, one that has not ended.
        `taken` inbox rows go in the same transaction. With `release` the goal is given back in it too, unless it has
        not ended and more waits in its inbox: then it is kept, and `inbox_waiting` says so. `key` names this one call
        and wins over seq, hash and epoch: the same key with the same events returns the first answer. A conflict of
        one goal leaves all others alone.

        Raises: Conflict when another worker has appended, claimed or taken an inbox row, when the history was replaced,
        the key names other events, or the start key to take is no longer that of the other goal; NotFound; Unavailable.
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

        One status, a flow, a start key, the origin of forks or the parent of children is one index range; what else is
        filtered by is compared row by row.
        """
        ...

    async def find(self, prefix: str) -> Summary:
        """Return the one goal whose id begins with a prefix.

        Raises: NotFound, which says so when the goal was deleted; Conflict when there are several.
        """
        ...

    async def delete(self, goal_id: str, *, even_unfinished: bool = False) -> None:
        """Remove the events of a finished goal that has no forks; its row stays, without them, and its key is free.

        With `even_unfinished`, an unfinished goal is removed too, with or without an owner: its owner, if there is
        one, can append nothing more.

        Raises: NotFound; Conflict when it is not finished, or has forks.
        """
        ...


class Inbox(Protocol):
    """What is posted to goals by processes that do not own them; the owner turns it into events.

    A key is as in StateStore.
    """

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
        """Put something into a goal's inbox, durably; tell whether that was news.

        `created_us` is when it was posted, by the clock of the one who posts it; without it, the store reads its own.

        What the inbox or the history has under the same key is not posted again, also when the goal has ended.
        `admit` is called in the transaction of the post, with the events after seq `after` and the pending inbox rows.
        Nothing is appended or posted to the goal between that call and the commit.

        Raises: NotFound; Ended; Conflict when the key names something else; what `admit` raises, and
        nothing is posted then.
        """
        ...

    async def inbox(self, goal_id: str) -> list[InboxRow]:
        """Return what was posted and not yet taken, in order of arrival."""
        ...

    async def posted(self, worker_id: str) -> list[str]:
        """Return the goals that a worker owns and whose inbox is not empty: one query, however many goals it has."""
        ...

    async def posted_as(self, goal_id: str, key: str) -> tuple[str, dict[str, Any]] | None:
        """Return kind and payload of what was posted to a goal under a key, also when it is an event by now."""
        ...


class GoalDirectory(Protocol):
    """Goals by what is done with them next: by their start key, by when they are due, and how many are queued."""

    async def started(self, key: str) -> Summary | None:
        """Return the goal that was started with a key, if there is one and it was not deleted since."""
        ...

    async def due(
        self, now_us: int, *, queue: str | None = None, limit: int = 50, after: Summary | None = None
    ) -> list[Summary]:
        """Return goals whose `due_us` has come, the longest due first, by one index range; see Summary.

        `after` is the last goal of the page before, as it was then.
        """
        ...

    async def count_queued(self, *, queue: str) -> int:
        """Return how many open goals of a queue no worker owns."""
        ...


class Changes(Protocol):
    """Which goals have changed, for processes that follow them."""

    async def changes(self, after: Any | None) -> ChangedGoals:
        """Return which goals have new events since a mark, from any process; without a mark, only the present one.

        Every event that is durable when this is called was returned by a call before or is returned by this one, in
        whatever order concurrent transactions commit. A goal may be named that has got none: the seq tells.
        """
        ...

    def watch(self, listener: ChangeListener) -> Callable[[], None]:
        """Call a listener for every append and deletion of this process, and when another process may have appended.

        The function that is returned ends it. What other processes append is signalled without their events; such a
        signal can come late, without a change, or not at all.
        """
        ...


class GoalStore(StateStore, Inbox, GoalDirectory, Changes, Protocol):
    """All ports of one adapter, as the composition root passes it on; its users take the ports that they need."""


NOTHING: Mapping[str, int] = MappingProxyType({})
"""Skips no goal."""


class Leases(Protocol):
    """Who may append to a goal. The epoch, which rises with each owner, fences out all owners before.

    An epoch is never assigned twice, also when the database goes back to an earlier state, where the last epochs are
    not known: a claim raises it by a random step.

    A worker is dead when its lease is over. Where that is judged by a clock that may jump, the end of a lease is only a
    hint, and a worker is proven dead when a claimant has seen no renewal for as long as the lease lasts, by its own
    clock; each `claim` and each `living` is such an observation. A claimant beside the worker may know it at once.
    """

    async def renew(self, worker: Worker, ttl_s: float) -> None:
        """Say that a worker lives for so long; the first time makes it known. No flush: a power cut may undo it."""
        ...

    async def retire(self, worker: Worker) -> None:
        """Say that a worker has ended and runs nothing: it is dead from now on. No flush, as with `renew`."""
        ...

    async def claim(self, goal_id: str, worker: Worker, queue: str | None = None, *, reopen: bool = False) -> int:
        """Become the owner of a goal that has none, or whose owner is dead, and return the new epoch.

        With a queue, the goal is moved to it. With `reopen`, only a failed goal, or a child that was cancelled, can be
        claimed, and it stays that until its `reopened` event is appended. A claim that replaces a dead owner adds one
        to the goal's deaths.

        Raises: NotFound; Owned when another live worker owns it, or was quicker; OwnerSilent when it is not certain yet
        that the owner is dead: then the same claim has to be tried again; Ended, or, with `reopen`, Conflict when
        the goal is neither.
        """
        ...

    async def claim_next(
        self, queues: Collection[str], worker: Worker, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> ClaimedGoal | None:
        """Claim the goal of some queues that is next, as `claim` does, if there is one.

        Next are the goals that wait and have something in their inbox, which no worker may have noticed; then open
        goals; the oldest first. Only goals without an owner are claimed, and goals whose owner is dead, by the same
        proof as for `claim`; so not those that the worker owns itself. A goal in `skip` is not claimed while its last
        seq is the one given there. With `after`, only open goals behind that goal are claimed.

        Workers that claim at the same time claim different goals, and none waits for another: one of them may find
        nothing while another looks at the last goal; the next call finds it. What is read does not grow with the number
        of open goals: for each owner, and for the goals without one, the first goal that is not skipped.

        Raises: Owned when another worker was quicker.
        """
        ...

    async def has_next(
        self, queues: Collection[str], worker: Worker, *, skip: Mapping[str, int] = NOTHING, after: str | None = None
    ) -> bool:
        """Tell whether `claim_next` would find a goal. Nothing is written, and `worker` need not be known."""
        ...

    async def release(self, goal_id: str, worker: Worker, epoch: int) -> None:
        """Give a goal back; nothing happens when it is not ours any more."""
        ...

    async def living(self, worker_ids: Collection[str], observer: Worker) -> frozenset[str]:
        """Tell which of some workers live, as far as an observer at this place can tell; a claim is more careful."""
        ...


@dataclass(frozen=True, slots=True)
class IdempotentCall:
    """One call of a client, named by a key of its own choice."""

    key: str
    route: str
    """What was called."""
    body_sha256: bytes
    """What it was called with."""
    subject: str = ""
    """What it changed, or its answer."""

    def require_same(self, known: "IdempotentCall") -> None:
        """Check that the key was not used for another call.

        Raises: KeyTaken
        """
        if (self.route, self.body_sha256) != (known.route, known.body_sha256):
            raise KeyTaken(f"The key {self.key!r} was used for another call, of {known.route}. Use a new one.")


class IdempotencyKeys(Protocol):
    """The calls that were made under a key, for a day.

    A store that holds what a call changes commits the call in the same transaction, so that both are there or neither.
    """

    async def find(self, key: str) -> IdempotentCall | None:
        """Return the call that was made under a key."""
        ...

    async def keep(self, call: IdempotentCall) -> IdempotentCall:
        """Store a call whose change is not in the database, durably; return the one that was first under its key."""
        ...

    async def settle(self, call: IdempotentCall, subject: str) -> IdempotentCall:
        """Give a call that was kept with `call.subject` its final one; return the call as it is stored then.

        The first of several callers settles it. A call that was forgotten meanwhile is returned settled, and not kept.
        """
        ...

    async def forget(self, call: IdempotentCall) -> None:
        """Free the key of a call that was rejected, and has changed nothing; the key of another call stays."""
        ...


class Clock(Protocol):
    """The time, and waiting for it."""

    def now_us(self) -> int:
        """Microseconds since 1970, UTC; may jump."""
        ...

    def boottime_s(self) -> float:
        """Seconds since the machine was started, its sleep included; never jumps."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class Ids(Protocol):
    """Generates unique ids."""

    def event_id(self) -> str:
        """A UUIDv7."""
        ...

    def goal_id(self, text: str) -> str:
        """UTC `YYYYMMDD-HHMMSS-slug-xxxx`."""
        ...
