"""Delivers settled calls to a flow: one at a time, in the order of the history.

**Order.** The outcomes in a history have a total order. The flow receives the next outcome only when all its tasks
wait. So a replay of the same history asks for the same calls in the same order, even with `asyncio.gather`, task groups
and cancellation; and which of two outcomes came first is the same in every run.

**Replay.** Before a replayed flow receives an outcome, it must be where it was in the first run: it must have asked for
every step that was recorded before that outcome. If it has not, it has unrecorded work to finish first (`waiting`).

**Fast path.** Most flows ask for a step and wait for it. Then the next outcome in the history is that of this step, and
no other task of the flow is ready to run. In this case the request is answered at once, without a turn of the event
loop.

**Ids out of order.** A step with an id is found wherever the code asks for it. So its outcome does not block the later
outcomes, and it may be delivered before earlier ones.

**Cancel.** The cancel of a goal has a position between the outcomes, and is delivered like one.

**Timers.** A deadline of asyncio that has fired is recorded, and fires again between the same outcomes. See `timers`.
"""

import asyncio
import math
from typing import Any

from perdure.errors import StepFailed
from perdure.kernel.calls.cancellation import is_cancelled_by_flow
from perdure.kernel.events import Termination
from perdure.kernel.fold import GoalState
from perdure.kernel.history.call_state import CallState
from perdure.kernel.history.step_names import is_marker, is_timer
from perdure.minds.flow.execution.cancelling import Cancelling
from perdure.minds.flow.execution.cleanup import Cleanup
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.execution.timers.fired_timers import recorded_timer
from perdure.minds.flow.requests import Pause, Request, is_id
from perdure.minds.flow.steps.endings import failure_from, value_for
from perdure.minds.flow.steps.failed_steps import tag_with_steps
from perdure.minds.step_status import StepStatus, attempt_of, call_id, is_reopened, status_of_step


