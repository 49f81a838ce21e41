"""The running calls of one goal: started, cancelled, collected, and ended with the run.

Each call runs in a task whose result is how the call ended. When a call is cancelled, the task that ends it replaces
the task that ran it. So a call is recorded once, after everything that it started has ended.
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
from perdure.kernel.calls.tool_runs import NOTHING_USED, Ended, ToolRuns
from perdure.kernel.events import Body, Decision, OutcomeUnknown, ToolCall, ToolOutput
from perdure.kernel.history.call_state import CallState
from perdure.kernel.journal import Journal
from perdure.kernel.ports import Clock
from perdure.kernel.run_context import RunContext
from perdure.kernel.tool import CallUsage
from perdure.tasks import end_tasks

_CHECK_S = 2.0
"""How long the end of a cancelled goal waits for the checks of its interrupted steps."""

log = logging.getLogger(__name__)


class RunningCalls:
    """The calls of one goal that run in this process; `on_end` is called when a call can be collected."""

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
        self._children_to_end: list[ToolCall] = []
        """Cancelled calls whose children are to be cancelled."""

    @property
    def names(self) -> Collection[str]:
        """The ids of the calls that run."""
        return self._running.keys()

    @property
    def is_idle(self) -> bool:
        """Whether no call runs, no call without an intent is to start, and no child is to be cancelled."""
        return not (self._running or self._unrecorded or self._children_to_end)

    @property
    def has_ended(self) -> bool:
        """Whether a call can be collected."""
        return any(task.done() for task in self._running.values())

    def add_unrecorded(self, calls: Sequence[ToolCall]) -> None:
        """Start pure calls with the next `start_new`: without an intent, they are not in the state."""
        self._unrecorded += calls

    def start_new(self) -> None:
        """Start every call that should run and does not: newly decided, approved, or left by a dead worker.

        Children of cancelled calls are cancelled here too, because the reason is durable by now: after a crash, the
        flow cancels them again.
        """
        new, self._unrecorded = self._unrecorded, []
        cancelled, self._children_to_end = self._children_to_end, []
        for call in cancelled:
            self._watch(call, self._end_child(call))
        open_calls = self._journal.state.open_calls
        if len(self._running) - len(self._without_intent) < len(open_calls):
            new += [call.call for call in open_calls.values() if isinstance(call.call, ToolCall) and call.runs]
        for call in new:
            if call.call_id not in self._running:
                self._watch(call, self.tools.run(call))

    def _watch(self, call: ToolCall, run: Coroutine[Any, Any, Ended]) -> None:
        """Run a coroutine that returns how a call ended."""
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
        """Cancel calls that the mind no longer needs; return whether one of them is settled at once.

        A running call is settled when everything that it started has ended.
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
                    self._children_to_end.append(found.call)
            elif running is None and found is not None:
                is_settled = True
                self._journal.record(self._cancelled(found))
        return is_settled

    async def _end_call(self, call: ToolCall, running: "asyncio.Task[Ended]") -> Ended:
        """End a running call, and record it as cancelled even if it has returned a result by then.

        The flow receives CancelledError either way, and must receive it again when it is replayed.
        """
        left = await end_tasks([running], self._run_context.end_within_s)
        for task in left:
            self._run_context.keep(task)
        found = self._journal.state.open_calls.get(call.call_id)
        if found is None:
            return call, []  # a pure call, which needs no record
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

    def _used(self, call: ToolCall, bodies: Sequence[Body]) -> CallUsage:
        """Return the usage of a cancelled call: from its outcome if it has one, else as reported by its tool."""
        known = [CallUsage(body.usage, body.meta) for body in bodies if isinstance(body, ToolOutput)]
        return known[0] if known and known[0] != NOTHING_USED else self.tools.used(call.call_id)

    async def _end_child(self, call: ToolCall) -> Ended:
        """Cancel the child of a call, and return the outcome of the call."""
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
        """End all running calls and children, and record their outcomes; return the calls that cannot be ended."""
        ending = [*self._running.values()]
        left = await self.end_all()
        await self._run_context.children.cancel(open_children(self._journal.state))
        for task in ending:
            if task.done() and not task.cancelled():  # it has an outcome, or could not be ended cleanly
                self._record(*task.result())
        await self._check_interrupted(left)
        return left

    async def _check_interrupted(self, left: Collection[str]) -> None:
        """Ask the checks of the `once` calls that were ended, and record their answers.

        The end of the goal does not wait for a check that takes longer; the effect of that call is unknown.
        """
        open_calls = self._journal.state.open_calls
        ended = [call for call_id, call in open_calls.items() if call.runs and call_id not in left]
        asked = [asyncio.create_task(self._check(call)) for call in ended if _is_once(call)]
        if not asked:
            return
        answered, late = await asyncio.wait(asked, timeout=_CHECK_S)
        for task in await end_tasks(late, _CHECK_S):
            self._run_context.keep(task)
        for task in answered:
            self._journal.record(task.result())

    async def _check(self, call: CallState) -> Body:
        """Return the outcome of a `once` call that was ended with its goal, according to its check."""
        about = call.call
        if not isinstance(about, ToolCall):
            raise TypeError(f"{about.call_id} is not a tool call.")
        happened, output = await self.tools.check(about)
        outcome = cut_off_call(call, self._clock.now_us(), happened)
        return _with(outcome, self.tools.used(about.call_id), output)

    async def end_all(self) -> Collection[str]:
        """Cancel all running calls; each tool ends its own processes. A call that does not end in time is abandoned."""
        running, self._running = self._running, {}
        left = await end_tasks(running.values(), self._run_context.end_within_s)
        for task in left:
            self._run_context.keep(task)
        names = [call_id for call_id, task in running.items() if task in left]
        if names:
            listed = ", ".join(names)
            log.warning("%s of %s did not end after cancellation; abandoned", listed, self._journal.goal_id)
        return names


def _is_once(call: CallState) -> bool:
    return isinstance(call.call, ToolCall) and call.call.effect == "once"


def _with(outcome: ToolOutput | Decision, used: CallUsage, output: Any) -> Body:
    """Return the outcome of a cancelled call with its usage, and its output if that is known."""
    if not isinstance(outcome, ToolOutput):
        return outcome
    return used.on(outcome if output is None else replace(outcome, output=output))
