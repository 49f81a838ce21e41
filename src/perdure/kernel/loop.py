"""The loop: decide, record the intents, run them, record the outcomes, until the goal ends or waits for somebody.

N steps cost N + 1 commits: each outcome and the intents that follow from it are one append.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from perdure import failpoints
from perdure.errors import Invalid, PerdureError, Unavailable
from perdure.kernel import guards
from perdure.kernel.admission import admit, tool_for
from perdure.kernel.cancellation import cancelled as cancelled_outcome
from perdure.kernel.children import child_of, open_children
from perdure.kernel.cleanup import end_of, is_cleaning_up, overdue
from perdure.kernel.events import Body, Decision, Happened, OutcomeUnknown, ToolCall, ToolError, ToolOutput, moment_us
from perdure.kernel.fold import GoalState
from perdure.kernel.inbox import cut_short, take_posts
from perdure.kernel.journal import Journal
from perdure.kernel.means import Means
from perdure.kernel.mind import Decided
from perdure.kernel.ports import Clock, LeaseLost, StateStore
from perdure.kernel.recovery import EXHAUSTION, give_up, recover, settle_once, told, unknown_if_lost
from perdure.kernel.tasks import end_tasks
from perdure.kernel.tool import CallContext, KnownOutput, Tool

LONGEST_NAP_S = 10.0
"""A moment is waited for in naps no longer than this, because the clock may be set meanwhile."""
_CHILDREN_US = 500_000
"""How often a goal that stays because its children run asks whether they still do."""

TURN = "turn"

log = logging.getLogger(__name__)

Outcome = Literal["ended", "waiting", "interrupted"]
Ended = tuple[ToolCall, Sequence[Body]]
"""A call that no longer runs, and what is to be recorded of it."""


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


def _level() -> int:
    """Return how serious an error of a tool is: one that comes of ending the call on purpose is to be expected."""
    task = asyncio.current_task()
    return logging.INFO if task is not None and task.cancelling() else logging.WARNING


class Loop:
    """One run of one goal, by its owner.

    It belongs to the event loop that runs when it is made, and must be run there. `stop` and `look` may be called from
    any thread.
    """

    def __init__(self, journal: Journal, store: StateStore, means: Means, clock: Clock) -> None:
        self.journal = journal
        self._store = store
        self._means = means
        self._clock = clock
        self._running: dict[str, asyncio.Task[Ended]] = {}
        self._started: dict[str, ToolCall] = {}
        """The calls in `_running`."""
        self._cancelling: set[str] = set()
        """Those of them that the mind has cancelled."""
        self._without_intent: set[str] = set()
        """Those of them that are pure, and so are not open in the state."""
        self._begun_children: set[str] = set()
        """The open calls whose children were created or found in this run."""
        self._unrecorded: list[ToolCall] = []
        self._wake = asyncio.Event()
        self._is_waiting = False
        self._wake_us: int | None = None
        self._again_s: float | None = None
        """When the mind wants to be asked again: at a moment, and after some time. See Decided."""
        self._is_stopping = False
        self._deciding: asyncio.Task[Any] | None = None
        self._has_posts = False
        self._cleanup_us: int | None = None
        """When the cleanup of the goal began, as far as its grace is concerned."""
        self._event_loop = asyncio.get_running_loop()

    @property
    def state(self) -> GoalState:
        return self.journal.state

    @property
    def active(self) -> Collection[str]:
        """What goes on here, by name: the calls that run, work of the mind, a turn of the loop; nothing when it waits.

        For a test that owns the clock, and moves it when nothing goes on.
        """
        is_at_rest = self._is_waiting and not self._wake.is_set()
        return {*self._running, *(["mind"] if self._again_s is not None else []), *([] if is_at_rest else [TURN])}

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
        self._wake.set()
        if self._deciding is not None:
            self._deciding.cancel()

    def _look(self) -> None:
        self._has_posts = True
        self._wake.set()

    async def run(self, *, is_resumed: bool) -> Ran:
        """Run until the goal has ended, waits for somebody, or was stopped.

        Raises: Conflict when the goal is no longer ours; what runs is ended then.
        """
        try:
            if self._is_cleanup_over():
                await give_up(self.journal, self._means.tools)
                await self._end_cleanup()
            elif is_resumed:
                await self._means.mind.prepare(self.state)
                await self.journal.commit_opening()  # not before the mind has found its own history in it
                await recover(self.journal, self._means.tools, self._means.workdir, self._environment)
                await take_posts(self.journal, self._store, self._finish_all, cancelling=self._cancelling)
                if await self._is_given_back():
                    return Ran("interrupted", self.state, self.journal.queue)
            return await self._run()
        except LeaseLost:
            raise Unavailable(
                f"The lease on {self.journal.goal_id} is too old to begin anything by: this process was stopped, or the"
                " database did not answer. Another worker may have the goal by now. If not, resume it."
            ) from None
        finally:
            await self._end_all()
            await self._means.mind.close()

    async def _is_given_back(self) -> bool:
        """Give the goal back before what somebody who died has left is begun again, when we are to stop already."""
        if not self._is_stopping or self.journal.has_let_go():
            return False
        await self.journal.commit(release=True)
        return self.journal.has_let_go()

    async def _run(self) -> Ran:
        while not self.journal.has_let_go():
            if self._is_cleanup_over():
                await self._end_cleanup()
                break
            wake_us = await self._decide()
            outcome = self._outcome(wake_us)
            if outcome == "waiting" and await self._stays_for_children():
                outcome, wake_us = None, self._clock.now_us() + _CHILDREN_US
            self.journal.is_due_if_left = bool(self._new_children())
            done = await self.journal.commit(release=outcome is not None)
            if self.journal.has_let_go():
                return Ran(outcome or "ended", self.state, self.journal.queue)
            if self._has_posts or done.inbox_waiting:  # before anything begins: it may be a cancel
                self._has_posts = False
                await self._record_news()
                was_cancelled = is_cleaning_up(self.state)
                await take_posts(
                    self.journal,
                    self._store,
                    self._finish_all,
                    is_expected=done.inbox_waiting,
                    cancelling=self._cancelling,
                )
                if not self.journal.has_let_go() and is_cleaning_up(self.state) == was_cancelled:
                    self._start_new()
            else:
                self._start_new()
                if not await self._start_children():
                    await self._wait(wake_us)
                    await self._record_news()
            self._collect()
        return Ran("ended", self.state, self.journal.queue)

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
        self._cancel_calls(decided.cancelled)

    async def _decide(self) -> int | None:
        """Ask the mind, and record what it wants; return when it wants to be asked again."""
        self._wake_us = self._again_s = None
        state = self.state
        is_limited = state.reached_limit is not None and not is_cleaning_up(state)
        if state.termination is not None or self._is_stopping or is_limited:
            return None
        end = guards.verdict(state)
        if end is not None:
            self._record_decided(Decided(end=end))
            return None
        decided = await self._decided()
        while decided.end is None and decided.cancelled:
            self._record_decided(decided)  # first: the mind wanted it before it knew of the cancelled calls' end
            if not self._cancel_calls(decided.cancelled):
                self._wake_us, self._again_s = decided.wake_us, decided.again_s
                return decided.wake_us
            decided = await self._decided()
        self._cancel_calls(decided.cancelled)
        self._wake_us, self._again_s = decided.wake_us, decided.again_s
        if not self._record_decided(decided):
            return decided.wake_us
        return decided.wake_us if self.state.open_calls else 0  # nothing came of it: ask again, at once

    def _record_decided(self, decided: Decided) -> bool:
        """Record what the mind wants; tell whether that was anything."""
        self._unrecorded += decided.unrecorded
        bodies = admit(decided.actions, self.state, self._means.tools, self._means.policy)
        if decided.end is not None and not self._cancel_children():
            bodies.append(end_of(self.state, decided.end))
        self.journal.record(*bodies, is_decision=bool(bodies))
        return bool(bodies)

    def _cancel_calls(self, cancelled: Collection[str]) -> bool:
        """End calls that the mind does not want any more; tell whether one of them is settled by that at once.

        A call that runs is settled when what it has begun has ended.
        """
        is_settled = False
        self._unrecorded = [call for call in self._unrecorded if call.call_id not in cancelled]
        for call_id in cancelled:
            running, found = self._running.get(call_id), self.state.open_calls.get(call_id)
            if running is not None and call_id not in self._cancelling:
                self._cancelling.add(call_id)
                call = self._started[call_id]
                self._watch(call, self._cancel_call(call, running))
            elif running is None and found is not None and isinstance(found.call, ToolCall) and found.is_child:
                self._cancelling.add(call_id)  # its child ends before it
                self._watch(found.call, self._cancel_child(found.call))
            elif running is None and found is not None:
                is_settled = True
                self.journal.record(cancelled_outcome(found, self._clock.now_us()))
        return is_settled

    def _cancel_children(self) -> bool:
        """Cancel the children of a goal that is about to end; tell whether there are any, which end first."""
        left = [call.call.call_id for call in open_children(self.state).values()]
        self._cancel_calls(left)
        return bool(left)

    async def _cancel_call(self, call: ToolCall, running: "asyncio.Task[Ended]") -> Ended:
        """End a call that runs, and return what to record of it: cancelled, also when it has a result by then.

        The flow is given CancelledError in any case, and must be given it again when it is run again.
        """
        left = await end_tasks([running], self._means.end_within_s)
        for task in left:
            self._means.keep(task)
        found = self.state.open_calls.get(call.call_id)
        if found is None:
            return call, []  # a pure call: nothing of it is recorded, and nothing has to be
        bodies = [] if left or running.cancelled() else running.result()[1]
        done = [body for body in bodies if isinstance(body, ToolOutput) and body.ok]
        if done:
            return call, [replace(cancelled_outcome(found, self._clock.now_us(), "yes"), output=done[0].output)]
        happened, output = await self._happened(call) if call.effect == "once" and not left else (None, None)
        if happened == "no" and any(isinstance(body, OutcomeUnknown) for body in bodies):
            happened = "unknown"  # it may still run on a thread, and have its effect later
        outcome = cancelled_outcome(found, self._clock.now_us(), happened)
        return call, [outcome if output is None else replace(outcome, output=output)]

    async def _cancel_child(self, call: ToolCall) -> Ended:
        """Cancel the child of a call, and return what to record of the call."""
        found = self.state.open_calls[call.call_id]
        await self._means.children.cancel([child_of(found)])
        return call, [cancelled_outcome(found, self._clock.now_us())]

    async def _happened(self, call: ToolCall) -> tuple[Happened, Any]:
        """Ask the check of a `once` call that was cancelled; return its answer, and the output if that is known."""
        context = CallContext(self.journal.goal_id, call, self._means.workdir, self._environment(call))
        try:
            found = await tool_for(call, self._means.tools).check(context)
        except (PerdureError, *EXHAUSTION):
            return "unknown", None
        if isinstance(found, KnownOutput):
            return "yes", found.output
        answers: dict[str, Happened] = {"happened": "yes", "not_happened": "no", "unknown": "unknown"}
        return answers[found], None

    async def _decided(self) -> Decided:
        """Ask the mind; one that is cut short by a stop has decided nothing."""
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
        return decided

    def _outcome(self, wake_us: int | None) -> Outcome | None:
        """Say whether this run is over: nothing runs, and nothing will by itself."""
        state = self.state
        if state.termination is not None:
            return "ended"
        if state.is_busy or self._running or self._unrecorded:
            return None
        if self._is_stopping:
            return "interrupted"
        if state.reached_limit is not None and not (is_cleaning_up(state) or self._new_children()):
            return "waiting"
        is_asked_again = wake_us is not None or self._again_s is not None
        if is_asked_again or is_cleaning_up(state) or self._new_children():
            return None
        timers = state.timers()
        sleeps_us = min(timers.values()) - self._clock.now_us() if timers else None
        is_short = sleeps_us is not None and sleeps_us <= self._means.park_after_s * 1_000_000
        return None if is_short else "waiting"

    def _new_children(self) -> list[ToolCall]:
        """Return the open child calls whose children this run has not looked at yet."""
        known = self._begun_children | self._cancelling
        calls = (found.call for found in self.state.open_calls.values() if found.is_child)
        return [call for call in calls if isinstance(call, ToolCall) and call.call_id not in known]

    async def _start_children(self) -> bool:
        """Create the children of new calls, whose intents are durable; tell whether there were any."""
        calls = self._new_children()
        if not calls:
            return False
        failpoints.hit("kernel.children.before")
        self._require_ours()
        known = await self._means.children.start(self.state, calls, self.journal.queue)
        failpoints.hit("kernel.children.after")
        self._begun_children.update(call.call_id for call in calls)
        self.journal.record(*known)
        return True

    async def _stays_for_children(self) -> bool:
        """Tell whether a goal that waits is kept, because children of it run."""
        children = open_children(self.state)
        if not children or self.state.reached_limit is not None:
            return False
        return await self._means.children.are_active(children)

    def _start_new(self) -> None:
        """Begin every call that is to run and does not: decided just now, approved, or left by somebody who died."""
        new, self._unrecorded = self._unrecorded, []
        if len(self._running) - len(self._without_intent) < len(self.state.open_calls):
            new += [
                call.call for call in self.state.open_calls.values() if isinstance(call.call, ToolCall) and call.runs
            ]
        for call in new:
            if call.call_id not in self._running:
                self._watch(call, self._run_tool(call))

    def _watch(self, call: ToolCall, run: Coroutine[Any, Any, Ended]) -> None:
        """Run something whose result is how a call ended."""
        task = asyncio.create_task(run)
        task.add_done_callback(lambda _task: self._wake.set())
        self._running[call.call_id] = task
        if call.call_id not in self.state.open_calls:
            self._without_intent.add(call.call_id)
        self._started[call.call_id] = call

    async def _run_tool(self, call: ToolCall) -> Ended:
        """Run a call. An error before its tool is asked is a failure; one that the tool raises may hide an effect."""
        begun: tuple[Tool, CallContext] | None = None
        try:
            tool = tool_for(call, self._means.tools)
            environment = self._environment(call)
            context = CallContext(
                self.journal.goal_id,
                call,
                self._means.workdir,
                environment,
                partial(self._left_s, call),
                self._require_ours,
            )
            failpoints.hit("kernel.effect.before")
            self._require_ours()
            begun = tool, context
            output = await tool.run(context)
            failpoints.hit("kernel.effect.after")
        except Exception as error:
            log.log(_level(), "%s of %s raised %s", call.call_id, self.journal.goal_id, told(error), exc_info=True)
            failure = self._failure(call, error)
            return call, [failure] if begun is None else await self._broken_off(*begun, failure)
        return call, [unknown_if_lost(call, output)]

    async def _broken_off(self, tool: Tool, context: CallContext, failure: ToolOutput) -> Sequence[Body]:
        """Return what to record of a call that raised after it may have begun: of a `once` call, never a failure.

        What may still run of it is ended first, so that neither its check nor a retry meets it.
        """
        call = context.call
        reason = failure.error.message if failure.error else ""
        why = f"An error of ours came after this call may have begun ({reason})"
        try:
            await tool.reap(context.goal_id, call.call_id)
        except (PerdureError, *EXHAUSTION) as error:
            why = f"{why}, and what it left running could not be ended ({told(error)})"
            return [OutcomeUnknown(call.call_id, f"{why}.")] if call.effect == "once" else [failure]
        return await settle_once(tool, context, why, [failure]) if call.effect == "once" else [failure]

    def _left_s(self, call: ToolCall) -> float | None:
        """Return how long a call may still take, by its recorded timeout."""
        return None if call.until is None else (moment_us(call.until) - self._clock.now_us()) / 1e6

    def _require_ours(self) -> None:
        if not self._means.is_ours():
            raise LeaseLost

    def _environment(self, call: ToolCall) -> Mapping[str, str]:
        return self._means.mind.environment(self.state, call)

    def _collect(self) -> None:
        """Record the outcomes that are there, and the timers that have run out."""
        for call_id in [call_id for call_id, task in self._running.items() if task.done()]:
            self._record(*self._running.pop(call_id).result())
            self._cancelling.discard(call_id)
            self._without_intent.discard(call_id)
            del self._started[call_id]
        timers = self.state.timers()
        now_us = self._clock.now_us() if timers else 0
        for call_id, due_us in timers.items():
            if due_us <= now_us:
                self.journal.record(Decision(call_id, "elapsed", by="timer"))

    def _record(self, call: ToolCall, bodies: Sequence[Body]) -> None:
        """Record how a call ended; of a `once` call whose outcome cannot be kept, nobody will know it."""
        try:
            self.journal.record(*bodies)
        except Invalid as error:
            why = f"The call has ended, but its outcome cannot be kept: {error.detail}"
            is_once = call.effect == "once"
            self.journal.record(OutcomeUnknown(call.call_id, why) if is_once else self._failure(call, error))

    def _failure(self, call: ToolCall, error: Exception) -> ToolOutput:
        """Return the outcome of a call that failed; of one without an intent it says which step it was, too."""
        reason = ToolError("internal", told(error))
        if isinstance(error, PerdureError):
            reason = ToolError(error.code, error.detail)
        if call.call_id in self.state.calls:
            return ToolOutput(call.call_id, ok=False, error=reason)
        digest = call.arguments.get("digest")
        return ToolOutput(call.call_id, ok=False, error=reason, step=call.step, digest=digest, effect=call.effect)

    async def _wait(self, wake_us: int | None) -> None:
        """Wait for an outcome, a stop, a post or a moment."""
        due_us = self._cleanup_due_us()
        moments = [*self.state.timers().values(), *(each for each in (wake_us, due_us) if each is not None)]
        pauses = [max(min(moments) - self._clock.now_us(), 0) / 1e6] if moments else []
        if self._again_s is not None:
            pauses.append(self._again_s)
        self._is_waiting = True
        try:
            await self._wait_for(min(pauses, default=None))
        finally:
            self._is_waiting = False
        self._wake.clear()

    async def _wait_for(self, pause_s: float | None) -> None:
        if pause_s is None:
            await self._wake.wait()
            return
        others = {
            asyncio.ensure_future(self._clock.sleep(min(pause_s, LONGEST_NAP_S))),
            asyncio.ensure_future(self._wake.wait()),
        }
        try:
            await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end_tasks(others)

    def _cleanup_due_us(self) -> int | None:
        """Return when the grace of a cleanup ends; None when the goal does not clean up.

        It is counted from the cancel, over restarts. A goal that was cancelled while no worker had its code has all of
        it: as long as nothing is recorded behind the cancel, the cleanup begins with this run.
        """
        state = self.state
        if not is_cleaning_up(state):
            return None
        if self._cleanup_us is None:
            self._cleanup_us = self._clock.now_us() if state.tip.seq == state.cancel_seq else state.cancel_us
        return self._cleanup_us + round(self._means.cancel_grace_s * 1e6)

    def _is_cleanup_over(self) -> bool:
        """Tell whether the flow of a cancelled goal has had its time to clean up."""
        due_us = self._cleanup_due_us()
        return due_us is not None and due_us <= self._clock.now_us()

    async def _end_cleanup(self) -> None:
        """End a goal whose cleanup took too long, and all that still runs of it."""
        unended = await self._finish_all()
        self.journal.record(*cut_short(self.state, self._clock.now_us(), unended))
        self.journal.record(overdue(self.state, self._means.cancel_grace_s))
        await self.journal.commit(release=True)

    async def _finish_all(self) -> Collection[str]:
        """Record what has ended, and end what still runs; return the calls that do not let themselves be ended."""
        self._collect()
        ending = [*self._running.values()]
        left = await self._end_all()
        await self._means.children.cancel(open_children(self.state))
        for task in ending:
            if task.done() and not task.cancelled():  # it had an outcome of its own, or its end could not be seen to
                self._record(*task.result())
        return left

    async def _end_all(self) -> Collection[str]:
        """End what still runs; each tool sees to its own processes. What does not end in time is left alone."""
        running, self._running = self._running, {}
        left = await end_tasks(running.values(), self._means.end_within_s)
        for task in left:
            self._means.keep(task)
        names = [call_id for call_id, task in running.items() if task in left]
        if names:
            log.warning("%s of %s did not end when told to, and is left alone", ", ".join(names), self.journal.goal_id)
        return names
