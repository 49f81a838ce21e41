"""The history of one goal as its owner writes it: recorded in memory first, made durable by `commit`.

Everything that was recorded since the last commit becomes durable in one append. After an append that failed nobody
knows what is stored, so a journal that failed once fails ever after; whoever goes on loads anew.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from perdure import failpoints
from perdure.errors import Conflict
from perdure.kernel.events import NO_HASH, Body, Event, GoalBegun, Parent, Tip, seal
from perdure.kernel.fold import GoalState, WaitingFor, apply, fold
from perdure.kernel.ports import Appended, Clock, Ids, Runner, StateStore, Summary, Worker

Listener = Callable[[Sequence[Event], GoalState], None]
"""Is told of events when they are durable, and of the state that they have led to."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What somebody writes with: where to, at what time, under which ids, and who."""

    store: StateStore
    clock: Clock
    ids: Ids
    worker: Worker
    runner: Runner = "cli"
    """Whose goals those are that are begun here."""


class Journal:
    """The one writer of a goal's history, and the state that it leads to."""

    def __init__(self, desk: Desk, state: GoalState, epoch: int, *, woken_us: int | None = None) -> None:
        self.state = state
        self.epoch = epoch
        self._desk = desk
        self._pending: list[Event] = []
        self._stored_seq = state.tip.seq
        self._stored_hash = state.tip.hash
        self._has_let_go = False
        self._has_failed = False
        self._start_key: str | None = None
        self._woken_us = woken_us
        """Since when the goal was due, if that is why it goes on. See Summary.due_us."""
        self._listeners: list[Listener] = []

    @classmethod
    def begin(cls, desk: Desk, body: GoalBegun, goal_id: str, start_key: str | None = None) -> "Journal":
        """Begin a new goal; it exists when the first commit has returned. A start key is used once in a store."""
        first = seal(body, Tip(goal_id), event_id=desk.ids.event_id(), iteration=0, timestamp_us=desk.clock.now_us())
        journal = cls(desk, fold([first]), epoch=1)
        journal._pending.append(first)
        journal._stored_seq, journal._stored_hash = 0, NO_HASH
        journal._start_key = start_key
        return journal

    @classmethod
    def fork(cls, desk: Desk, parent: Sequence[Event], goal_id: str, start_key: str | None = None) -> "Journal":
        """Begin a goal that goes on from events of another; what is open there is decided anew.

        Raises: Conflict when the parent has ended there already.
        """
        state = fold(parent)
        if state.termination is not None:
            raise Conflict(f"{state.goal_id} has ended at event {state.tip.seq}; fork it before that.")
        left, left_hash = Parent(state.goal_id, state.tip.seq), state.tip.hash
        body = replace(state.begun, limits=state.limits, parent=left, voided=tuple(state.open_calls))
        state.tip = Tip(goal_id, state.tip.seq, state.tip.hash)
        first = seal(body, state.tip, event_id=desk.ids.event_id(), iteration=0, timestamp_us=desk.clock.now_us())
        apply(state, first, body)
        journal = cls(desk, state, epoch=1)
        journal._pending.append(first)
        journal._stored_seq, journal._stored_hash = left.seq, left_hash
        journal._start_key = start_key
        return journal

    @property
    def goal_id(self) -> str:
        return self.state.goal_id

    def now_us(self) -> int:
        """Read the clock that events are stamped by."""
        return self._desk.clock.now_us()

    def has_let_go(self) -> bool:
        """Tell whether the goal was given back by the last commit."""
        return self._has_let_go

    def listen(self, listener: Listener) -> None:
        """Tell somebody of every event from now on, when it is durable and not before."""
        self._listeners.append(listener)

    def record(self, *bodies: Body, is_decision: bool = False) -> None:
        """Add events to the state; they are durable after the next commit. A decision of the mind counts as one.

        Raises: Invalid when a body cannot be kept; nothing of it is recorded then.
        """
        iteration = self.state.used.iterations + is_decision
        for body in bodies:
            event = seal(
                body,
                self.state.tip,
                event_id=self._desk.ids.event_id(),
                iteration=iteration,
                timestamp_us=self._desk.clock.now_us(),
            )
            apply(self.state, event, body)
            self._pending.append(event)

    async def commit(self, *, key: str | None = None, taken: Sequence[str] = (), release: bool = False) -> Appended:
        """Make all that was recorded durable, in one append; nothing happens when there is nothing to do.

        Raises: Conflict when the goal is no longer ours; whatever the store raises.
        """
        if self._has_failed:
            raise Conflict(f"An append to {self.goal_id} failed before; load it again to go on.")
        if not (self._pending or taken or release):
            return Appended(self._stored_seq, inbox_waiting=False)
        self._has_failed = True
        failpoints.hit("kernel.append.before")
        done = await self._desk.store.append_event(
            self.goal_id,
            self._pending,
            expected_seq=self._stored_seq,
            expected_hash=self._stored_hash,
            epoch=self.epoch,
            summary=summarise(self.state, self._start_key, self._woken_us, self._desk.runner),
            key=key,
            worker=self._desk.worker.id,
            taken=taken,
            release=release,
        )
        failpoints.hit("kernel.append.after")
        self._has_failed = False
        stored, self._pending = self._pending, []
        self._stored_seq = done.seq
        self._stored_hash = stored[-1].hash if stored else self._stored_hash
        self._has_let_go = release and (self.state.termination is not None or not done.inbox_waiting)
        for listener in self._listeners:
            listener(stored, self.state)
        return done


def summarise(
    state: GoalState, start_key: str | None = None, woken_us: int | None = None, runner: Runner = "cli"
) -> Summary:
    """Say what a list shows of a state; one that goes on because it was due since a moment keeps that while it does."""
    begun = state.begun
    waiting_for = state.waiting_for
    status = state.status_when(waiting_for)
    return Summary(
        goal_id=state.goal_id,
        text=begun.text,
        mind=begun.mind.kind,
        status=status,
        created_us=state.created_us,
        updated_us=state.updated_us,
        last_seq=state.tip.seq,
        steps=state.steps,
        cost_usd=state.used.usd,
        reason=state.termination.reason if state.termination else None,
        waiting_for=waiting_for,
        bot=begun.bot,
        workdir=begun.workdir,
        parent=begun.parent,
        due_us=woken_us if status == "open" else _due_us(state, waiting_for),
        runner=runner,
        start_key=start_key,
    )


def _due_us(state: GoalState, waiting_for: WaitingFor | None) -> int | None:
    """Return when a goal that waits can go on by itself, also beside a question; at a limit it cannot."""
    is_asleep = waiting_for is not None and state.reached_limit is None
    return min(state.timers().values(), default=None) if is_asleep else None
