"""The calls of one goal that run: begun, cancelled, collected, and ended with the run.

Each call runs in a task whose result is how the call ended. A call that is cancelled keeps its place: the task that
ends it replaces the one that ran it, so a call is recorded once, when nothing of it runs any more.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from perdure.errors import Invalid
from perdure.kernel.calls.cancellation import cancelled as cancelled_outcome
from perdure.kernel.calls.cancellation import cut_off_call
from perdure.kernel.calls.children import child_of, open_children, outcome_of
from perdure.kernel.calls.tasks import end_tasks
from perdure.kernel.calls.tool_runs import NOTHING_USED, Ended, ToolRuns
from perdure.kernel.events import Body, Decision, OutcomeUnknown, ToolCall, ToolOutput
from perdure.kernel.history.call_state import CallState
from perdure.kernel.journal import Journal
from perdure.kernel.ports import Clock
from perdure.kernel.run_context import RunContext
from perdure.kernel.tool import Used

_CHECK_S = 2.0
"""How long the end of a cancelled goal waits for the checks of the steps that it cuts off."""

log = logging.getLogger(__name__)


class RunningCalls:
    """What runs of one goal in this process; `on_end` is called when a call can be collected."""

    def __init__(
        self,
        journal: Journal,
        run_context: RunContext,
        clock: Clock,
        on_end: Callable[[object], None],
        report: Callable[[str, Any], None],
    ) -> None:
        self.tools = ToolRuns(journal, run_context, clock, report)
        self._journal = journal
        self._run_context = run_context
        self._clock = clock
        self._on_end = on_end
        self._running: dict[str, asyncio.Task[Ended]] = {}
        self._started: dict[str, ToolCall] = {}
        """The calls in `_running`."""
        self.cancelling: set[str] = set()
        """Those of them that the mind has cancelled."""
        self._without_intent: set[str] = set()
        """Those of them that are pure, and so are not open in the state."""
        self._unrecorded: list[ToolCall] = []
        """Pure calls that are to begin."""
        self._unwanted: list[ToolCall] = []
        """Cancelled calls whose children are to be ended."""

    @property
    def names(self) -> Collection[str]:
        """The ids of the calls that run."""
        return self._running.keys()

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs, no call without an intent is to begin, and no child is to be ended."""
        return not (self._running or self._unrecorded or self._unwanted)

    def add_unrecorded(self, calls: Sequence[ToolCall]) -> None:
        """Begin pure calls with the next `start_new`: they have no intent, so the state does not know them."""
        self._unrecorded += calls

    def start_new(self) -> None:
        """Begin every call that is to run and does not: decided just now, approved, or left by a dead worker.

        Children are ended here, too, because what they are cancelled for is durable now: a flow that is run again
        cancels them again.
        """
        new, self._unrecorded = self._unrecorded, []
        unwanted, self._unwanted = self._unwanted, []
        for call in unwanted:
            self._watch(call, self._end_child(call))
        open_calls = self._journal.state.open_calls
        if len(self._running) - len(self._without_intent) < len(open_calls):
            new += [call.call for call in open_calls.values() if isinstance(call.call, ToolCall) and call.runs]
        for call in new:
            if call.call_id not in self._running:
                self._watch(call, self.tools.run(call))

    def _watch(self, call: ToolCall, run: Coroutine[Any, Any, Ended]) -> None:
        """Run something whose result is how a call ended."""
        task = asyncio.create_task(run)
        task.add_done_callback(self._on_end)
        self._running[call.call_id] = task
        if call.call_id not in self._journal.state.open_calls:
            self._without_intent.add(call.call_id)
        self._started[call.call_id] = call

    def collect(self) -> None:
        """Record the outcomes of the calls that have ended."""
        for call_id in [call_id for call_id, task in self._running.items() if task.done()]:
            self._record(*self._running.pop(call_id).result())
            self.cancelling.discard(call_id)
            self._without_intent.discard(call_id)
            del self._started[call_id]

    def _record(self, call: ToolCall, bodies: Sequence[Body]) -> None:
        """Record how a call ended; a `once` call whose outcome cannot be stored becomes unknown."""
        try:
            self._journal.record(*bodies)
        except Invalid as error:
            why = f"The call has ended, but its outcome cannot be kept: {error.detail}"
            is_once = call.effect == "once"
            self._journal.record(OutcomeUnknown(call.call_id, why) if is_once else self.tools.failure(call, error))

    def cancel(self, cancelled: Collection[str]) -> bool:
        """End calls that the mind does not want any more; tell whether one of them is settled by that at once.

        A call that runs is settled when what it has begun has ended.
        """
        if not cancelled:
            return False
        is_settled = False
        self._unrecorded = [call for call in self._unrecorded if call.call_id not in cancelled]
        for call_id in cancelled:
            running, found = self._running.get(call_id), self._journal.state.open_calls.get(call_id)
            if running is not None and call_id not in self.cancelling:
                self.cancelling.add(call_id)
                call = self._started[call_id]
                self._watch(call, self._end_call(call, running))
            elif running is None and found is not None and isinstance(found.call, ToolCall) and found.is_child:
                if call_id not in self.cancelling:  # its child ends before it
                    self.cancelling.add(call_id)
                    self._unwanted.append(found.call)
            elif running is None and found is not None:
                is_settled = True
                self._journal.record(self._cancelled(found))
        return is_settled

    async def _end_call(self, call: ToolCall, running: "asyncio.Task[Ended]") -> Ended:
        """End a call that runs, and return what to record of it: cancelled, also when it has a result by then.

        The flow is given CancelledError in any case, and must be given it again when it is run again.
        """
        left = await end_tasks([running], self._run_context.end_within_s)
        for task in left:
            self._run_context.keep(task)
        found = self._journal.state.open_calls.get(call.call_id)
        if found is None:
            return call, []  # a pure call: nothing of it is recorded, and nothing has to be
        bodies = [] if left or running.cancelled() else running.result()[1]
        used = self._used(call, bodies)
        done = [body for body in bodies if isinstance(body, ToolOutput) and body.ok]
        if done:
            outcome = cancelled_outcome(found, self._clock.now_us(), "yes")
            return call, [_with(outcome, used, done[0].output)]
        happened, output = await self.tools.check(call) if call.effect == "once" and not left else (None, None)
        if happened == "no" and any(isinstance(body, OutcomeUnknown) for body in bodies):
            happened = "unknown"  # it may still run on a thread, and have its effect later
        return call, [_with(cancelled_outcome(found, self._clock.now_us(), happened), used, output)]

    def _used(self, call: ToolCall, bodies: Sequence[Body]) -> Used:
        """Return what a call had used that was cancelled: as its outcome says, if it has one, or as its tool says."""
        known = [Used(body.usage, body.meta) for body in bodies if isinstance(body, ToolOutput)]
        return known[0] if known and known[0] != NOTHING_USED else self.tools.used(call.call_id)

    async def _end_child(self, call: ToolCall) -> Ended:
        """Cancel the child of a call, and return what to record of the call."""
        found = self._journal.state.open_calls[call.call_id]
        await self._run_context.children.cancel([child_of(found)])
        ended = await outcome_of(self._journal.store, self._journal.state, child_of(found))
        outcome = self._cancelled(found)
        if ended is None or not isinstance(outcome, ToolOutput):
            return call, [outcome]
        return call, [replace(outcome, usage=ended.usage, duration_ms=ended.duration_ms)]

    def _cancelled(self, found: CallState) -> Body:
        return cancelled_outcome(found, self._clock.now_us())

    async def finish(self) -> Collection[str]:
        """End what still runs, and the children, and record their outcomes; return the calls that cannot be ended."""
        ending = [*self._running.values()]
        left = await self.end_all()
        await self._run_context.children.cancel(open_children(self._journal.state))
        for task in ending:
            if task.done() and not task.cancelled():  # it had an outcome of its own, or could not be ended cleanly
                self._record(*task.result())
        await self._check_cut_off(left)
        return left

    async def _check_cut_off(self, left: Collection[str]) -> None:
        """Ask the checks of the `once` calls that were ended, and record their answers.

        The goal ends all the same: a check that takes longer is not waited for, and the effect is unknown.
        """
        open_calls = self._journal.state.open_calls
        ended = [call for call_id, call in open_calls.items() if call.runs and call_id not in left]
        asked = [asyncio.create_task(self._checked(call)) for call in ended if _is_once(call)]
        if not asked:
            return
        answered, late = await asyncio.wait(asked, timeout=_CHECK_S)
        for task in await end_tasks(late, _CHECK_S):
            self._run_context.keep(task)
        for task in answered:
            self._journal.record(task.result())

    async def _checked(self, call: CallState) -> Body:
        """Return the outcome of a `once` call that was ended with its goal, as its check says."""
        about = call.call
        if not isinstance(about, ToolCall):
            raise TypeError(f"{about.call_id} is not a tool call.")
        happened, output = await self.tools.check(about)
        outcome = cut_off_call(call, self._clock.now_us(), happened)
        return _with(outcome, self.tools.used(about.call_id), output)

    async def end_all(self) -> Collection[str]:
        """End what still runs; each tool ends its own processes. What does not end in time is left alone."""
        running, self._running = self._running, {}
        left = await end_tasks(running.values(), self._run_context.end_within_s)
        for task in left:
            self._run_context.keep(task)
        names = [call_id for call_id, task in running.items() if task in left]
        if names:
            listed = ", ".join(names)
            log.warning("%s of %s did not end when it was cancelled, and is abandoned", listed, self._journal.goal_id)
        return names


def _is_once(call: CallState) -> bool:
    return isinstance(call.call, ToolCall) and call.call.effect == "once"


def _with(outcome: ToolOutput | Decision, used: Used, output: Any) -> Body:
    """Return the outcome of a call that was cancelled, with what it used, and its output if that is known."""
    if not isinstance(outcome, ToolOutput):
        return outcome
    return used.on(outcome if output is None else replace(outcome, output=output))
