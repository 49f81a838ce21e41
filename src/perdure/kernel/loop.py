"""The loop: decide, record the intents, run them, record the outcomes, until the goal ends or waits for somebody.

N steps cost N + 1 commits: each outcome and the intents that follow from it are one append.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from perdure.errors import Unavailable
from perdure.kernel.calls import guards
from perdure.kernel.calls.admission import admit
from perdure.kernel.calls.child_calls import ChildCalls
from perdure.kernel.calls.cleanup import CleanupGrace, end_of, is_cleaning_up, overdue
from perdure.kernel.calls.decisions import elapsed, takes_posts
from perdure.kernel.calls.running_calls import RunningCalls
from perdure.kernel.calls.waking import Waking
from perdure.kernel.fold import GoalState
from perdure.kernel.history.step_names import is_sleep
from perdure.kernel.inbox import cut_short, take_posts
from perdure.kernel.journal import Journal
from perdure.kernel.mind import Decided
from perdure.kernel.ports import Clock, Inbox, LeaseLost
from perdure.kernel.recovery import give_up, recover
from perdure.kernel.run_context import Means

_CHILDREN_US = 500_000
"""How often a goal that stays because its children run asks whether they still do."""

TURN = "turn"

Outcome = Literal["ended", "waiting", "interrupted"]


@dataclass(frozen=True)
class Ran:
    """How a run of the loop ended, and where the goal stands."""

    outcome: Outcome
    state: GoalState
    queue: str
    """The queue that the goal is in."""
    is_recorded: bool = False
    """Whether the goal had ended before, so that nothing was run."""
    next_goals: Sequence[Any] = ()
    """The goals to continue with: the descendants that a goal waits for, or the parent of one that has ended."""


class Loop:
    """One run of one goal, by its owner.

    It belongs to the event loop that runs when it is made, and must be run there. `stop` and `look` may be called from
    any thread.
    """

    def __init__(self, journal: Journal, inbox: Inbox, means: Means, clock: Clock) -> None:
        self.journal = journal
        self._inbox = inbox
        self._means = means
        self._clock = clock
        self._waking = Waking(clock)
        self._calls = RunningCalls(journal, means, clock, self._waking.wake)
        self._children = ChildCalls(journal, means, self._calls)
        self._grace = CleanupGrace(means.cancel_grace_s, clock.now_us)
        self._wake_us: int | None = None
        self._again_s: float | None = None
        """When the mind wants to be asked again: at a moment, and after some time. See Decided."""
        self._known = 0
        """How many settled calls the mind knows of."""
        self._is_stopping = False
        self._deciding: asyncio.Task[Any] | None = None
        self._has_posts = False
        self._event_loop = asyncio.get_running_loop()

    @property
    def state(self) -> GoalState:
        return self.journal.state

    @property
    def active(self) -> Collection[str]:
        """What goes on here, by name: the calls that run, work of the mind, a turn of the loop; nothing when it waits.

        For a test that owns the clock, and moves it when nothing goes on.
        """
        mind = [] if self._again_s is None else ["mind"]
        turn = [] if self._waking.is_at_rest else [TURN]
        return {*self._calls.names, *mind, *turn}

    @property
    def due_us(self) -> int | None:
        """The next moment at which the goal continues by itself."""
        moments = [*self.state.timers().values(), *([] if self._wake_us is None else [self._wake_us])]
        return min(moments, default=None)

    def stop(self) -> None:
        """Begin nothing new, let what runs finish, then give the goal back. A mind that still decides is cut short."""
        self._call_in_loop(self._stop)

    def look(self) -> None:
        """Look into the inbox: somebody has posted something."""
        self._call_in_loop(self._look)

    def _call_in_loop(self, act: Callable[[], None]) -> None:
        """Call a function on the event loop of this run: at once when the caller is there, else as soon as it can."""
        if asyncio._get_running_loop() is self._event_loop:  # noqa: SLF001 (documented; None where there is no loop)
            act()
            return
        with suppress(RuntimeError):  # the event loop is closed: the run is over
            self._event_loop.call_soon_threadsafe(act)

    def _stop(self) -> None:
        self._is_stopping = True
        self._waking.wake()
        if self._deciding is not None:
            self._deciding.cancel()

    def _look(self) -> None:
        self._has_posts = True
        self._waking.wake()

    async def run(self, *, is_resumed: bool) -> Ran:
        """Run until the goal has ended, waits for somebody, or was stopped.

        Raises: Conflict when the goal is no longer ours; what runs is ended then.
        """
        try:
            if self._grace.is_over(self.state):
                await give_up(self.journal, self._means.tools)
                await self._end_cleanup()
            elif is_resumed:
                await self._means.mind.prepare(self.state)
                await self.journal.commit_opening()  # not before the mind has found its own history in it
                await recover(self.journal, self._means.tools, self._means.workdir, self._calls.tools.environment)
                await take_posts(self.journal, self._inbox, self._finish_all, cancelling=self._calls.cancelling)
                if await self._is_given_back():
                    return Ran("interrupted", self.state, self.journal.queue)
            return await self._run()
        except LeaseLost:
            raise Unavailable(
                f"The lease on {self.journal.goal_id} is too old to begin anything by: this process was stopped, or the"
                " database did not answer. Another worker may have the goal by now. If not, resume it."
            ) from None
        finally:
            await self._calls.end_all()
            await self._means.mind.close()

    async def _is_given_back(self) -> bool:
        """Give the goal back before what somebody who died has left is begun again, when we are to stop already."""
        if not self._is_stopping or self.journal.has_let_go():
            return False
        await self.journal.commit(release=True)
        return self.journal.has_let_go()

    async def _run(self) -> Ran:
        while not self.journal.has_let_go():
            if self._grace.is_over(self.state):
                await self._end_cleanup()
                break
            wake_us = await self._decide()
            outcome = self._outcome(wake_us)
            if outcome == "waiting" and await self._children.are_active():
                outcome, wake_us = None, self._clock.now_us() + _CHILDREN_US
            self.journal.is_due_if_left = self._is_due_if_left()
            done = await self.journal.commit(release=outcome is not None)
            if self.journal.has_let_go():
                return Ran(outcome or "ended", self.state, self.journal.queue)
            if self._has_posts or done.inbox_waiting:  # before anything begins: it may be a cancel
                self._has_posts = False
                await self._record_news()
                was_cancelled = is_cleaning_up(self.state)
                await take_posts(
                    self.journal,
                    self._inbox,
                    self._finish_all,
                    is_expected=done.inbox_waiting,
                    cancelling=self._calls.cancelling,
                )
                if not self.journal.has_let_go() and is_cleaning_up(self.state) == was_cancelled:
                    self._calls.start_new()
                self._collect()
            else:
                self._calls.start_new()
                if not await self._children.start_new():
                    await self._wait(wake_us)
                    await self._record_news()
                self._collect_unless_posted()
        return Ran("ended", self.state, self.journal.queue)

    def _is_due_if_left(self) -> bool:
        """Tell whether a goal that only waits has to be run again if this process dies.

        It has a child to start or to cancel, or a settled call that the mind does not know and could continue with.
        """
        has_unknown = self.state.reached_limit is None and len(self.state.settled) > self._known
        return has_unknown or bool(self._calls.cancelling) or bool(self._children.new())

    async def _record_news(self) -> None:
        """Record what the mind has decided by itself, before the outcomes that it did not know.

        A flow that is run again meets them in this order: the steps that it asked for after a sleep of its own keep
        their numbers, and a call that a deadline cancelled is cancelled, though it ended in the same moment.
        """
        is_over = self.state.termination is not None or self._is_stopping or self.state.reached_limit is not None
        if is_over or not self._means.mind.has_news():
            return
        decided = await self._decided()
        self._record_decided(replace(decided, end=None))  # the end is decided again when all is recorded
        self._calls.cancel(decided.cancelled)

    async def _decide(self) -> int | None:
        """Ask the mind, and record what it wants; return when it wants to be asked again."""
        self._wake_us = self._again_s = None
        state = self.state
        is_limited = state.reached_limit is not None and not is_cleaning_up(state)
        if state.termination is not None or self._is_stopping or is_limited:
            return None
        end = guards.verdict(state)
        if end is not None:
            self.journal.record(end)  # of the guard, not a decision of the mind; governed goals have no children
            return None
        decided = await self._decided()
        while decided.end is None and decided.cancelled:
            # Its actions come first: the mind wanted them before it knew of the cancelled calls' end.
            is_asked_again = self._record_decided(decided)
            if not self._calls.cancel(decided.cancelled):
                self._wake_us, self._again_s = decided.wake_us, decided.again_s
                return 0 if is_asked_again else decided.wake_us
            decided = await self._decided()
        self._calls.cancel(decided.cancelled)
        self._wake_us, self._again_s = decided.wake_us, decided.again_s
        return 0 if self._record_decided(decided) else decided.wake_us

    def _record_decided(self, decided: Decided) -> bool:
        """Record what the mind wants; tell whether the mind has to be asked again at once.

        That is when nothing is open afterwards, or something has ended already: a wait for a signal that had come.
        """
        settled_before = len(self.state.settled)
        if decided.unrecorded:
            self._calls.add_unrecorded(decided.unrecorded)
        bodies = admit(decided.actions, self.state, self._means.tools, self._means.policy)
        if decided.end is not None and not self._children.cancel_all():
            bodies.append(end_of(self.state, decided.end))
        self.journal.record(*bodies, is_decision=bool(bodies))
        return len(self.state.settled) > settled_before or (bool(bodies) and not self.state.open_calls)

    async def _decided(self) -> Decided:
        """Ask the mind; one that is cut short by a stop has decided nothing."""
        self._known = len(self.state.settled)
        self._deciding = task = asyncio.current_task()
        try:
            decided = await self._means.mind.decide(self.state, self._clock.now_us())
        except asyncio.CancelledError:
            if task is None or not self._is_stopping or task.uncancel() > 0:
                raise
            return Decided()
        finally:
            self._deciding = None
        self.journal.record(*decided.markers)
        self._end_abandoned()
        return decided

    def _end_abandoned(self) -> None:
        """End the calls without an intent that the mind no longer waits for: they leave nothing in the history."""
        if abandoned := self._means.mind.take_abandoned():
            self._calls.cancel(abandoned)

    def _outcome(self, wake_us: int | None) -> Outcome | None:
        """Say whether this run is over: nothing runs, and nothing will by itself."""
        state = self.state
        if state.termination is not None:
            return "ended"
        if state.is_busy or not self._calls.is_idle:
            return None
        if self._is_stopping:
            return "interrupted"
        if state.reached_limit is not None and not (is_cleaning_up(state) or self._children.new()):
            return "waiting"
        is_asked_again = wake_us is not None or self._again_s is not None
        if is_asked_again or is_cleaning_up(state) or self._children.new():
            return None
        return "waiting" if self._is_parked() else None

    def _is_parked(self) -> bool:
        """Return whether a goal that only waits is given back: not if it continues by itself soon.

        A deadline is not what a goal that asks a person waits for, so that person is asked at once, if wanted.
        """
        now_us, timers = self._clock.now_us(), self.state.timers()
        soon_us = now_us + self._means.park_after_s * 1_000_000
        near = {call_id: due_us for call_id, due_us in timers.items() if due_us <= soon_us}
        if not near:
            return True
        is_asking = self._means.parks_for_person and self.state.waiting_for == "person"
        is_due = min(near.values()) <= now_us
        return is_asking and not is_due and not any(is_sleep(self.state.open_calls[each]) for each in near)

    def _collect(self) -> None:
        """Record the outcomes that are there, and the timers that have run out; nothing follows the end of the goal."""
        if self.state.termination is not None:
            return
        self._collect_calls()
        if self.state.timers() and self.state.termination is None:
            self.journal.record(*elapsed(self.state, self._clock.now_us()))

    def _collect_unless_posted(self) -> None:
        """Record what has come; a timer that is due only after the inbox, if a post can settle what is open.

        What was posted before a deadline is in time, also when it is taken after it.
        """
        timers = self.state.timers()
        is_due = bool(timers) and min(timers.values()) <= self._clock.now_us()
        if is_due and any(takes_posts(call) for call in self.state.open_calls.values()):
            self._collect_calls()
            self._has_posts = True
        else:
            self._collect()

    def _collect_calls(self) -> None:
        """Record the outcomes of calls; the mind may have abandoned one that has ended since it decided."""
        self._end_abandoned()
        self._calls.collect()

    async def _wait(self, wake_us: int | None) -> None:
        """Wait for an outcome, a stop, a post or a moment."""
        due_us = self._grace.due_us(self.state)
        moments = [*self.state.timers().values(), *(each for each in (wake_us, due_us) if each is not None)]
        pauses = [max(min(moments) - self._clock.now_us(), 0) / 1e6] if moments else []
        if self._again_s is not None:
            pauses.append(self._again_s)
        await self._waking.wait(min(pauses, default=None))

    async def _end_cleanup(self) -> None:
        """End a goal whose cleanup took too long, and all that still runs of it."""
        unended = await self._finish_all()
        self.journal.record(*cut_short(self.state, self._clock.now_us(), unended))
        self.journal.record(overdue(self.state, self._means.cancel_grace_s))
        await self.journal.commit(release=True)

    async def _finish_all(self) -> Collection[str]:
        """Record what has ended, and end what still runs; return the calls that do not let themselves be ended."""
        self._collect()
        return await self._calls.finish()
