"""Asks the mind of one run, and records what it proposes."""

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
"""What a goal waits for after a decision although nothing is open: the mind is not asked again at once."""


class Decider:
    """What the mind of a goal decides in one run; `wake` wakes the loop up when a slow decision can be taken."""

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
        self._deliberation = Deliberation(run_context.mind, wake, run_context.keep)
        self.wake_us: int | None = None
        self.again_s: float | None = None
        """When the mind wants to be asked again: at a moment, and after some time. See Proposal."""
        self.known = 0
        """How many settled calls the mind knows of."""
        self.unjudged = [call_id for call_id in self._state.governed if call_id in self._state.open_calls]
        """Calls of a model that the policy judges when their turn comes, and those that an earlier run has left."""
        self._is_stopping = False
        self._deciding: asyncio.Task[Any] | None = None

    @property
    def _state(self) -> GoalState:
        return self._journal.state

    @property
    def is_slow_at_work(self) -> bool:
        """Whether a slow mind decides, or its decision was not taken yet."""
        return self._deliberation.has_begun

    def stop(self) -> None:
        """Cut short a mind that decides; what it decides by then is still taken."""
        self._is_stopping = True
        if self._deciding is not None:
            self._deciding.cancel()

    def forget_moments(self) -> None:
        """Forget when the mind wanted to be asked again."""
        self.wake_us = self.again_s = None

    async def decide(self) -> int | None:
        """Ask the mind and record what it wants; return when it wants to be asked again."""
        proposal = await self.ask()
        while proposal.end is None and proposal.cancelled:
            # Its actions come first: the mind wanted them before it knew of the cancelled calls' end.
            is_asked_again = self.record(proposal)
            if not self._calls.cancel(proposal.cancelled):
                self.wake_us, self.again_s = proposal.wake_us, proposal.again_s
                return 0 if is_asked_again else proposal.wake_us
            proposal = await self.ask()
        return self._take(proposal)

    async def begin_slow(self, *, has_posts: bool) -> bool:
        """Ask a slow mind when all that is recorded is durable, unless a post waits that it should know of.

        Return whether there is such a post.
        """
        done = await self._journal.commit()
        if has_posts or done.inbox_waiting:
            return True
        self.known = len(self._state.settled)
        self._deliberation.begin(self._state, self._clock.now_us())
        return False

    async def take_slow(self) -> int | None:
        """Record what a slow mind wants, once it has answered; it is asked again if more has happened meanwhile."""
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
        """End the answer of a model for a person who stops it; return what to record. Calls in it do not begin."""
        proposal = await self._deliberation.end(self._run_context.end_within_s)
        return interrupted(self._state, proposal)

    async def end_slow(self) -> None:
        """Cancel a decision in progress; nothing of it is recorded."""
        await self._deliberation.end(self._run_context.end_within_s)

    def judge_calls(self) -> None:
        """Let the policy judge the calls whose turn has come; a denial settles its call, so the next one has its turn.

        The calls that an earlier run left without an approval are judged again: this run may have another policy.
        """
        for call_id in self.unjudged:
            found = self._state.open_calls.get(call_id)
            if found is not None and found.awaits_approval and isinstance(found.call, ToolCall):
                self._journal.record(*judge(found.call, self._run_context.policy))
        self.unjudged = [*self._state.queued.values()]

    async def ask(self) -> Proposal:
        """Ask the mind; one that is cut short by a stop has decided nothing."""
        self.known = len(self._state.settled)
        self._deciding = task = asyncio.current_task()
        try:
            proposal = await self._run_context.mind.decide(self._state, self._clock.now_us())
        except asyncio.CancelledError:
            if task is None or not self._is_stopping or task.uncancel() > 0:
                raise
            return Proposal()
        finally:
            self._deciding = None
        self._journal.record(*proposal.events)
        self.end_abandoned()
        return proposal

    def end_abandoned(self) -> None:
        """End the calls without an intent that the mind no longer waits for: they leave nothing in the history."""
        if abandoned := self._run_context.mind.take_abandoned():
            self._calls.cancel(abandoned)

    def record(self, proposal: Proposal, events: Sequence[Body] = ()) -> bool:
        """Record what the mind wants, behind its own events; tell whether the mind has to be asked again at once.

        That is when nothing is open afterwards, or something has ended already: a wait for a signal that had come.
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
