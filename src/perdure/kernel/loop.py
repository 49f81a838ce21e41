"""The loop: decide, record the intents, run them, record the outcomes, until the goal ends or waits.

N steps cost N + 1 commits: each outcome and the intents that follow from it are one append.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from perdure.errors import Unavailable
from perdure.kernel.calls.child_calls import ChildCalls
from perdure.kernel.calls.cleanup import CleanupGrace, is_cleaning_up, overdue
from perdure.kernel.calls.decisions import elapsed, takes_posts
from perdure.kernel.calls.progress import ProgressFeed
from perdure.kernel.calls.running_calls import RunningCalls
from perdure.kernel.calls.waking import Waking
from perdure.kernel.deciding import guards
from perdure.kernel.deciding.decider import Decider
from perdure.kernel.events import Body, Termination
from perdure.kernel.fold import GoalState
from perdure.kernel.history.repetition import ChildEffects
from perdure.kernel.history.step_names import is_sleep
from perdure.kernel.inbox import Handling, cut_short, take_posts
from perdure.kernel.journal import Journal
from perdure.kernel.ports import Appended, Clock, Inbox, LeaseLost
from perdure.kernel.recovery import give_up, recover
from perdure.kernel.run_context import RunContext

_CHILDREN_US = 500_000
"""The interval at which a goal that waits for its running children asks whether they still run."""

TURN = "turn"

Outcome = Literal["ended", "waiting", "interrupted"]


@dataclass(frozen=True)
class RunResult:
    """How a run of the loop ended, and the state of the goal."""

    outcome: Outcome
    state: GoalState
    queue: str
    """The queue that the goal is in."""
    start_key: str | None = None
    """The start key that finds the goal, if it has one."""
    is_recorded: bool = False
    """Whether the goal had ended before, so that no call was run."""
    next_goals: Sequence[Any] = ()
    """The goals to continue with: the descendants that a goal waits for, or the parent of one that has ended."""
    child_effects: ChildEffects | None = None
    """The effects of children, for a goal that can be continued by a fork; None if they were not read."""


class Loop:
    """One run of one goal, by its owner.

    It must be constructed and run on the same event loop. `stop` and `check_inbox` may be called from any thread.
    """

    def __init__(self, journal: Journal, inbox: Inbox, run_context: RunContext, clock: Clock) -> None:
        self.journal = journal
        self._inbox = inbox
        self._run_context = run_context
        self._clock = clock
        self._waking = Waking(clock)
        self._event_loop = asyncio.get_running_loop()
        self.progress = ProgressFeed(journal.goal_id, self._event_loop)
        """The progress reports of running calls."""
        self.answers = run_context.answers
        """The answers of a model while they arrive."""
        self._calls = RunningCalls(journal, run_context, clock, self._waking.wake, self.progress.report)
        self._children = ChildCalls(journal, run_context, self._calls)
        self._grace = CleanupGrace(run_context.cancel_grace_s, clock.now_us)
        self._decider = Decider(journal, run_context, clock, self._calls, self._children, self._waking.wake)
        self._handling = Handling(
            self._finish_all,
            self._interrupt,
            lambda: self._decider.is_slow_at_work,
            cancelling=self._calls.cancelling,
        )
        self._is_stopping = False
        self._has_posts = False

    @property
    def state(self) -> GoalState:
        return self.journal.state

    @property
    def active(self) -> Collection[str]:
        """The names of all activities: calls, work of the mind, a turn of the loop; empty while the loop waits.

        For tests that control the clock, and advance it only when there is no activity.
        """
        mind = ["mind"] if self._decider.again_s is not None or self._decider.is_slow_at_work else []
        turn = [] if self._waking.is_at_rest else [TURN]
        return {*self._calls.names, *mind, *turn}

    @property
    def due_us(self) -> int | None:
        """The next moment at which the goal continues by itself."""
        moments = [*self.state.timers().values(), *([] if self._decider.wake_us is None else [self._decider.wake_us])]
        return min(moments, default=None)

    def stop(self) -> None:
        """Start no new call, wait for running calls, then release the goal. A mind that is deciding is interrupted."""
        self._call_in_loop(self._stop)

    def check_inbox(self) -> None:
        """Read the inbox after a post."""
        self._call_in_loop(self._check_inbox)

    def _call_in_loop(self, act: Callable[[], None]) -> None:
        """Call a function on the event loop of this run: at once from that loop, else as soon as possible."""
        if asyncio._get_running_loop() is self._event_loop:  # noqa: SLF001 (documented; None where there is no loop)
            act()
            return
        with suppress(RuntimeError):  # the event loop is closed: the run is over
            self._event_loop.call_soon_threadsafe(act)

    def _stop(self) -> None:
        self._is_stopping = True
        self._waking.wake()
        self._decider.stop()

    def _check_inbox(self) -> None:
        self._has_posts = True
        self._waking.wake()

    async def run(self, *, is_resumed: bool) -> RunResult:
        """Run until the goal has ended, waits, or was stopped.

        Raises: Conflict when another worker owns the goal; running calls are ended then.
        """
        try:
            await self._run_context.tools.open()
            if self._grace.is_over(self.state):
                await give_up(self.journal, self._run_context.tools)
                await self._end_cleanup()
            elif is_resumed or self._run_context.mind.is_slow:
                opening = await self._run_context.mind.prepare(self.state, self._run_context.tools)
                await self.journal.commit_opening()  # only after the mind has accepted the history
                self.journal.record(*opening)
                if is_resumed and await self._recover():
                    return self._result("interrupted")
            return await self._run()
        except LeaseLost:
            raise Unavailable(
                f"The lease on {self.journal.goal_id} is too old to start a call: this process was suspended, or the"
                " database did not answer. Another worker may have the goal by now. If not, resume it."
            ) from None
        finally:
            await self._calls.end_all()
            await self._decider.end_slow()
            await self._run_context.mind.close()
            await self._run_context.tools.close()

    async def _recover(self) -> bool:
        """Settle the open calls of an earlier run, and take posts; return whether the goal was released."""
        run = self._run_context
        await recover(self.journal, run.tools, run.workdir, self._calls.tools.environment)
        await take_posts(self.journal, self._inbox, self._handling)
        return await self._release_if_stopping()

    async def _release_if_stopping(self) -> bool:
        """Release the goal if the run is stopping, before calls of a dead worker are run again."""
        if not self._is_stopping or self.journal.is_released():
            return False
        await self.journal.commit(release=True)
        return self.journal.is_released()

    async def _run(self) -> RunResult:
        while not self.journal.is_released():
            if self._grace.is_over(self.state):
                await self._end_cleanup()
                break
            wake_us = await self._decide()
            outcome = self._outcome(wake_us)
            if outcome == "waiting" and await self._children.are_active():
                outcome, wake_us = None, self._clock.now_us() + _CHILDREN_US
            done = await self._commit(release=outcome is not None)
            if self.journal.is_released():
                return self._result(outcome or "ended")
            if self._has_posts or done.inbox_waiting:  # before anything begins: it may be a cancel
                self._has_posts = False
                await self._record_news(is_posted=True)
                was_cancelled = is_cleaning_up(self.state)
                await take_posts(self.journal, self._inbox, self._handling, is_expected=done.inbox_waiting)
                if not self.journal.is_released() and is_cleaning_up(self.state) == was_cancelled:
                    self._calls.start_new()
                self._collect()
            else:
                self._calls.start_new()
                if not await self._children.start_new():
                    await self._wait(wake_us)
                    await self._record_news()
                self._collect_unless_posted()
        return self._result("ended")

    def _result(self, outcome: Outcome) -> RunResult:
        return RunResult(outcome, self.state, self.journal.queue, self.journal.start_key)

    async def _commit(self, *, release: bool) -> Appended:
        """Make a proposal of the mind durable. Its notes are recorded if a child starts, or if the goal is released."""
        if self._decider.notes and (release or self._children.new()):
            self._decider.record_notes()
        self.journal.is_due_if_left = self._is_due_if_left()
        return await self.journal.commit(release=release)

    def _is_due_if_left(self) -> bool:
        """Return whether a waiting goal must be run again if this process dies.

        That is the case if a child must be started or cancelled, or if a call was settled since the mind was asked.
        """
        has_unknown = self.state.reached_limit is None and len(self.state.settled) > self._decider.known
        return has_unknown or bool(self._calls.cancelling) or bool(self._children.new())

    async def _record_news(self, *, is_posted: bool = False) -> None:
        """Record what the mind has decided by itself, before outcomes that it did not know.

        A replay of a flow must see the same order: then the steps that it asked for after an unrecorded sleep keep
        their numbers, and a call that a deadline cancelled is cancelled although it ended in the same moment.
        """
        is_over = self.state.termination is not None or self._is_stopping or self.state.reached_limit is not None
        if not is_over and self._run_context.mind.has_news():
            proposal = await self._decider.ask()
            self._decider.record(replace(proposal, end=None))  # the end is decided again when all is recorded
            self._calls.cancel(proposal.cancelled)
        if self._decider.notes and (is_posted or self._has_outcomes()):
            self._decider.record_notes()

    def _has_outcomes(self) -> bool:
        """Return whether a call has ended or a timer has elapsed, and is not recorded yet."""
        first_us = min(self.state.timers().values(), default=math.inf)
        return self._calls.has_ended or first_us <= self._clock.now_us()

    async def _decide(self) -> int | None:
        """Ask the mind, and record its proposal; return the moment to ask it again."""
        state, decider = self.state, self._decider
        decider.forget_moments()
        if (decider.unjudged or state.queued) and state.termination is None and not self._is_stopping:
            decider.judge_calls()
        if decider.is_slow_at_work:
            return await decider.take_slow()
        is_limited = state.reached_limit is not None and not is_cleaning_up(state)
        if state.termination is not None or self._is_stopping or is_limited:
            return None
        end = guards.termination(state)
        if end is not None:
            await self._end_by_guard(end)
            return None
        if self._run_context.mind.is_slow:
            self._has_posts = await self._decider.begin_slow(has_posts=self._has_posts)
            return 0 if self._has_posts else None
        return await self._decider.decide()

    async def _end_by_guard(self, end: Termination) -> None:
        """End a goal by a guard, after its children and running calls have ended."""
        if self._children.cancel_all():
            return
        if self.state.open_calls:
            unended = await self._finish_all()
            self.journal.record(*cut_short(self.state, self._clock.now_us(), unended))
        self.journal.record(end)

    def _outcome(self, wake_us: int | None) -> Outcome | None:
        """Return how this run ends; None while a call runs or the goal can continue by itself soon."""
        state = self.state
        if state.termination is not None:
            return "ended"
        if state.is_busy or not self._calls.is_idle or self._decider.is_slow_at_work:
            return None
        if self._is_stopping:
            return "interrupted"
        if state.reached_limit is not None and not (is_cleaning_up(state) or self._children.new()):
            return "waiting"
        is_asked_again = wake_us is not None or self._decider.again_s is not None
        if is_asked_again or is_cleaning_up(state) or self._children.new():
            return None
        return "waiting" if self._can_park() else None

    def _can_park(self) -> bool:
        """Return whether a waiting goal is parked: released, unless a timer continues it soon.

        With `parks_for_person`, a question is shown at once even if its deadline is near.
        """
        now_us, timers = self._clock.now_us(), self.state.timers()
        soon_us = now_us + self._run_context.park_after_s * 1_000_000
        near = {call_id: due_us for call_id, due_us in timers.items() if due_us <= soon_us}
        if not near:
            return True
        is_asking = self._run_context.parks_for_person and self.state.waiting_for == "person"
        is_due = min(near.values()) <= now_us
        return is_asking and not is_due and not any(is_sleep(self.state.open_calls[each]) for each in near)

    def _collect(self) -> None:
        """Record available outcomes and elapsed timers, unless the goal has ended."""
        if self.state.termination is not None:
            return
        self._collect_calls()
        if self.state.timers() and self.state.termination is None:
            self.journal.record(*elapsed(self.state, self._clock.now_us()))

    def _collect_unless_posted(self) -> None:
        """Record outcomes and elapsed timers. If a post could settle an open call, read the inbox before the timers.

        So a post before a deadline is in time even if it is taken after the deadline.
        """
        timers = self.state.timers()
        is_due = bool(timers) and min(timers.values()) <= self._clock.now_us()
        if is_due and any(takes_posts(call) for call in self.state.open_calls.values()):
            self._collect_calls()
            self._has_posts = True
        else:
            self._collect()

    def _collect_calls(self) -> None:
        """Record the outcomes of calls, except those that the mind has abandoned since its last proposal."""
        self._decider.end_abandoned()
        self._calls.collect()

    async def _wait(self, wake_us: int | None) -> None:
        """Wait for an outcome, a stop, a post or a moment."""
        due_us = self._grace.due_us(self.state)
        moments = [*self.state.timers().values(), *(each for each in (wake_us, due_us) if each is not None)]
        pauses = [max(min(moments) - self._clock.now_us(), 0) / 1e6] if moments else []
        if self._decider.again_s is not None:
            pauses.append(self._decider.again_s)
        await self._waking.wait(min(pauses, default=None))

    async def _end_cleanup(self) -> None:
        """End a goal whose cleanup took too long, with all its running calls."""
        unended = await self._finish_all()
        self.journal.record(*cut_short(self.state, self._clock.now_us(), unended))
        self.journal.record(overdue(self.state, self._run_context.cancel_grace_s))
        await self.journal.commit(release=True)

    async def _interrupt(self) -> Sequence[Body]:
        """End the answer of a model after a `stop`, and read the inbox again for messages that waited for its end."""
        self._has_posts = True
        return await self._decider.interrupt()

    async def _finish_all(self) -> Collection[str]:
        """Record finished calls and end running ones; return the calls that could not be ended."""
        self._collect()
        await self._decider.end_slow()
        return await self._calls.finish()
