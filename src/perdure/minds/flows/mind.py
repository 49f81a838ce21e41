"""The mind of a flow: the function itself, alive between decisions and run again from its beginning on resume.

What the function asks for becomes a call. Outcomes, signals, decisions and cancels reach the function one at a time, in
the order of the history, and the next one only when every task of the function waits: so a function that is run again
on the same history asks for the same calls in the same order, with `asyncio.gather`, task groups and cancellation too.
"""

import asyncio
import logging
from collections.abc import Awaitable, Collection, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

from perdure.errors import Conflict, Invalid, StepFailed
from perdure.kernel.cancellation import is_cancelled_by_flow
from perdure.kernel.events import Action, Termination, ToolCall, encode, iso
from perdure.kernel.fold import CallState, Origin
from perdure.kernel.mind import Decided
from perdure.kernel.ports import GoalState
from perdure.kernel.step_names import is_marker
from perdure.kernel.tasks import leave_alone
from perdure.minds.flows.cleanup import Cleanup
from perdure.minds.flows.current import STEP
from perdure.minds.flows.endings import ended_without, ending_of, failure_from, value_for
from perdure.minds.flows.event_loop import FlowCallbacks
from perdure.minds.flows.flow import Flow
from perdure.minds.flows.goal import Goal
from perdure.minds.flows.mistakes import is_interrupt
from perdure.minds.flows.recorded import ChangedFlow, Recorded
from perdure.minds.flows.requests import (
    BRANCH,
    NO_FORKS,
    Branch,
    Pause,
    Question,
    Request,
    StepForks,
    Uncancellable,
    Wanted,
    Work,
    is_id,
    step_context,
)
from perdure.minds.flows.step_calls import DIRECT, StepCalls
from perdure.minds.flows.step_tool import StepTool
from perdure.minds.flows.tracebacks import class_name, text_of
from perdure.minds.flows.values import read_arguments, result_to_json, to_json
from perdure.minds.flows.versions import Refusal, Versions
from perdure.minds.retry import NO_RETRY, Retry
from perdure.minds.standing import Standing, attempt_of, call_id, is_reopened, standing

_LOOK_AGAIN_S = 0.05
_GRACE_S = 0.05
"""How long a goal is not parked after its flow did something, while the flow may wait for something unrecorded."""
_REPLAY_PATIENCE_S = 30.0
"""How long a resume waits for unrecorded work of a flow that has to finish before the flow asks for what is recorded.
"""
_REPLAY_PAUSE_S = 0.01
_UNWINDING_S = 10.0
"""How long a function may take to leave its `finally` blocks."""

_LEFT_ALONE: "list[asyncio.Task[None]]" = []
"""Bodies of flows that do not end. They are never freed: their code would be entered once more for that, and would run
outside of any event loop."""

log = logging.getLogger(__name__)