class Delivery:
    """Answers the requests of a flow with the outcomes in its history."""

    def __init__(self, progress: Progress, cancelling: Cancelling, cleanup: Cleanup) -> None:
        self._progress = progress
        self._cancelling = cancelling
        self._cleanup = cleanup

    def answer_at_once(self, request: Request) -> bool:
        """Answer a new request if that would happen next anyway; return whether it was answered.

        That is the case if no other task of the flow is ready to run, and the next outcome in the history is the
        requested one. It makes replays fast.
        """
        progress = self._progress
        state, callbacks = progress.state, progress.callbacks
        if not progress.is_replaying or state is None or callbacks is None or progress.delivered >= len(state.settled):
            return False
        call = state.calls[state.settled[progress.delivered]]
        task: Any = asyncio.current_task(request.answer.get_loop())
        is_next = call.call.step == request.step and not task._must_cancel  # noqa: SLF001 (it would be cancelled first)
        is_in_doubt = progress.recorded is not None and progress.recorded.is_in_doubt
        if not is_next or is_in_doubt or not self._is_due(call) or self.is_cancel_next(state) or callbacks.has_ready():
            return False
        return self._deliver_and_count(state, call) and request.answer.done()

    def next_seq(self, state: GoalState) -> float:
        """Return the event of the next outcome to deliver; infinity if there is none."""
        if self._progress.delivered == len(state.settled):
            return math.inf
        return state.calls[state.settled[self._progress.delivered]].ended_seq or 0

    def is_due(self, state: GoalState) -> bool:
        """Return whether a replayed function is where it was when the next settled call was delivered."""
        call = state.calls[state.settled[self._progress.delivered]]
        if is_timer(call.call.step) and not is_reopened(state, call):
            timers = self._progress.timers
            return self._is_due(call) and timers is not None and recorded_timer(call).find(timers) is not None
        return self._is_due(call)

    def _is_due(self, call: CallState) -> bool:
        recorded, ended_seq = self._progress.recorded, call.ended_seq
        return recorded is None or ended_seq is None or recorded.has_asked_before(ended_seq)

    def deliver_next(self, state: GoalState) -> bool:
        """Deliver the next settled call to the function; return whether the function could take it."""
        is_delivered = self._deliver_and_count(state, state.calls[state.settled[self._progress.delivered]])
        if is_delivered:
            self._progress.note_activity(asyncio.get_running_loop())
        return is_delivered

    def awaits_cancel(self, state: GoalState) -> bool:
        """Return whether the next settled call is one that the function cancelled and must cancel again."""
        call = state.calls[state.settled[self._progress.delivered]]
        return call.call.step in self._progress.requests and _is_to_be_cancelled(state, call)

    def _deliver_and_count(self, state: GoalState, call: CallState) -> bool:
        progress = self._progress
        if not self._deliver(state, call):
            return False
        if not progress.times_left:
            progress.delivered += 1
        progress.reached_us = call.ended_us or 0
        self._note_delivery(call)
        return True

    def _deliver_by_id(self, state: GoalState) -> bool:
        """Deliver an outcome to a function whose steps were reordered; return whether there was one.

        A step with an id has no position in the order: its outcome blocks no other, and none blocks it.
        """
        has_order = False
        progress = self._progress
        for name in state.settled[progress.delivered :]:
            call = state.calls[name]
            step = call.call.step
            is_free = is_id(step) or not has_order
            if step not in progress.requests:
                has_order = has_order or not (step in progress.asked or is_id(step) or is_marker(step))
            elif is_free and self._deliver(state, call) and step not in progress.requests:
                self._note_delivery(call)
                progress.note_activity(asyncio.get_running_loop())
                return True
        return False

    def _note_delivery(self, call: CallState) -> None:
        ended_us = call.ended_us or 0
        if ended_us > self._progress.now_us and not is_marker(call.call.step):
            self._progress.now_us = ended_us

    def _deliver(self, state: GoalState, call: CallState) -> bool:
        """Answer the request that waits for a call, if there is one; return whether the function could take it."""
        step = call.call.step
        request = self._progress.requests.get(step)
        if request is None:
            return self._deliver_unawaited(state, call)
        if self._has_later_attempt(state, call):
            return True
        if request.is_cancelled:
            self._cancelling.drop(request)
            return True
        outcome = call.outcome
        if outcome is not None and outcome.ok and call.decision is None:
            if not request.answer.done():
                request.answer.set_result(outcome.output)  # as `answer` does, but faster: long histories have many
            self._progress.requests.pop(step, None)
            return True
        if _is_to_be_cancelled(state, call):
            return False
        self.answer(request, status_of_step(state, step, request.retry))
        return True

    def _deliver_unawaited(self, state: GoalState, call: CallState) -> bool:
        """Deliver a call that no request waits for: a timer, a version, or a step that the function no longer needs.

        It has cancelled the step before it was begun, or has its answer.
        """
        step = call.call.step
        return self._fire(state, call) if is_timer(step) else step in self._progress.asked or is_marker(step)

    def _fire(self, state: GoalState, call: CallState) -> bool:
        """Fire a recorded timer again, unless it was fired in this run; return whether the function has it."""
        progress, recorded = self._progress, recorded_timer(call)
        if progress.delivered >= progress.from_history or is_reopened(state, call):
            return True
        timer = None if progress.timers is None else recorded.find(progress.timers)
        if progress.timers is None or timer is None:
            progress.times_left = 0
            return False
        progress.times_left = (progress.times_left or recorded.times) - 1
        progress.timers.fire([timer])
        return True

    def answer(self, request: Request, found: StepStatus) -> None:
        """Answer a request from the state of its step; a request with another attempt is queued again."""
        if request.answer.done():
            return
        if found.is_aborted:
            detail = f"Step {request.step} failed: {found.why}."
            end = Termination("failed", detail, error=found.error, steps=(request.step,))
            self._progress.end = self._progress.end or end
        elif found.status == "done" and found.is_elapsed and not _is_sleep(request):
            late = TimeoutError(f"{request.step} has timed out.")
            tag_with_steps(late, [request.step])
            request.answer.set_exception(late)
        elif found.status == "done":
            try:
                request.answer.set_result(value_for(request, found))
            except StepFailed as failed:
                request.answer.set_exception(failed)
        elif found.status == "failed":
            request.answer.set_exception(failure_from(request.step, found))
        else:
            self._progress.fresh.append(request)
        if request.answer.done():
            self._progress.requests.pop(request.step, None)

    def _has_later_attempt(self, state: GoalState, call: CallState) -> bool:
        """Return whether a step has an attempt after a call: then the function never received the end of that call."""
        name = call.call.call_id
        if name.endswith(".1"):
            return f"{name[:-1]}2" in state.calls
        return call_id(call.call.step, attempt_of(call.call) + 1) in state.calls

    def needs_call(self, request: Request) -> bool:
        """Return whether the history has no call for a request."""
        return self._progress.state is None or call_id(request.step, 1) not in self._progress.state.calls

    def is_cancel_next(self, state: GoalState) -> bool:
        """Return whether the cancel of the goal is to be delivered now: never while the function waits for cancels.

        A task that waits for the end of calls that it cancelled would not notice a second cancel.
        """
        return not self._progress.cancelled and self._cleanup.is_next(state, self._progress.delivered)

    def begin_cleanup(self, state: GoalState) -> None:
        """Deliver the cancel of the goal."""
        self._progress.reached_us = state.cancel_us
        self._cleanup.begin(self._progress.body)
        self._progress.note_activity(asyncio.get_running_loop())

    def deliver_anyway(self, state: GoalState) -> bool:
        """Deliver an outcome to a function that is stuck otherwise; return whether it could take one.

        Its steps with ids may be in another order now. Or it does not make a recorded timer: what the timer waited for
        is not recorded, and took another time. That timer is left out.
        """
        if is_timer(state.calls[state.settled[self._progress.delivered]].call.step):
            self._progress.delivered += 1
            return True
        return (not self.is_cancel_next(state) and self.deliver_next(state)) or self._deliver_by_id(state)


def _is_to_be_cancelled(state: GoalState, call: CallState) -> bool:
    """Return whether the function cancelled a call, and so cancels it again in a replay."""
    return is_cancelled_by_flow(call) and not is_reopened(state, call)


def _is_sleep(request: Request) -> bool:
    return isinstance(request.wanted, Pause) and request.wanted.seconds is not None
