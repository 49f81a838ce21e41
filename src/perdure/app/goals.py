"""What can be done with goals: run, resume, look, decide, signal, fork, cancel, replay."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perdure.app import asked
from perdure.app.goal_reader import GoalReader
from perdure.app.posts import CANCEL_WAIT_S, Posts
from perdure.app.runner import PARK_S, Manner, Runner
from perdure.app.script_interrupts import Interrupted
from perdure.app.system import SystemIds, observer
from perdure.app.views import GoalResult, GoalView
from perdure.app.worker import LEASE_S
from perdure.errors import Conflict, Invalid
from perdure.kernel.decisions import admit_decision, choose, refuse_while_cancelled
from perdure.kernel.events import Event, Limits, Signal, content_of
from perdure.kernel.fold import fold
from perdure.kernel.loop import Ran
from perdure.kernel.ports import InboxRow, Leases, StateStore, Summary
from perdure.kernel.replay import damaged_event, require_unchanged

if TYPE_CHECKING:
    from perdure.app.new_goal import NewGoal
    from perdure.minds.flow import Flow


class Goals(GoalReader):
    """The goals of a home. A method that changes a goal needs its whole id; one that only reads accepts a prefix.

    async with Perdure.open() as p:
        result = await p.goals.run(nightly, "2026-11-15", key="nightly-2026-11-15")
        print(result.status, result.value)
    """

    def __init__(
        self, home: Path, store: StateStore, leases: Leases, *, lease_s: float = LEASE_S, park_after_s: float = PARK_S
    ) -> None:
        super().__init__(home, store, leases)
        self._ids = SystemIds()
        self._runner = Runner(home, store, leases, lease_s=lease_s, park_after_s=park_after_s)
        self._posts = Posts(store, self._runner, self._clock, self._ids, self.find)
        self._others: frozenset[str] = frozenset()
        """Other workers that were alive, and owned goals, when the queue was last looked at."""

    async def run(self, what: "Flow | str | Path", /, *args: Any, key: str | None = None, **kwargs: Any) -> GoalResult:
        """Run a flow with its arguments, a command line, or the plan in a file, and say how that ended.

        With a `key`, the same call is the same goal: it is started once, and resumed or only looked at ever after.

        Raises: Invalid; NotFound when there is no such plan file; Conflict when the key started something else, or
        another live worker runs the goal.
        """
        from perdure.app.new_goal import new_goal

        self._require_open()
        new = replace(new_goal(what, args, kwargs), key=asked.key(key))
        return GoalResult.of((await self.begin_once(new)).state)

    async def resume(self, goal_id: str) -> GoalResult:
        """Go on with a goal, and say how that ended; one that has ended is left as it is.

        Raises: NotFound; Conflict when another live worker runs it, or its flow was changed.
        """
        return GoalResult.of((await self.go_on(goal_id)).state)

    async def begin(self, new: "NewGoal", manner: Manner | None = None) -> Ran:
        """Start a goal and run it until it ends, waits for somebody, or is stopped.

        Raises: Invalid when it makes no sense; Conflict when its key was used; nothing is stored then.
        """
        self._require_open()
        return await self._runner.start(new, manner or Manner())

    async def begin_once(self, new: "NewGoal", manner: Manner | None = None) -> Ran:
        """Start a goal, or go on with the one that its key started; one that has ended is left as it is.

        Raises: Invalid; Conflict when the key started something else, or another live worker runs the goal.
        """
        self._require_open()
        known = await self._started(new)
        if known is None:
            try:
                return await self.begin(new, manner)
            except Conflict:
                known = await self._started(new)  # somebody else was quicker with the same key
                if known is None:
                    raise
        return await self.go_on(known, manner)

    async def go_on(self, goal_id: str, manner: Manner | None = None, limits: Limits | None = None) -> Ran:
        """Go on with a goal, with limits raised where they are given; one that has ended is left as it is.

        Raises: NotFound; Conflict when another live worker runs it; Invalid when a limit is not above what was used.
        """
        summary = await self._whole(goal_id)
        if summary.is_final:
            return Ran("ended", await self.state(summary.goal_id))
        return await self._runner.go_on(summary.goal_id, manner or Manner(), limits or Limits())

    async def enqueue(self, new: "NewGoal", *, queue: str = "server") -> GoalView:
        """Store a new goal for the workers of a queue, which runs it when it has room.

        Raises: Invalid when it makes no sense; Conflict when its key was used; nothing is stored then.
        """
        self._require_open()
        state = await self._runner.enqueue(new, Manner(queue=queue))
        return await self.find(state.goal_id)

    async def enqueue_again(self, goal_id: str, limits: Limits, *, queue: str = "server") -> GoalView:
        """Leave a goal that nobody runs to the workers of a queue, with limits raised where they are given.

        Raises: NotFound; Conflict when another live worker runs it; Invalid when a limit is not above what was used.
        """
        self._require_open()
        await self._runner.settle(goal_id, queue=queue, limits=limits)
        return await self.find(goal_id)

    async def unheld(self, *, queue: str, limit: int, after: str | None = None) -> Sequence[GoalView]:
        """Return open goals of a queue that no other live worker owns, the oldest first.

        Goals of live workers are left out by the query, so that it ends after `limit` goals however many wait. Which
        workers live is learnt from the goals that are found: at most once more for each that was not known.
        """
        self._require_open()
        known = self._others
        self._others = await self._leases.living(known, observer(self._home)) if known else known
        while True:
            page = await self._store.unheld(queue=queue, held_by=self._others, limit=limit, after=after)
            seen = await self._seen(page)
            others = [goal.summary.worker for goal in seen if goal.is_running and not self.is_of_this_process(goal)]
            if not others:
                return seen
            self._others |= {worker for worker in others if worker is not None}

    def is_of_this_process(self, goal: GoalView) -> bool:
        """Tell whether the worker that owns a goal is this process."""
        return goal.summary.worker is not None and goal.summary.worker == self._runner.worker_id

    async def count_queued(self, *, queue: str) -> int:
        """Return how many open goals of a queue wait for a worker."""
        self._require_open()
        return await self._store.count_queued(queue=queue)

    async def started(self, new: "NewGoal") -> GoalView | None:
        """Return the goal that was started with the same key, if there is one.

        Raises: Conflict when that is another one.
        """
        self._require_open()
        known = await self._started(new)
        return None if known is None else await self.find(known)

    async def decide(
        self, goal_id: str, decision: str, *, call_id: str | None = None, value: Any = None, key: str | None = None
    ) -> GoalView:
        """Settle an open call, durably; the goal does not run because of it, unless somebody runs it anyway.

        Without a call's id, the only one that the decision fits is meant. The same key decides once. Of two decisions
        on one call at the same moment, one is accepted.

        Raises: NotFound; Invalid; Conflict, which says what was decided before, when it fits nothing that is open, or
        the key has decided something else; Damaged, and nothing is stored.
        """
        key, goal_id = asked.key(key), (await self._whole(goal_id)).goal_id
        given = {"decision": decision, "value": value, "call_id": call_id}
        if (known := await self._decided(goal_id, key, given)) is not None:
            return known
        try:
            state = await self.state(goal_id)
            chosen = choose(state, decision, call_id, value)
            admit = admit_decision(state, chosen)
            return await self._posts.post(
                goal_id, "decision", content_of(chosen), key=key, after=state.tip.seq, admit=admit
            )
        except Conflict:
            if (known := await self._decided(goal_id, key, given)) is not None:
                return known  # the same call, made twice at once
            raise

    async def _decided(self, goal_id: str, key: str | None, given: Mapping[str, Any]) -> GoalView | None:
        """Return the goal if a key has made a decision on it before.

        Raises: KeyTaken when that was another decision.
        """
        known = None if key is None else await self._store.posted_as(goal_id, key)
        if key is None or known is None:
            return None
        asked.same_decision(key, known, given)
        return replace(await self.find(goal_id), is_news=False)

    async def signal(self, goal_id: str, name: str, payload: Any = None, *, key: str | None = None) -> GoalView:
        """Tell a goal something that it waits for, or will wait for; the same key tells it once.

        Raises: NotFound; Invalid; Conflict when it has ended or is being cancelled, or was told something else with the
        same key; Damaged, and nothing is stored.
        """
        if not isinstance(name, str) or not name.strip():
            raise Invalid(f"A signal has a name, which is a text; found {name!r}.")
        key, goal = asked.key(key), await self._whole(goal_id)

        def admit(_events: Sequence[Event], pending: Sequence[InboxRow]) -> None:
            refuse_while_cancelled(goal_id, pending)

        content = content_of(Signal(name, payload))
        await self._require_unchanged(goal)
        return await self._posts.post(goal.goal_id, "signal", content, key=key, after=goal.last_seq, admit=admit)

    async def cancel(self, goal_id: str, *, key: str | None = None, wait_s: float = CANCEL_WAIT_S) -> GoalView:
        """End a goal, and return it as it is then; the worker that runs it ends what it has begun.

        A goal that has not ended after `wait_s` seconds is returned as it is, and its cancel stays pending.

        A goal that a live worker runs is cancelled even if its history is damaged: the worker does not load it again.

        Raises: NotFound; Conflict when it has ended, unless the same key has ended it; Damaged, and nothing is stored.
        """
        goal = await self._whole(goal_id)
        if not (await self._seen([goal]))[0].is_running:
            await self._require_unchanged(goal)
        told = await self._posts.post(goal.goal_id, "cancel", {}, key=asked.key(key))
        return replace(await self._posts.wait_for_end(told, wait_s), is_news=told.is_news)

    async def fork(self, goal_id: str, at: int, *, key: str | None = None) -> GoalView:
        """Make a goal that goes on from event `at` of another; what is open there is decided anew. It does not run yet.

        With a key, the same call makes one fork.

        Raises: NotFound; Invalid; Conflict when the goal has no such event, or has ended there, or the key was used.
        """
        if isinstance(at, bool) or not isinstance(at, int):
            raise Invalid(f"A fork is made at the number of an event, found {at!r}.")
        last_seq = (await self._whole(goal_id)).last_seq
        if not 1 <= at <= last_seq:
            raise Conflict(f"{goal_id} has events 1 to {last_seq}; there is no event {at} to fork from.")
        events = await self._store.load(goal_id, upto=at)  # what follows may be damaged
        require_unchanged(events, goal_id)
        if len(events) < at:
            raise damaged_event(goal_id, len(events) + 1, "is missing")
        key = asked.key(key)
        if key is not None and (known := await self._store.started(key)) is not None:
            return await self._same_fork(known, events[at - 1])
        try:
            return GoalView.of_state(await self._runner.fork(events, key))
        except Conflict:
            known = None if key is None else await self._store.started(key)
            if known is None:
                raise
            return await self._same_fork(known, events[at - 1])  # somebody else was quicker with the same key

    async def delete(self, goal_id: str) -> str:
        """Remove the history of a finished goal that has no forks, and return its id.

        Raises: NotFound; Conflict.
        """
        goal_id = (await self._whole(goal_id)).goal_id
        await self._store.delete(goal_id)
        return goal_id

    def interrupted(self) -> Sequence[Interrupted]:
        """Return the goals whose last run in this process was cancelled before its end."""
        return list(self._runner.interrupted.values())

    async def close(self) -> None:
        """Stop being a worker; nothing can be asked for any more."""
        self._is_closed = True
        await self._runner.close()

    async def _started(self, new: "NewGoal") -> str | None:
        """Return the goal that was started with the same key.

        Raises: Conflict when that is another one.
        """
        known = None if new.key is None else await self._store.started(new.key)
        if known is None:
            return None
        difference = new.differs_from(fold(await self._store.load(known.goal_id, upto=1)).begun)
        if difference is not None:
            goal_id = known.goal_id
            raise asked.KeyTaken(
                f"The key {new.key!r} started {goal_id}, {difference}. Use another key; or fork that goal, which is"
                f" {known.text!r} (`perdure goal fork {goal_id} --at SEQ`); or, once it has ended, delete it"
                f" (`perdure goal delete {goal_id}`), and the key is free. Nothing was run."
            )
        return known.goal_id

    async def _same_fork(self, known: Summary, left_at: Event) -> GoalView:
        """Return the fork that a key has made.

        Raises: Conflict when that is another one.
        """
        if known.forked_from is None or (known.forked_from.goal_id, known.forked_from.seq) != (
            left_at.goal_id,
            left_at.seq,
        ):
            raise asked.KeyTaken(
                f"The key started {known.goal_id}, which is no fork of {left_at.goal_id} at {left_at.seq}."
            )
        return replace((await self._seen([known]))[0], is_news=False)
