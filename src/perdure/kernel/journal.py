"""The history of one goal for its owner: events are recorded in memory and made durable by `commit`.

All events since the last commit become durable in one append. After a failed append it is unknown what is stored, so a
journal that failed once always fails; the next run of the goal loads its history again.
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
"""Called with events after they are durable, and with the state after them."""


@dataclass(frozen=True, slots=True)
class JournalDeps:
    """The dependencies of a journal: the store, the clock, the ids and the worker."""

    store: StateStore
    clock: Clock
    ids: Ids
    worker: Worker
    queue: str = "cli"
    """The queue of the goal that is written."""


@dataclass(frozen=True, slots=True)
class ForkChanges:
    """The differences of a fork to the goal that it continues; None: unchanged."""

    policy: PolicySpec | None = None
    model: str | None = None


UNCHANGED = ForkChanges()


@dataclass(frozen=True, slots=True)
class _Opening:
    """Parameters of the append that reopens a goal."""

    key: str | None
    taken: tuple[str, ...]


class Journal:
    """The only writer of the history of a goal, and the state after its last event."""

    def __init__(
        self, deps: JournalDeps, state: GoalState, epoch: int, *, woken_us: int | None = None, deaths: int = 0
    ) -> None:
        self.state = state
        self.epoch = epoch
        self._deps = deps
        self._pending: list[Event] = []
        self._stored_seq = state.head.seq
        self._stored_hash = state.head.hash
        self._is_released = False
        self._has_failed = False
        self._takes_key_of: str | None = None
        self.start_key: str | None = None
        """The start key of a goal that this journal creates; None for a loaded goal."""
        self._woken_us = woken_us
        """When the goal was due, if it runs because of that. See Summary.due_us."""
        self._deaths = deaths
        self._listeners: list[Listener] = []
        self.is_due_if_left = any(call.is_child for call in state.open_calls.values())
        """Whether a waiting goal is stored as due, so that a worker resumes it if this one dies or releases it.

        Two cases need a run although the goal waits. The intent of a child is durable before the child is created, so a
        run must find or create the children of all open calls. And a call may be settled while the goal still waits for
        another one, so a run must ask the mind, which may continue.
        """
        self._is_stored_as_due = False
        self._opening: _Opening | None = None

    @property
    def store(self) -> StateStore:
        """The store of the history."""
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
        changes: ForkChanges = UNCHANGED,
    ) -> "Journal":
        """Begin a goal that continues after events of another goal; open calls of that goal are void.

        With `takes_key_of`, the first commit takes the start key from that goal. See StateStore.append_event.

        Raises: Conflict when the other goal has ended at that event, or was cancelled.
        """
        state = fold(parent)
        if state.termination is not None:
            raise Conflict(f"{state.goal_id} has ended at event {state.head.seq}; fork it before that.")
        if state.cancel is not None:
            raise Conflict(f"{state.goal_id} was cancelled at event {state.cancel_seq}; fork it before that.")
        left, left_hash = ForkedFrom(state.goal_id, state.head.seq), state.head.hash
        voided = tuple(state.open_calls)
        judged_by = changes.policy or state.policy
        begun = replace(state.begun, limits=state.limits, policy=None if judged_by == PolicySpec() else judged_by)
        mind = replace(state.begun.mind, model=changes.model or state.begun.mind.model)
        body = replace(begun, mind=mind, forked_from=left, parent=None, voided=voided)
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
        """Return the time of the clock for the timestamps of events."""
        return self._deps.clock.now_us()

    def is_released(self) -> bool:
        """Return whether the last commit released the goal."""
        return self._is_released

    def listen(self, listener: Listener) -> None:
        """Call a listener for every later event, after it is durable."""
        self._listeners.append(listener)

    def record(self, *bodies: Body, is_decision: bool = False) -> None:
        """Apply events to the state; the next commit makes them durable. `is_decision` counts an iteration.

        Raises: Invalid when a body cannot be stored; it is not recorded then.
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
            if _is_progress(body):
                self._deaths = 0
        self.is_due_if_left = self.is_due_if_left or len(self.state.settled) > settled_before

    def reopen(self, body: Reopened, *more: Body, key: str | None, dropped: Sequence[str] = ()) -> None:
        """Record that a failed goal is retried; `commit_opening` makes it durable, in an append of its own.

        `key` names that append. It removes the `dropped` inbox rows, which were posted before the goal had failed.
        """
        self.record(body, *more)
        self._opening = _Opening(key, tuple(dropped))

    async def commit_opening(self) -> None:
        """Make a recorded reopening durable; do nothing if there is none.

        Raises: as `commit`.
        """
        opening, self._opening = self._opening, None
        if opening is not None:
            await self.commit(key=opening.key, taken=opening.taken)

    async def commit(self, *, key: str | None = None, taken: Sequence[str] = (), release: bool = False) -> Appended:
        """Make all recorded events durable in one append; do nothing if there is nothing to store.

        Raises: Conflict when another worker owns the goal; the errors of the store.
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
        self._is_released = release and (self.state.termination is not None or not done.inbox_waiting)
        for listener in self._listeners:
            listener(stored, self.state)
        return done

    def _is_due(self) -> bool:
        """Return whether a waiting goal is stored as due; see `is_due_if_left`."""
        return self.is_due_if_left and self.state.hold is None and self.state.waiting_for is not None

    def _summary(self, *, is_due: bool) -> Summary:
        summary = summarise(
            self.state,
            start_key=self.start_key,
            woken_us=self._woken_us,
            queue=self._deps.queue,
            deaths=self._deaths,
        )
        return replace(summary, due_us=summary.updated_us) if is_due else summary


def _is_progress(body: Body) -> bool:
    """Return whether an event is progress, after which deaths of workers are counted from zero.

    The outcome that a check finds at a resume is progress: the goal never runs that call again. That a call is run
    again is not.
    """
    match body:
        case Decision(by=by) | Message(by=by):
            return by == "person"
        case _:
            return isinstance(body, ToolOutput | Signal | ModelTurn | Reopened | Released)
