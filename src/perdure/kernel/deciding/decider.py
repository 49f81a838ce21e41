"""Asks the mind of one run, and records its proposals."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from perdure.kernel.calls.child_calls import ChildCalls
from perdure.kernel.calls.cleanup import end_of
from perdure.kernel.calls.running_calls import RunningCalls
from perdure.kernel.deciding.admission import admit, judge
from perdure.kernel.deciding.deliberation import Deliberation
from perdure.kernel.deciding.interruption import interrupted
from perdure.kernel.events import Body, ModelTurn, ToolCall
from perdure.kernel.fold import GoalState
from perdure.kernel.journal import Journal
from perdure.kernel.mind import Proposal
from perdure.kernel.ports import Clock
from perdure.kernel.run_context import RunContext

_AWAITED = ("limit", "message", "model")
"""Waits without an open call: after such a proposal, the mind is not asked again at once."""


class Decider:
    """Asks the mind of a goal in one run; `wake` wakes the loop when the proposal of a slow mind can be taken."""

    def __init__(
        self,
        journal: Journal,
        run_context: RunContext,
        clock: Clock,
        calls: RunningCalls,
        children: ChildCalls,
        wake: Callable[[object], None],
    ) -> None:
        self._journal = journal
        self._run_context = run_context
        self._clock = clock
        self._calls = calls
        self._children = children
        self._wake = wake
        self._deliberation = Deliberation(run_context.mind, wake, run_context.keep)
        self.wake_us: int | None = None
        self.again_s: float | None = None
        """When to ask the mind again: at the moment `wake_us`, and after `again_s` seconds. See Proposal."""
        self.known = 0
        """The number of settled calls that the mind knows."""
        self.notes: Sequence[Body] = ()
        """Events of the last proposal to record in front of the next event. See Proposal."""
        self.unjudged = [call_id for call_id in self._state.governed if call_id in self._state.open_calls]
        """Calls of a model that the policy has yet to judge, including those of an earlier run."""
        self._is_stopping = False
        self._deciding_task: asyncio.Task[Any] | None = None

    @property
    def _state(self) -> GoalState:
        return self._journal.state

    @property
    def is_slow_at_work(self) -> bool:
        """Whether a slow mind is deciding, or its proposal was not taken yet."""
        return self._deliberation.has_begun

    def stop(self) -> None:
        """Interrupt a mind that is deciding; what it has decided by then is still recorded."""
        self._is_stopping = True
        if self._deciding_task is not None:
            self._deciding_task.cancel()

    def forget_moments(self) -> None:
        """Reset `wake_us` and `again_s`."""
        self.wake_us = self.again_s = None

    async def decide(self) -> int | None:
        """Ask the mind and record its proposal; return the moment to ask it again."""
        proposal = await self.ask()
        while proposal.end is None and proposal.cancelled:
            # Its actions are recorded first: the mind decided them before the cancelled calls had ended.
            is_asked_again = self.record(proposal)
            if not self._calls.cancel(proposal.cancelled):
                self.wake_us, self.again_s = proposal.wake_us, proposal.again_s
                return 0 if is_asked_again else proposal.wake_us
            proposal = await self.ask()
        return self._take(proposal)

    async def begin_slow(self, *, has_posts: bool) -> bool:
        """Make all events durable and ask a slow mind, unless a post is pending, which it should know.

        Return whether a post is pending.
        """
        done = await self._journal.commit()
        if has_posts or done.inbox_waiting:
            return True
        self.known = len(self._state.settled)
        self._deliberation.begin(self._state, self._clock.now_us())
        return False

    async def take_slow(self) -> int | None:
        """Record the proposal of a slow mind, if it has answered; ask again if events were recorded meanwhile."""
        proposal = self._deliberation.take()
        if proposal is None and self._is_stopping:
            cut_short = await self._deliberation.end(self._run_context.end_within_s)
            proposal = cut_short if self._run_context.records_cut_short else None
        if proposal is None or self._state.termination is not None:
            return None
        has_grown = self._state.head.seq > self._deliberation.began_seq
        wake_us = self._take(proposal, proposal.events)
        if self._state.waiting_for in _AWAITED:
            return None
        return 0 if has_grown else wake_us

    async def interrupt(self) -> Sequence[Body]:
        """Interrupt the answer of a model for a person; return the events to record. Its calls are not started."""
        proposal = await self._deliberation.end(self._run_context.end_within_s)
        return interrupted(self._state, proposal)

    async def end_slow(self) -> None:
        """Cancel a slow mind that is deciding, without recording any of its proposal."""
        await self._deliberation.end(self._run_context.end_within_s)

    def judge_calls(self) -> None:
        """Judge the calls that wait for the policy. A denial settles its call, so the next call in order can be judged.

        Calls that an earlier run left without an approval are judged again, because the policy may have changed.
        """
        for call_id in self.unjudged:
            found = self._state.open_calls.get(call_id)
            if found is not None and found.awaits_approval and isinstance(found.call, ToolCall):
                self._journal.record(*judge(found.call, self._run_context.policy))
        self.unjudged = [*self._state.queued.values()]

    async def ask(self) -> Proposal:
        """Ask the mind; if a stop interrupts it, the proposal is empty."""
        self.known = len(self._state.settled)
        self._deciding_task = task = asyncio.current_task()
        try:
            proposal = await self._run_context.mind.decide(self._state, self._clock.now_us())
        except asyncio.CancelledError:
            if task is None or not self._is_stopping or task.uncancel() > 0:
                raise
            return Proposal()
        finally:
            self._deciding_task = None
        if proposal.events or proposal.notes:
            self._record_first(proposal)
        if proposal.news is not None:
            proposal.news.add_done_callback(self._wake)
        self.end_abandoned()
        return proposal

    def _record_first(self, proposal: Proposal) -> None:
        """Record the events of a mind that precede its proposal; notes only if something follows them."""
        self.notes = proposal.notes
        if proposal.events or proposal.actions or proposal.cancelled or proposal.end is not None:
            self.record_notes()
        self._journal.record(*proposal.events)
        self.known = len(self._state.settled)

    def record_notes(self) -> None:
        """Record the notes of the last proposal, unless they are recorded."""
        if self.notes:
            notes, self.notes = self.notes, ()
            self._journal.record(*notes)
            self.known += len(notes)

    def end_abandoned(self) -> None:
        """Cancel calls without an intent that the mind abandoned. They leave no trace in the history."""
        if abandoned := self._run_context.mind.take_abandoned():
            self._calls.cancel(abandoned)

    def record(self, proposal: Proposal, events: Sequence[Body] = ()) -> bool:
        """Record the events of a mind and then its proposal; return whether the mind must be asked again at once.

        That is the case if no call is open afterwards, or if one has ended at once: a wait for an earlier signal.
        """
        state = self._state
        settled_before = len(state.settled)
        if proposal.unrecorded:
            self._calls.add_unrecorded(proposal.unrecorded)
        tools, policy = self._run_context.tools, self._run_context.policy
        bodies = admit(proposal.actions, state, tools, policy, in_order=proposal.in_order)
        if proposal.end is not None and not self._children.cancel_all():
            bodies.append(end_of(state, proposal.end))
        is_decision = bool(bodies) or any(isinstance(body, ModelTurn) for body in events)
        self._journal.record(*events, *bodies, is_decision=is_decision)
        if proposal.in_order:
            self.unjudged = [*state.queued.values()]
        return len(state.settled) > settled_before or (bool(bodies or events) and not state.open_calls)

    def _take(self, proposal: Proposal, events: Sequence[Body] = ()) -> int | None:
        self._calls.cancel(proposal.cancelled)
        self.wake_us, self.again_s = proposal.wake_us, proposal.again_s
        return 0 if self.record(proposal, events) else proposal.wake_us
