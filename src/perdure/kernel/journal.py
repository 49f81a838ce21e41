"""The history of one goal as its owner writes it: recorded in memory first, made durable by `commit`.

Everything that was recorded since the last commit becomes durable in one append. After a failed append it is unknown
what is stored, so a journal that failed once always fails; the next run of the goal loads it again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perdure import failpoints
from perdure.errors import Conflict
from perdure.kernel.events import (
    NO_HASH,
    Body,
    Decision,
    Event,
    ForkedFrom,
    GoalBegun,
    Head,
    Message,
    ModelTurn,
    PolicySpec,
    Released,
    Reopened,
    Signal,
    ToolOutput,
    seal,
)
from perdure.kernel.fold import GoalState, apply, fold
from perdure.kernel.ports import Appended, Clock, Ids, StateStore, Worker
from perdure.kernel.summary import Summary, summarise

Listener = Callable[[Sequence[Event], GoalState], None]
"""Is told of events when they are durable, and of the state that they have led to."""


@dataclass(frozen=True, slots=True)
class JournalDeps:
    """What a journal is written with: the store, the clock, the ids and the worker."""

    store: StateStore
    clock: Clock
    ids: Ids
    worker: Worker
    queue: str = "cli"
    """The queue of the goal that is written."""


@dataclass(frozen=True, slots=True)
class _Opening:
    """What goes with the append that reopens a goal."""

    key: str | None
    taken: tuple[str, ...]


class Journal:
    """The one writer of a goal's history, and the state that it leads to."""

    def __init__(
        self, deps: JournalDeps, state: GoalState, epoch: int, *, woken_us: int | None = None, deaths: int = 0
    ) -> None:
        self.state = state
        self.epoch = epoch
        self._deps = deps
        self._pending: list[Event] = []
        self._stored_seq = state.head.seq
        self._stored_hash = state.head.hash
        self._has_let_go = False
        self._has_failed = False
        self._takes_key_of: str | None = None
        self.start_key: str | None = None
        """The key of the start that created the goal here; None for a goal that was loaded."""
        self._woken_us = woken_us
        """Since when the goal was due, if that is why it runs. See Summary.due_us."""
        self._deaths = deaths
        self._listeners: list[Listener] = []
        self.is_due_if_left = any(call.is_child for call in state.open_calls.values())
        """Whether a goal that waits is stored as due, so that it is resumed if its worker dies or only settles it.

        The intent of a child is durable before the child is created. So the goal has to be looked at until a run has
        found or created the children of all open calls. And a call may be settled while the goal still waits for
        something else: the goal has to be looked at until its mind knows.
        """
        self._is_stored_as_due = False
        self._opening: _Opening | None = None

    @property
    def store(self) -> StateStore:
        """Where the history is stored."""
        return self._deps.store

    @classmethod
    def begin(cls, deps: JournalDeps, body: GoalBegun, goal_id: str, start_key: str | None = None) -> "Journal":
        """Begin a new goal; it exists when the first commit has returned. A start key is used once in a store."""
        first = seal(body, Head(goal_id), event_id=deps.ids.event_id(), iteration=0, timestamp_us=deps.clock.now_us())
        journal = cls(deps, fold([first]), epoch=1)
        journal._pending.append(first)
        journal._stored_seq, journal._stored_hash = 0, NO_HASH
        journal.start_key = start_key
        return journal

    @classmethod
    def fork(
        cls,
        deps: JournalDeps,
        parent: Sequence[Event],
        goal_id: str,
        start_key: str | None = None,
        *,
        takes_key_of: str | None = None,
        policy: PolicySpec | None = None,
    ) -> "Journal":
        """Begin a goal that continues from events of another; calls that are open there are void.

        A policy replaces that of the goal. With `takes_key_of`, the first commit takes the start key from that goal.
        See StateStore.append_event.

        Raises: Conflict when the parent has ended there already, or was cancelled.
        """
        state = fold(parent)
        if state.termination is not None:
            raise Conflict(f"{state.goal_id} has ended at event {state.head.seq}; fork it before that.")
        if state.cancel is not None:
            raise Conflict(f"{state.goal_id} was cancelled at event {state.cancel_seq}; fork it before that.")
        left, left_hash = ForkedFrom(state.goal_id, state.head.seq), state.head.hash
        voided = tuple(state.open_calls)
        judged_by = policy or state.policy
        begun = replace(state.begun, limits=state.limits, policy=None if judged_by == PolicySpec() else judged_by)
        body = replace(begun, forked_from=left, parent=None, voided=voided)
        state.head = Head(goal_id, state.head.seq, state.head.hash)
        first = seal(body, state.head, event_id=deps.ids.event_id(), iteration=0, timestamp_us=deps.clock.now_us())
        apply(state, first, body)
        journal = cls(deps, state, epoch=1)
        journal._pending.append(first)
        journal._stored_seq, journal._stored_hash = left.seq, left_hash
        journal.start_key = start_key
        journal._takes_key_of = takes_key_of
        return journal

    @property
    def goal_id(self) -> str:
        return self.state.goal_id

    @property
    def queue(self) -> str:
        """The queue that the goal is in."""
        return self._deps.queue

    @property
    def deaths(self) -> int:
        """See Summary.deaths."""
        return self._deaths

    @property
    def is_stored(self) -> bool:
        """Whether the goal is known to exist in the store."""
        return self._stored_seq > 0

    def now_us(self) -> int:
        """Read the clock that events are stamped by."""
        return self._deps.clock.now_us()

    def has_let_go(self) -> bool:
        """Tell whether the goal was given back by the last commit."""
        return self._has_let_go

    def listen(self, listener: Listener) -> None:
        """Call a listener for every event from now on, after it is durable."""
        self._listeners.append(listener)

    def record(self, *bodies: Body, is_decision: bool = False, is_recovery: bool = False) -> None:
        """Add events to the state; they are durable after the next commit. A decision of the mind counts as one.

        What recovery records is not progress of the goal: see Summary.deaths.

        Raises: Invalid when a body cannot be kept; nothing of it is recorded then.
        """
        iteration = self.state.used.iterations + is_decision
        settled_before = len(self.state.settled)
        for body in bodies:
            event = seal(
                body,
                self.state.head,
                event_id=self._deps.ids.event_id(),
                iteration=iteration,
                timestamp_us=self._deps.clock.now_us(),
            )
            apply(self.state, event, body)
            self._pending.append(event)
            if not is_recovery and _is_progress(body):
                self._deaths = 0
        self.is_due_if_left = self.is_due_if_left or len(self.state.settled) > settled_before

    def reopen(self, body: Reopened, *more: Body, key: str | None, dropped: Sequence[str] = ()) -> None:
        """Record that a failed goal is retried; `commit_opening` makes it durable, in an append of its own.

        `key` names that append. It removes the `dropped` inbox rows, which were posted before the goal had failed.
        """
        self.record(body, *more)
        self._opening = _Opening(key, tuple(dropped))

    async def commit_opening(self) -> None:
        """Make a recorded reopening durable; nothing happens when there is none.

        Raises: as `commit`.
        """
        opening, self._opening = self._opening, None
        if opening is not None:
            await self.commit(key=opening.key, taken=opening.taken)

    async def commit(self, *, key: str | None = None, taken: Sequence[str] = (), release: bool = False) -> Appended:
        """Make all that was recorded durable, in one append; nothing happens when there is nothing to do.

        Raises: Conflict when the goal is no longer ours; as the store.
        """
        if self._has_failed:
            raise Conflict(f"An append to {self.goal_id} failed before; load the goal again to continue.")
        is_due = self._is_due()
        if not (self._pending or taken or release or is_due != self._is_stored_as_due):
            return Appended(self._stored_seq, inbox_waiting=False)
        self._has_failed = True
        failpoints.hit("kernel.append.before")
        done = await self._deps.store.append_event(
            self.goal_id,
            self._pending,
            expected_seq=self._stored_seq,
            expected_hash=self._stored_hash,
            epoch=self.epoch,
            summary=self._summary(is_due=is_due),
            key=key,
            worker=self._deps.worker.id,
            taken=taken,
            release=release,
            takes_key_of=self._takes_key_of,
        )
        failpoints.hit("kernel.append.after")
        self._has_failed = False
        self._takes_key_of = None
        self._is_stored_as_due = is_due
        stored, self._pending = self._pending, []
        self._stored_seq = done.seq
        self._stored_hash = stored[-1].hash if stored else self._stored_hash
        self._has_let_go = release and (self.state.termination is not None or not done.inbox_waiting)
        for listener in self._listeners:
            listener(stored, self.state)
        return done

    def _is_due(self) -> bool:
        """Tell whether the goal is stored as due though it waits; see `is_due_if_left`."""
        return self.is_due_if_left and self.state.hold is None and self.state.waiting_for is not None

    def _summary(self, *, is_due: bool) -> Summary:
        found = summarise(
            self.state,
            start_key=self.start_key,
            woken_us=self._woken_us,
            queue=self._deps.queue,
            deaths=self._deaths,
        )
        return replace(found, due_us=found.updated_us) if is_due else found


def _is_progress(body: Body) -> bool:
    """Tell whether an event shows that the goal does not only kill its workers."""
    match body:
        case Decision(by=by) | Message(by=by):
            return by == "person"
        case _:
            return isinstance(body, ToolOutput | Signal | ModelTurn | Reopened | Released)
