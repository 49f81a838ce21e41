"""Goals as the contract of the state store needs them: a history that is written step by step, and plain SQL beside."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from uuid_utils import uuid7

from perdure.kernel.events import (
    NO_HASH,
    Body,
    Event,
    ForkedFrom,
    GoalBegun,
    Head,
    Message,
    MindSpec,
    Termination,
    seal,
)
from perdure.kernel.fold import fold
from perdure.kernel.ports import Appended, GoalStore, Leases, Summary, Worker
from perdure.store.database import Database

NOW = 1_760_000_000_000_000
WORKER = Worker("w1", "host", "home", "boot")
OTHER = Worker("w2", "host", "home", "boot")


@dataclass
class BootClock:
    """The time since boot of those who look, which moves when a test says so."""

    now_s: float = 1_000_000.0

    def boottime_s(self) -> float:
        return self.now_s


@dataclass
class Stored:
    """One kind of store with its leases; `database` is what is under it, where there is one."""

    store: GoalStore
    leases: Leases
    dead: set[str]
    database: Database | None = None
    is_bound_to_boot: bool = False
    clock: BootClock = field(default_factory=BootClock)


@dataclass
class History:
    """One goal, as its owner writes it."""

    stored: Stored
    goal_id: str
    epoch: int = 1
    events: list[Event] = field(default_factory=list)
    worker: Worker = WORKER

    @property
    def last_hash(self) -> bytes:
        return self.events[-1].hash if self.events else NO_HASH

    def next(self, *bodies: Body, timestamp_us: int = NOW) -> list[Event]:
        """Seal bodies behind what is there, without storing them."""
        head = Head(self.goal_id, self.events[-1].seq, self.events[-1].hash) if self.events else Head(self.goal_id)
        made = []
        for body in bodies:
            made.append(seal(body, head, event_id=str(uuid7()), iteration=0, timestamp_us=timestamp_us))
            head = Head(self.goal_id, made[-1].seq, made[-1].hash)
        return made

    def summary(self, events: Sequence[Event]) -> Summary:
        state = fold([*self.events, *events])
        reason = state.termination.reason if state.termination else None
        summary = Summary(self.goal_id, state.begun.text, "command", state.status, NOW, NOW, 0, reason=reason)
        return replace(summary, last_seq=state.head.seq, forked_from=state.begun.forked_from, bot=state.begun.bot)

    async def append(self, *bodies: Body, timestamp_us: int = NOW, **options: Any) -> Appended:
        """Store bodies; `seq`, hash and `epoch` are right unless said otherwise."""
        made = self.next(*bodies, timestamp_us=timestamp_us)
        done = await self.store(made, **options)
        self.events += made
        return done

    async def store(self, events: Sequence[Event], **options: Any) -> Appended:
        asked: dict[str, Any] = {
            "expected_seq": len(self.events),
            "expected_hash": self.last_hash,
            "epoch": self.epoch,
            "worker": self.worker.id,
        } | options
        summary = asked.pop("summary", None) or self.summary(events)
        return await self.stored.store.append_event(self.goal_id, events, summary=summary, **asked)

    async def fork(self, goal_id: str, seq: int) -> "History":
        """Make a goal that goes on from an event of this one."""
        fork = History(self.stored, goal_id, events=self.events[:seq])
        await fork.append(GoalBegun("fork", MindSpec("command"), forked_from=ForkedFrom(self.goal_id, seq)))
        return fork


async def begin(stored: Stored, goal_id: str = "g", *bodies: Body, text: str = "echo", **options: Any) -> History:
    """Make a goal."""
    history = History(stored, goal_id)
    await history.append(GoalBegun(text, MindSpec("command")), *bodies, **options)
    return history


async def put(stored: Stored, goal_id: str, queue: str = "server", *, release: bool = True) -> History:
    """Make a goal of a queue, which no worker owns unless it is not released."""
    goal = History(stored, goal_id)
    events = goal.next(GoalBegun("echo", MindSpec("command")))
    await goal.store(events, summary=replace(goal.summary(events), queue=queue), release=release)
    goal.events += events
    return goal


async def several(stored: Stored, count: int) -> list[History]:
    """Make goals at once."""
    return list(await asyncio.gather(*[begin(stored, f"g{number:02}") for number in range(count)]))


async def end(history: History) -> None:
    await history.append(Termination("done"))


def said(events: Sequence[Event]) -> list[int]:
    return [event.seq for event in events]


HELLO = Message("hello")
