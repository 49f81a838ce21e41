"""The mind of a flow: keeps its function running between decisions, and replays it from the beginning on resume.

Requests of the function become calls (`attempts`). Outcomes, signals, decisions and cancels are delivered to it one at
a time, in the order of the history (`delivery`). Calls that it cancels are ended and recorded before it continues
(`cancelling`). If it waits for something unrecorded, it is checked again after some time (`waiting`). These parts share
`progress`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from perdure.errors import Conflict, Invalid
from perdure.kernel.calls.toolbox import Toolbox
from perdure.kernel.events import Body, Termination, ToolCall
from perdure.kernel.fold import Origin
from perdure.kernel.history.frozen import constructor
from perdure.kernel.mind import Proposal
from perdure.kernel.ports import GoalState
from perdure.minds.flow.body import context_of, ending, is_of, require_nothing_open, unwind
from perdure.minds.flow.execution.cancelling import Cancelling
from perdure.minds.flow.execution.cleanup import Cleanup
from perdure.minds.flow.execution.delivery import Delivery
from perdure.minds.flow.execution.event_loop import FlowCallbacks
from perdure.minds.flow.execution.progress import Progress
from perdure.minds.flow.execution.recorded_steps import ChangedFlow, Recorded
from perdure.minds.flow.execution.timers.flow_timers import FlowTimers
from perdure.minds.flow.execution.waiting import advance, fire_passed, next_check, settle_doubts
from perdure.minds.flow.flow import Flow
from perdure.minds.flow.goal import Goal
from perdure.minds.flow.requests import (
    BRANCH,
    NO_FORKS,
    Branch,
    Pause,
    Question,
    Request,
    StepForks,
    StepFunction,
    Wanted,
    step_context,
)
from perdure.minds.flow.steps.attempts import begin_fresh
from perdure.minds.flow.steps.endings import ended_without
from perdure.minds.flow.steps.step_calls import DIRECT, StepCalls
from perdure.minds.flow.steps.step_tool import StepTool
from perdure.minds.flow.steps.user_errors import is_interrupt
from perdure.minds.flow.values.values import flow_result_to_json, read_arguments, to_json
from perdure.minds.flow.versions import Refusal, Versions
from perdure.minds.retry import NO_RETRY, Retry
from perdure.minds.step_status import status_of_step

_MOST_FIRED = 100
"""The number of timers that are fired in one decision."""

log = logging.getLogger(__name__)


class FlowMind:
    """Decides by running the function; see Mind."""

    is_slow = False

    def __init__(
        self,
        flow: Flow[..., Any],
        arguments: Mapping[str, Any] | None,
        forks: StepForks = NO_FORKS,
        calls: StepCalls = DIRECT,
    ) -> None:
        self._flow = flow
        self.goal: Goal | None = None
        """The first argument of the function, once it runs."""
        given = arguments or {}
        self._args, self._kwargs = read_arguments(flow.fn, given.get("args", []), given.get("kwargs", {}))
        self.goal_id = ""
        self.origins: Sequence[Origin] = ()
        """The goals that wrote the history of this goal. See GoalState."""
        self._progress = Progress()
        self._cleanup = Cleanup()
        self._cancelling = Cancelling(self._progress)
        self._delivery = Delivery(self._progress, self._cancelling, self._cleanup)
        self._ids: set[str] = set()
        self.versions = Versions()
        self._refusal: Refusal | None = None
        self.tool = StepTool(self._progress, forks, calls)

    async def prepare(self, state: GoalState, tools: Toolbox) -> Sequence[Body]:  # noqa: ARG002 (a flow knows no tools)
        """See Mind.prepare. Replays the function to the end of the history.

        Raises: Conflict when the function does not request the recorded steps; nothing is recorded then.
        """
        recorded = self._progress.recorded = Recorded(state)
        self._progress.is_replaying, self._progress.from_history = True, len(state.settled)
        self.versions.load(state)
        callbacks = self._launch(state)
        await callbacks.rest()
        await settle_doubts(self._progress, recorded, callbacks, self._delivery.next_seq(state))
        while await self._replay_next(state, recorded, callbacks):
            await settle_doubts(self._progress, recorded, callbacks, self._delivery.next_seq(state))
        self._progress.is_replaying = False
        if self._refusal is not None:
            raise self._refusal.error
        recorded.require_all_asked(self._flow.path, ended_without(self._progress.end))
        return ()

    async def _replay_next(self, state: GoalState, recorded: Recorded, callbacks: FlowCallbacks) -> bool:
        """Deliver the next outcome or cancel in the history; return whether the replay continues."""
        if self._progress.end is not None or self._refusal is not None or recorded.has_difference:
            return False
        has_more = self._progress.delivered < len(state.settled)
        if self._delivery.is_cancel_next(state):
            is_delivered = recorded.has_asked_before(state.cancel_seq)
            if is_delivered:
                self._delivery.begin_cleanup(state)
        elif not has_more and recorded.is_all_asked:
            return False
        else:
            is_delivered = has_more and self._delivery.is_due(state) and self._delivery.deliver_next(state)
        if not is_delivered:
            if await advance(self._progress, callbacks):
                return True
            if not (has_more and self._delivery.deliver_anyway(state)):
                return False
        await callbacks.rest()
        return True

    async def decide(self, state: GoalState, now_us: int) -> Proposal:
        """See Mind.decide."""
        progress, delivery = self._progress, self._delivery
        callbacks = self._launch(state) if progress.callbacks is None else progress.callbacks
        progress.state, progress.news = state, None
        await callbacks.rest()
        while (is_cancel := delivery.is_cancel_next(state)) or progress.delivered < len(state.settled):
            if is_cancel:
                delivery.begin_cleanup(state)
            elif not (delivery.deliver_next(state) or (delivery.awaits_cancel(state) and fire_passed(progress))):
                progress.delivered += 1
            await callbacks.rest()
        if progress.timers is not None and progress.timers.has_due:
            await self._fire_due(state, progress.timers, callbacks)
        self._refuse_unasked()
        if self._refusal is not None:
            return self._refusal.decide(state, now_us)
        cancelled, markers = self._cancelling.cancelled_calls(state), self.versions.take_fresh()
        notes = progress.fired.unrecorded(state)
        if progress.end is not None:
            end = None if state.is_busy else progress.end
            return Proposal(cancelled=cancelled, end=end, events=markers, notes=notes)
        actions, unrecorded, wakes = begin_fresh(progress, state, now_us)
        again_s, news = next_check(progress)
        wake_us = min(wakes, default=None)
        return _proposal(
            actions, unrecorded, cancelled, wake_us=wake_us, again_s=again_s, events=markers, notes=notes, news=news
        )

    async def _fire_due(self, state: GoalState, timers: FlowTimers, callbacks: FlowCallbacks) -> None:
        """Fire the timers of the function that have expired, one at a time, as outcomes are delivered."""
        for _ in range(_MOST_FIRED):
            timer = timers.next_due()
            if timer is None or self._progress.end is not None or self._refusal is not None:
                break
            self._progress.fired.note(timer, timers.position_of(timer), state)
            timers.fire([timer])
            self._progress.note_activity(asyncio.get_running_loop())
            await callbacks.rest()

    def has_news(self) -> bool:
        """See Mind.has_news. A timer of the function has fired, or unrecorded work that it awaits has ended."""
        progress, callbacks, timers = self._progress, self._progress.callbacks, self._progress.timers
        if callbacks is None or timers is None:
            return False
        return bool(progress.fresh or progress.cancelled) or timers.has_due or callbacks.has_ready()

    def take_abandoned(self) -> Sequence[str]:
        """See Mind.take_abandoned. The function has cancelled these pure steps."""
        return self._cancelling.take_abandoned()

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:  # noqa: ARG002 (it has its arguments)
        """See Mind.environment."""
        return {}

    async def close(self) -> None:
        """See Mind.close."""
        self._progress.is_closed = True
        await unwind(self._progress, self._flow.path)

    async def request(
        self,
        name: str,
        wanted: Wanted,
        retry: Retry = NO_RETRY,
        *,
        id: str | None = None,  # noqa: A002
    ) -> Any:
        """Make a request of the function, and return its answer.

        If the function cancels the wait, the call is ended and recorded as cancelled before CancelledError is raised.
        """
        if self._progress.is_closed:
            await self._cleanup.refuse(self._progress.body)
        request = self.ask_for(name, wanted, retry, id=id, is_awaited=True)
        if request.answer.done():
            return request.answer.result()
        try:
            return await request.answer
        except asyncio.CancelledError:
            if not self._progress.is_closed:
                await self._cancelling.cancel(request)
            raise
        finally:
            if not request.is_cancelled:
                self._progress.requests.pop(request.step, None)

    def ask_for(
        self,
        name: str,
        wanted: Wanted,
        retry: Retry = NO_RETRY,
        *,
        id: str | None = None,  # noqa: A002
        is_awaited: bool = False,
    ) -> Request:
        """Make a request without waiting for its answer.

        With `is_awaited`, it is answered at once if its outcome is the next one in the history. A deadline
        (`goal.timeout`) is not awaited, because the code inside its block comes first.

        Raises: Invalid outside of the flow; CancelledError when the function is being unwound.
        """
        branch = BRANCH.get()
        if branch is None:
            raise Invalid(f"{name} was asked for inside a step; only the flow itself has steps, questions and waits.")
        if self._progress.is_closed:
            raise asyncio.CancelledError  # requests in `finally` are not run now
        loop = _loop_of(self._progress.body, name)
        step = branch.next_step(name) if id is None else self._step_with_id(branch, id)
        _require_json(step, wanted)
        request = Request(step, wanted, loop.create_future(), retry)
        progress = self._progress
        progress.asked.add(step)
        progress.note_activity(loop)
        if progress.recorded is not None and not progress.recorded.agrees(request):
            return request  # it is never answered: the function stops here
        progress.requests[step] = request
        if not (is_awaited and self._delivery.answer_at_once(request)):
            self._keep(request)
        return request

    def _keep(self, request: Request) -> None:
        """Keep a request until its outcome is delivered; begin it if the history has no call for it."""
        if isinstance(request.wanted, StepFunction):
            request.wanted.context = step_context()
        if self._delivery.needs_call(request):
            self._progress.fresh.append(request)
        elif request.has_id and not self._progress.is_replaying and self._progress.state is not None:
            found = status_of_step(self._progress.state, request.step, request.retry)
            self._delivery.answer(request, found)  # its outcome was already delivered to others: the code was reordered

    def forget(self, request: Request) -> None:
        """Cancel a request without waiting for its record."""
        self._cancelling.forget(request)

    def function_of(self, step: str) -> Callable[..., Any] | None:
        """Return the function of a step that the flow waits for; None when it does not wait for it."""
        request = self._progress.requests.get(step)
        return request.wanted.fn if request is not None and isinstance(request.wanted, StepFunction) else None

    @property
    def now_us(self) -> int:
        """The time of the newest event that was delivered to the function."""
        return self._progress.now_us

    def branch(self, what: str) -> Branch:
        """Return the current branch.

        Raises: Invalid outside of the flow.
        """
        branch = BRANCH.get()
        if branch is None or branch.owner is not self:
            raise Invalid(f"{what} was called outside of its flow, for example inside a step. Call it in the flow.")
        return branch

    def ahead(self, branch: Branch) -> int | None:
        """Return the first recorded event that a branch has yet to request; None if there is none."""
        return self._progress.recorded.ahead(branch.name) if self._progress.recorded is not None else None

    def refuse(self, error: Conflict) -> None:
        """End this run of the goal with an error, without recording further requests."""
        self._refusal = self._refusal or Refusal(error)

    def _step_with_id(self, branch: Branch, step_id: str) -> str:
        """Return the name of the step with an id.

        Raises: Invalid when the id cannot be part of a step's name, or was used before.
        """
        step = branch.step_with_id(step_id)
        if step_id in self._ids:
            raise Invalid(f"The id {step_id!r} was used twice: an id is unique in the goal.")
        self._ids.add(step_id)
        return step

    def _refuse_unasked(self) -> None:
        """Reject an end of the function before it requested a recorded step with an id."""
        if self._progress.end is None or self._progress.recorded is None or self._progress.recorded.is_all_asked:
            return
        try:
            self._progress.recorded.require_all_asked(self._flow.path, ended_without(self._progress.end))
        except ChangedFlow as error:
            self.refuse(error)

    def _launch(self, state: GoalState) -> FlowCallbacks:
        progress = self._progress
        progress.state, self.goal_id, self.origins = state, state.goal_id, state.origins
        progress.now_us = progress.reached_us = state.origins[0].created_us
        callbacks = progress.callbacks = FlowCallbacks(partial(is_of, self))
        progress.timers = FlowTimers(
            self, lambda: progress.reached_us, progress.tell_news, is_shown=callbacks.shows_timers
        )
        progress.body = asyncio.create_task(self._run(state.goal_id), context=context_of(Branch(self)))
        return callbacks

    async def _run(self, goal_id: str) -> None:
        try:
            goal = self.goal = Goal(goal_id, self)
            result = await self._flow.fn(goal, *self._args, **self._kwargs)
            await require_nothing_open(goal, self._progress)
            self._progress.end = Termination(
                "done", value=flow_result_to_json(self._flow.fn, result, f"The result of {self._flow.name}")
            )
        except BaseException as error:
            if self._progress.is_closed or is_interrupt(error):
                raise
            self._progress.end = self._ending(error)

    def _ending(self, error: BaseException) -> Termination:
        if self._cleanup.is_ended_by(error):
            return Termination("cancelled")
        return ending(error, self._progress, self._flow.path)


def _require_json(step: str, wanted: Wanted) -> None:
    """Check that a request can be recorded; the arguments of a step are already JSON.

    Raises: Invalid
    """
    if not (isinstance(wanted, StepFunction) and step.isascii()):
        to_json([step, *_texts(wanted)], f"The request {step}")


def _texts(wanted: Wanted) -> Sequence[Any]:
    """Return the texts of a request that are recorded unchanged; the arguments of a step are already JSON."""
    match wanted:
        case Question(question=question, options=options):
            return (question, options)
        case Pause(signal=signal):
            return (signal,)
        case _:
            return ()


_proposal = constructor(Proposal)


def _loop_of(body: "asyncio.Task[Any] | None", name: str) -> asyncio.AbstractEventLoop:
    """Return the running event loop, which must be that of the flow's body.

    Raises: Invalid on another one, where the answer would never arrive.
    """
    loop = asyncio.get_running_loop()
    if body is not None and body.get_loop() is not loop:
        raise Invalid(
            f"{name} was called on another event loop, for example on a thread. Call the steps of a flow on the"
            " event loop that runs the flow."
        )
    return loop