class FlowMind:
    """Decides by running the function; see Mind."""

    def __init__(
        self,
        flow: Flow[..., Any],
        arguments: Mapping[str, Any] | None,
        forks: StepForks = NO_FORKS,
        calls: StepCalls = DIRECT,
    ) -> None:
        self._flow = flow
        self.goal: Goal | None = None
        """What the function is given, once it runs."""
        given = arguments or {}
        self._args, self._kwargs = read_arguments(flow.fn, given.get("args", []), given.get("kwargs", {}))
        self._body: asyncio.Task[None] | None = None
        self._callbacks: FlowCallbacks | None = None
        self._end: Termination | None = None
        self._requests: dict[str, Request] = {}
        """What the function waits for, by step; a cancelled request stays until the end of its call is delivered."""
        self._asked: set[str] = set()
        self._ids: set[str] = set()
        self._cancelled: set[str] = set()
        """The steps of cancelled requests whose calls are not delivered as ended yet."""
        self._abandoned: list[str] = []
        """Calls of pure steps that run, and whose result the function does not want any more."""
        self._fresh: list[Request] = []
        """Requests without an open call: to be begun, or to be tried again."""
        self._recorded: Recorded | None = None
        self._state: GoalState | None = None
        self._delivered = 0
        """How many of the settled calls of the state were delivered."""
        self._reached_us = 0
        """How far a function that is run again has come, by the clock of the first run."""
        self.now_us = 0
        """The time of the newest event that the function knows of."""
        self.versions = Versions()
        self.goal_id = ""
        self.origins: Sequence[Origin] = ()
        """The goals that wrote the history of this goal. See GoalState."""
        self._refusal: Refusal | None = None
        self._is_replaying = False
        self._active_s = 0.0
        self._is_closed = False
        self._cleanup = Cleanup()
        self.tool = StepTool(self._requests, forks, calls)

    async def prepare(self, state: GoalState) -> None:
        """See Mind.prepare. Runs the function from its beginning as far as the history goes.

        Raises: Conflict when the function does not ask for what was recorded; nothing is recorded then.
        """
        recorded = self._recorded = Recorded(state)
        self._is_replaying, self._reached_us = True, state.created_us
        self.versions.load(state)
        callbacks = self._launch(state)
        await callbacks.rest()
        recorded.settle_doubts()
        while await self._replay_next(state, recorded, callbacks):
            recorded.settle_doubts()
        self._is_replaying = False
        if self._refusal is not None:
            raise self._refusal.error
        recorded.require_all_asked(self._flow.path, ended_without(self._end))

    async def _replay_next(self, state: GoalState, recorded: Recorded, callbacks: FlowCallbacks) -> bool:
        """Deliver what the history has next; tell whether there was anything, and the function could take it."""
        if self._end is not None or self._refusal is not None or recorded.has_difference:
            return False
        has_more = self._delivered < len(state.settled)
        if self._is_cancel_next(state):
            is_delivered = recorded.has_asked_before(state.cancel_seq)
            if is_delivered:
                self._begin_cleanup(state)
        elif not has_more and recorded.is_all_asked:
            return False
        else:
            is_delivered = has_more and self._is_due(state) and self._deliver_next(state)
        if not is_delivered:
            if await self._advance(callbacks):
                return True
            if not (has_more and self._deliver_anyway(state)):
                return False
        await callbacks.rest()
        return True

    def _deliver_anyway(self, state: GoalState) -> bool:
        """Deliver something to a function that can do nothing else; tell whether it could take anything.

        It may have its steps with ids in another order now. Or a deadline of its own passed in the first run right
        before an outcome, and the call that it cancelled had not ended yet.
        """
        return (not self._is_cancel_next(state) and self._deliver_next(state)) or self._deliver_by_id(state)

    async def decide(self, state: GoalState, now_us: int) -> Decided:
        """See Mind.decide."""
        callbacks = self._launch(state) if self._callbacks is None else self._callbacks
        self._state = state
        await callbacks.rest()
        while (is_cancel := self._is_cancel_next(state)) or self._delivered < len(state.settled):
            if is_cancel:
                self._begin_cleanup(state)
            elif not self._deliver_next(state):
                self._delivered += 1
            await callbacks.rest()
        self._refuse_unasked()
        if self._refusal is not None:
            return self._refusal.decide(state, now_us)
        cancelled, markers = self._cancelled_calls(state), self.versions.take_fresh()
        if self._end is not None:
            return Decided(cancelled=cancelled, end=None if state.is_busy else self._end, markers=markers)
        actions, unrecorded, wakes = self._begin_fresh(state, now_us)
        again_s = self._look_again_s(callbacks)
        wake_us = min(wakes, default=None)
        return Decided(actions, unrecorded, cancelled, wake_us=wake_us, again_s=again_s, markers=markers)

    def has_news(self) -> bool:
        """See Mind.has_news. A timer of the function has fired, or unrecorded work that it awaits has ended."""
        callbacks = self._callbacks
        return callbacks is not None and (bool(self._fresh or self._cancelled) or callbacks.has_ready())

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:  # noqa: ARG002 (it has its arguments)
        """See Mind.environment."""
        return {}

    async def close(self) -> None:
        """See Mind.close."""
        self._is_closed = True
        if self._body is None:
            return
        self._body.cancel()
        for request in list(self._requests.values()):
            request.answer.cancel()
            if request.ended is not None and not request.ended.done():
                request.ended.set_result(None)
        try:
            await asyncio.wait([self._body], timeout=_UNWINDING_S)
        finally:
            self._leave_unended(self._body)

    def _leave_unended(self, body: "asyncio.Task[None]") -> None:
        if self._callbacks is not None:
            self._callbacks.close()
        if not body.done():
            leave_alone(body)
            _LEFT_ALONE.append(body)
            log.warning("the flow %s does not let itself be unwound; it is left alone", self._flow.path)

    async def request(
        self,
        name: str,
        wanted: Wanted,
        retry: Retry = NO_RETRY,
        *,
        id: str | None = None,  # noqa: A002
    ) -> Any:
        """Wait for something that the function asks for.

        When the function cancels the wait, its call is ended and recorded as cancelled before CancelledError is raised.
        """
        if self._is_closed:
            await self._cleanup.refuse(self._body)
        request = self.ask_for(name, wanted, retry, id=id)
        if request.answer.done():
            return request.answer.result()
        try:
            return await request.answer
        except asyncio.CancelledError:
            if not self._is_closed:
                await self._cancel(request)
            raise
        finally:
            if not request.is_cancelled:
                self._requests.pop(request.step, None)

    def ask_for(
        self,
        name: str,
        wanted: Wanted,
        retry: Retry = NO_RETRY,
        *,
        id: str | None = None,  # noqa: A002
    ) -> Request:
        """Ask for something without waiting for it; what the history has next is answered at once.

        Raises: Invalid outside of the flow; CancelledError when the function is being unwound.
        """
        branch = BRANCH.get()
        if branch is None:
            raise Invalid(f"{name} was asked for inside a step; only the flow itself has steps, questions and waits.")
        if self._is_closed:
            raise asyncio.CancelledError  # what the function asks for in `finally` is not run now
        step = branch.next_step(name) if id is None else self._step_with_id(branch, id)
        _require_json(step, wanted)
        loop = asyncio.get_running_loop()
        request = Request(step, wanted, loop.create_future(), retry)
        self._asked.add(step)
        self._note_activity(loop)
        if self._recorded is not None and not self._recorded.agrees(request):
            return request  # it is never answered: the function goes no further
        self._requests[step] = request
        if not self._answer_at_once(request):
            self._keep(request)
        return request

    def _keep(self, request: Request) -> None:
        """Keep a request until its outcome is delivered, and begin it if the history has no call of it."""
        if isinstance(request.wanted, Work):
            request.wanted.context = step_context()
        if self._needs_call(request):
            self._fresh.append(request)
        elif request.has_id and not self._is_replaying and self._state is not None:
            found = standing(self._state, request.step, request.retry)
            self._answer(request, found)  # its outcome has passed: the code was reordered

    def branch(self, what: str) -> Branch:
        """Return the branch that runs.

        Raises: Invalid outside of the flow.
        """
        branch = BRANCH.get()
        if branch is None or branch.owner is not self:
            raise Invalid(f"{what} was called outside of its flow, for example inside a step. Call it in the flow.")
        return branch

    def ahead(self, branch: Branch) -> int | None:
        """Return the first recorded event that a branch is still to ask for; None when it is not replayed any more."""
        return self._recorded.ahead(branch.name) if self._recorded is not None else None

    def refuse(self, error: Conflict) -> None:
        """Let this run of the goal end with an error, and record nothing that the function asks for."""
        self._refusal = self._refusal or Refusal(error)

    def _step_with_id(self, branch: Branch, step_id: str) -> str:
        """Name the step with an id.

        Raises: Invalid when the id cannot be part of a step's name, or was used before.
        """
        step = branch.step_with_id(step_id)
        if step_id in self._ids:
            raise Invalid(f"The id {step_id!r} was used twice: an id is unique in the goal.")
        self._ids.add(step_id)
        return step

    def _refuse_unasked(self) -> None:
        """Refuse an end of the function before it has asked for a recorded step that could have come any time."""
        if self._end is None or self._recorded is None or self._recorded.is_all_asked:
            return
        try:
            self._recorded.require_all_asked(self._flow.path, ended_without(self._end))
        except ChangedFlow as error:
            self.refuse(error)

    def forget(self, request: Request) -> None:
        """Cancel what was asked for, without waiting for the record of it."""
        if self._is_closed:
            return
        if self._awaits_delivery(request):
            self._mark_cancelled(request)
        else:
            self._drop(request)

    async def side_by_side(self, awaitables: Sequence[Awaitable[Any]]) -> list[Any]:
        """Run awaitables in branches of their own, and return how each ended, in order."""
        lines = self._lines("gather", awaitables)
        await _end_of(lines)
        return [_result_of(line) for line in lines]

    async def race(self, awaitables: Sequence[Awaitable[Any]]) -> tuple[int, Any]:
        """Run awaitables in branches of their own until one ends; return its place and its result. See `Goal.first`."""
        lines = self._lines("first", awaitables)
        try:
            await asyncio.wait(lines, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as cancelled:
            _cancel_all(lines, cancelled)
            with suppress(asyncio.CancelledError):
                await _end_of(lines)
            raise
        winner = next(place for place, line in enumerate(lines) if line.done())
        for line in lines:
            line.cancel()
        await _end_of(lines)
        _hear(lines)
        return winner, lines[winner].result()

    def _lines(self, method: str, awaitables: Sequence[Awaitable[Any]]) -> "list[asyncio.Task[Any]]":
        branch = BRANCH.get()
        if branch is None:
            raise Invalid(f"goal.{method} was called inside a step; only the flow itself has branches.")

        async def run(branch: Branch, awaitable: Awaitable[Any]) -> Any:
            BRANCH.set(branch)
            try:
                return await awaitable
            except (SystemExit, KeyboardInterrupt) as error:
                if is_interrupt(error):
                    raise
                what = f"A branch of goal.{method} raised {class_name(error)}: {text_of(error)}."
                raise Invalid(what) from error

        pairs = zip(branch.open(len(awaitables)), awaitables, strict=True)
        return [asyncio.create_task(run(branch, awaitable)) for branch, awaitable in pairs]

    def _launch(self, state: GoalState) -> FlowCallbacks:
        self._state, self.goal_id, self.origins = state, state.goal_id, state.origins
        self.now_us = state.origins[0].created_us
        self._callbacks = FlowCallbacks(self._is_own)
        self._body = asyncio.create_task(self._run(state.goal_id), context=_context_of(Branch(self)))
        return self._callbacks

    def _is_own(self, context: Context) -> bool:
        branch = context.get(BRANCH)
        return branch is not None and branch.owner is self

    async def _run(self, goal_id: str) -> None:
        try:
            goal = self.goal = Goal(goal_id, self)
            result = await self._flow.fn(goal, *self._args, **self._kwargs)
            await self._require_nothing_open(goal)
            self._end = Termination(
                "done", value=result_to_json(self._flow.fn, result, f"What {self._flow.name} returned")
            )
        except BaseException as error:
            if self._is_closed or is_interrupt(error):
                raise
            self._end = Termination("cancelled") if self._cleanup.is_ended_by(error) else self._ending(error)

    def _ending(self, error: BaseException) -> Termination:
        """Return how the function ended that raised: an end that can be recorded, whatever the exception does."""
        try:
            calls = self._state.calls.values() if self._state is not None else ()
            end = ending_of(error, self._flow.path, {call.call.step for call in calls})
            encode(end)
        except BaseException as other:
            if is_interrupt(other):
                raise
            log.exception("the exception that %s raised cannot be described", self._flow.path)
            return Termination("fatal_error", "The flow raised an exception that cannot be described.")
        return end

    async def _require_nothing_open(self, goal: Goal) -> None:
        """Check that the function has awaited all that it began."""
        await asyncio.sleep(0)  # a task that it left behind asks for its step now
        goal.unawaited.require_none()
        for step, request in self._requests.items():
            if not request.is_cancelled:
                raise Invalid(f"The flow returned while {step} was in flight: await it, or use goal.gather.")

    def _note_activity(self, loop: asyncio.AbstractEventLoop) -> None:
        self._active_s = loop.time()
        if self._callbacks is not None:
            self._callbacks.note_activity()

    # Answers ---------------------------------------------------------------------------------------------------------

    def _answer_at_once(self, request: Request) -> bool:
        """Answer a request while it is made, if that is what would happen next anyway; tell whether it was.

        This is how a resume is fast: nothing else of the flow is about to run, and the next outcome of the history is
        the one that the flow asks for.
        """
        state, callbacks = self._state, self._callbacks
        if not self._is_replaying or state is None or callbacks is None or self._delivered >= len(state.settled):
            return False
        call = state.calls[state.settled[self._delivered]]
        task: Any = asyncio.current_task(request.answer.get_loop())
        is_next = call.call.step == request.step and not task._must_cancel  # noqa: SLF001 (it would be cancelled first)
        is_in_doubt = self._recorded is not None and self._recorded.is_in_doubt
        is_due = self._is_due(state) and not self._is_cancel_next(state)
        if not is_next or is_in_doubt or not is_due or callbacks.has_ready():
            return False
        return self._deliver_and_count(state, call) and request.answer.done()

    def _is_due(self, state: GoalState) -> bool:
        """Tell whether a function that is run again is where it was when the next settled call was delivered."""
        ended_seq = state.calls[state.settled[self._delivered]].ended_seq
        return self._recorded is None or ended_seq is None or self._recorded.has_asked_before(ended_seq)

    def _deliver_next(self, state: GoalState) -> bool:
        """Deliver the next settled call to the function; tell whether the function can take it now."""
        is_delivered = self._deliver_and_count(state, state.calls[state.settled[self._delivered]])
        if is_delivered:
            self._note_activity(asyncio.get_running_loop())
        return is_delivered

    def _deliver_and_count(self, state: GoalState, call: CallState) -> bool:
        if self._is_replaying and self._callbacks is not None:
            self._callbacks.date_timers(self._reached_us)
        if not self._deliver(state, call):
            return False
        self._delivered += 1
        self._reached_us = call.ended_us or 0
        self._note_delivery(call)
        return True

    def _deliver_by_id(self, state: GoalState) -> bool:
        """Deliver what a function that now has its steps in another order waits for; tell whether there was anything.

        A step with an id has no place in the order: nothing waits for its outcome, and it waits for no other outcome.
        """
        has_order = False
        for name in state.settled[self._delivered :]:
            call = state.calls[name]
            step = call.call.step
            is_free = is_id(step) or not has_order
            if step not in self._requests:
                has_order = has_order or not (step in self._asked or is_id(step) or is_marker(step))
            elif is_free and self._deliver(state, call) and step not in self._requests:
                self._note_delivery(call)
                self._note_activity(asyncio.get_running_loop())
                return True
        return False

    def _note_delivery(self, call: CallState) -> None:
        if not is_marker(call.call.step):
            self.now_us = max(self.now_us, call.ended_us or 0)

    def _deliver(self, state: GoalState, call: CallState) -> bool:
        step = call.call.step
        request = self._requests.get(step)
        if request is None:
            # The function has cancelled it before it was begun, or has its answer; nothing waits for a marker.
            return step in self._asked or is_marker(step)
        if self._has_later_attempt(state, call):
            return True
        if request.is_cancelled:
            self._drop(request)
            return True
        if call.outcome is not None and call.outcome.ok and call.decision is None:
            _set_answer(request, call.outcome.output)  # what follows would do the same; a long history has many of them
            self._requests.pop(step, None)
            return True
        if is_cancelled_by_flow(call) and not is_reopened(state, call):
            return False  # the function will cancel it
        self._answer(request, standing(state, step, request.retry))
        return True

    def _answer(self, request: Request, found: Standing) -> None:
        if request.answer.done():
            return
        if found.is_aborted:
            detail = f"Step {request.step} failed: {found.why}."
            self._end = self._end or Termination("failed", detail, error=found.error, steps=(request.step,))
        elif found.is_elapsed and not _is_sleep(request):
            request.answer.set_exception(TimeoutError(f"{request.step} has timed out."))
        elif found.status == "done":
            try:
                request.answer.set_result(value_for(request, found))
            except StepFailed as failed:
                request.answer.set_exception(failed)
        elif found.status == "failed":
            request.answer.set_exception(failure_from(request.step, found))
        else:
            self._fresh.append(request)
        if request.answer.done():
            self._requests.pop(request.step, None)

    def _has_later_attempt(self, state: GoalState, call: CallState) -> bool:
        """Tell whether a step was tried again after a call: then the function never saw how the call ended."""
        name = call.call.call_id
        if name.endswith(".1"):
            return f"{name[:-1]}2" in state.calls
        return call_id(call.call.step, attempt_of(call.call) + 1) in state.calls

    def _needs_call(self, request: Request) -> bool:
        """Tell whether a request has to be begun, because the history has no call of it."""
        return self._state is None or call_id(request.step, 1) not in self._state.calls

    # Cancellation ----------------------------------------------------------------------------------------------------

    async def _cancel(self, request: Request) -> None:
        """Wait until the call of a request that the function has cancelled is ended, and that is delivered."""
        if not self._awaits_delivery(request):
            self._drop(request)
            return
        self._mark_cancelled(request)
        request.ended = Uncancellable(loop=asyncio.get_running_loop())
        await request.ended

    def _is_cancel_next(self, state: GoalState) -> bool:
        """Tell whether the cancel of the goal is to be delivered now: never while the function waits for cancels.

        A task that waits for the end of what it has cancelled would not notice a second cancel.
        """
        return not self._cancelled and self._cleanup.is_next(state, self._delivered)

    def _begin_cleanup(self, state: GoalState) -> None:
        if self._is_replaying and self._callbacks is not None:
            self._callbacks.date_timers(self._reached_us)
        self._reached_us = state.cancel_us
        self._cleanup.begin(self._body)
        self._note_activity(asyncio.get_running_loop())

    def _mark_cancelled(self, request: Request) -> None:
        request.is_cancelled = True
        self._cancelled.add(request.step)
        self._note_activity(asyncio.get_running_loop())

    def _awaits_delivery(self, request: Request) -> bool:
        """Tell whether the last call of a request is open, or has an end that is not delivered yet."""
        state = self._state
        if state is None or (request.answer.done() and not request.answer.cancelled()):
            return False
        last = standing(state, request.step).last
        if last is None:
            return False
        return last.is_open or last.call.call_id in state.settled[self._delivered :]

    def _drop(self, request: Request) -> None:
        """Forget a request that the function does not wait for any more."""
        request.answer.cancel()
        self._note_activity(asyncio.get_running_loop())
        self._requests.pop(request.step, None)
        self._cancelled.discard(request.step)
        if request in self._fresh:
            self._fresh.remove(request)
        if request.is_pure and request.attempts_begun and not request.is_cancelled:
            self._abandoned.append(call_id(request.step, request.attempts_begun))
        if request.ended is not None and not request.ended.done():
            request.ended.set_result(None)

    def _cancelled_calls(self, state: GoalState) -> list[str]:
        """Return the calls that the function has cancelled and that have not ended."""
        abandoned, self._abandoned = self._abandoned, []
        if not self._cancelled:
            return abandoned
        return [*abandoned, *(name for name, call in state.open_calls.items() if call.call.step in self._cancelled)]

    # Waiting ---------------------------------------------------------------------------------------------------------

    async def _advance(self, callbacks: FlowCallbacks) -> bool:
        """Let a function that is run again get to what was recorded: a deadline that had passed passes at once.

        Tell whether anything has happened. Work of the function that is not recorded is waited for.
        """
        callbacks.date_timers(self._reached_us)
        fired_us = callbacks.fire_next_timer()
        if fired_us is not None:
            self._reached_us = max(self._reached_us, fired_us)
            self._note_activity(asyncio.get_running_loop())
            await callbacks.rest()
            return True
        patience_s = _GRACE_S if self._requests else _REPLAY_PATIENCE_S
        is_idle = asyncio.get_running_loop().time() - self._active_s > patience_s
        if is_idle or self._waits_for_requests():
            return False
        await asyncio.sleep(_REPLAY_PAUSE_S)
        await callbacks.rest()
        return True

    def _look_again_s(self, callbacks: FlowCallbacks) -> float | None:
        """Return when to look at the function again though nothing has been recorded: it has work of its own."""
        timer_s = callbacks.next_timer_s()
        if timer_s is not None:
            return timer_s + 0.001
        if not self._requests:
            return _LOOK_AGAIN_S
        is_fresh = asyncio.get_running_loop().time() - self._active_s < _GRACE_S
        return _LOOK_AGAIN_S if is_fresh and not self._waits_for_requests() else None

    def _waits_for_requests(self) -> bool:
        """Tell whether the body of the flow certainly waits for its requests, and for nothing else."""
        answers = {id(request.answer) for request in self._requests.values()}
        return _waits_for(self._body, answers)

    def _begin_fresh(self, state: GoalState, now_us: int) -> tuple[list[Action], list[ToolCall], list[int]]:
        """Begin what was asked for and has not begun, and what is to be tried again."""
        fresh, self._fresh = self._fresh, []
        actions: list[Action] = []
        unrecorded: list[ToolCall] = []
        wakes: list[int] = []
        for request in fresh:
            found = standing(state, request.step, request.retry)
            if found.status not in ("pending", "again") or request.attempts_begun > found.attempt:
                continue
            due_us = found.due_us(now_us) if found.status == "again" else now_us
            if due_us > now_us:
                self._fresh.append(request)
                wakes.append(due_us)
                continue
            request.attempts_begun = found.attempt + 1
            request.late_error = found.error if found.is_too_late(now_us) else None
            action = request.action(found.attempt + 1, lambda seconds: iso(now_us + round(seconds * 1e6)))
            if isinstance(action, ToolCall) and action.effect == "pure":
                unrecorded.append(action)
            else:
                actions.append(action)
        return actions, unrecorded, wakes


def _context_of(branch: Branch) -> Context:
    context = copy_context()
    context.run(BRANCH.set, branch)
    context.run(STEP.set, None)  # a step of another goal may have started this one
    return context


def _waits_for(waiting: Any, answers: Collection[int]) -> bool:
    """Tell whether a future, a task or a gather certainly waits for some answers only; their ids are given."""
    while isinstance(waiting, asyncio.Task) and not waiting.done():
        waiting = getattr(waiting, "_fut_waiter", None)  # what a task waits for has no public name
    children = getattr(waiting, "_children", None)  # of asyncio.gather
    if isinstance(children, list):
        return all(child.done() or _waits_for(child, answers) for child in children)
    return id(waiting) in answers


async def _end_of(lines: "Sequence[asyncio.Task[Any]]") -> None:
    """Wait until lines have ended; when that is cancelled, cancel them, and raise the first cancel at their end.

    `asyncio.gather` would raise the last one, which may be another: anyio knows a cancel of its own by its text.
    """
    first: asyncio.CancelledError | None = None
    while any(not line.done() for line in lines):
        try:
            await asyncio.wait(lines)
        except asyncio.CancelledError as cancelled:
            first = first or cancelled
            _cancel_all(lines, cancelled)
    if first is not None:
        _hear(lines)
        raise first


def _cancel_all(lines: "Sequence[asyncio.Task[Any]]", cancelled: asyncio.CancelledError) -> None:
    for line in lines:
        line.cancel(*cancelled.args[:1])


def _hear(lines: "Sequence[asyncio.Task[Any]]") -> None:
    """Take the exceptions of lines that nothing else takes, so that asyncio reports none of them."""
    for line in lines:
        _result_of(line)


def _result_of(line: "asyncio.Task[Any]") -> Any:
    """Return what a line that has ended returned, or what it raised."""
    if line.cancelled():
        return asyncio.CancelledError()
    error = line.exception()
    return line.result() if error is None else error


def _is_sleep(request: Request) -> bool:
    return isinstance(request.wanted, Pause) and request.wanted.seconds is not None


def _require_json(step: str, wanted: Wanted) -> None:
    """Check that what is asked for can be recorded; the arguments of a step are JSON already.

    Raises: Invalid
    """
    if not (isinstance(wanted, Work) and step.isascii()):
        to_json([step, *_texts(wanted)], f"What {step} asks for")


def _texts(wanted: Wanted) -> Sequence[Any]:
    """Return what is to be recorded as it was said; the arguments of a step are JSON already."""
    match wanted:
        case Question(question=question, options=options):
            return (question, options)
        case Pause(signal=signal):
            return (signal,)
        case _:
            return ()


def _set_answer(request: Request, value: Any) -> None:
    if not request.answer.done():
        request.answer.set_result(value)
