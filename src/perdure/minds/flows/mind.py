"""The mind of a flow: the function itself, alive between decisions and run again from its beginning on resume.

What the function asks for and the history knows is answered from the history; what is new becomes a call. The mind
decides when every branch of the function waits for something.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perdure.errors import Invalid, StepFailed
from perdure.kernel.events import Action, Termination, ToolCall, encode, iso
from perdure.kernel.ports import Decided, GoalState
from perdure.minds.flows.failed_steps import failed_steps, tag_with_steps
from perdure.minds.flows.flow import Flow, Goal
from perdure.minds.flows.requests import BRANCH, NO_FORKS, Branch, Pause, Question, Request, StepForks, Work
from perdure.minds.flows.mistakes import failure_of, is_interrupt
from perdure.minds.plan_shape import NO_RETRY, Retry
from perdure.minds.flows.recorded import Recorded
from perdure.minds.standing import Standing, standing
from perdure.minds.flows.step_tool import StepTool
from perdure.minds.flows.tracebacks import class_name, members_of, recorded_error, text_of
from perdure.minds.flows.values import read_arguments, to_json

_PATIENCE_S = 0.05
_LOOK_AGAIN_US = 50_000
_UNWINDING_S = 10.0
"""How long a function may take to leave its `finally` blocks."""

log = logging.getLogger(__name__)


class FlowMind:
    """Decides by running the function; see Mind."""

    def __init__(self, flow: Flow, arguments: Mapping[str, Any] | None, forks: StepForks = NO_FORKS) -> None:
        self._flow = flow
        given = arguments or {}
        self._args, self._kwargs = read_arguments(flow.fn, given.get("args", []), given.get("kwargs", {}))
        self._body: asyncio.Task[None] | None = None
        self._end: Termination | None = None
        self._requests: dict[str, Request] = {}
        self._fresh: list[Request] = []
        self._recorded: Recorded | None = None
        self._state: GoalState | None = None
        self._seen = 0
        self._active = 0
        self._is_quiet = asyncio.Event()
        self._is_closed = False
        self.tool = StepTool(self._requests, forks)

    async def prepare(self, state: GoalState) -> None:
        """See Mind.prepare. Runs the function from its beginning as far as the history goes.

        Raises: Conflict when the function does not ask for what was recorded; nothing is recorded then.
        """
        self._seen = len(state.settled)
        self._recorded = Recorded(state)
        self._launch(state)
        await self._is_quiet.wait()
        self._recorded.require_all_asked(self._flow.path, _ended_without(self._end))

    async def decide(self, state: GoalState, now_us: int) -> Decided:
        """See Mind.decide."""
        if self._body is None:
            self._launch(state)
        self._answer_settled(state)
        is_quiet = await self._comes_to_rest()
        if self._end is not None:
            return Decided() if state.is_busy else Decided(end=self._end)
        begun = self._begin_fresh(state, now_us)
        again_us = None if is_quiet else now_us + _LOOK_AGAIN_US
        return replace(begun, wake_us=min(filter(None, (begun.wake_us, again_us)), default=None))

    def _launch(self, state: GoalState) -> None:
        self._state = state
        self._active = 1
        self._body = asyncio.create_task(self._run(state.goal_id))

    async def _comes_to_rest(self) -> bool:
        """Wait until every branch waits for something, but not long: one that is busy holds up no other."""
        if not self._is_quiet.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE_S):
                    await self._is_quiet.wait()
        return self._is_quiet.is_set()

    def environment(self, state: GoalState, call: ToolCall) -> Mapping[str, str]:  # noqa: ARG002 (it has its arguments)
        """See Mind.environment."""
        return {}

    async def close(self) -> None:
        """See Mind.close."""
        self._is_closed = True
        if self._body is not None:
            self._body.cancel()
            await asyncio.wait([self._body], timeout=_UNWINDING_S)
            if not self._body.done():
                log.warning("the flow %s does not let itself be unwound; it is left alone", self._flow.path)

    async def request(self, name: str, wanted: Work | Question | Pause, retry: Retry = NO_RETRY) -> Any:
        """Wait for something that the function asks for; what the history knows is there at once."""
        branch = BRANCH.get(None)
        if branch is None:
            raise Invalid(f"{name} was asked for inside a step; only the flow itself has steps, questions and waits.")
        if self._is_closed:
            raise asyncio.CancelledError  # the function is being unwound: what it asks for in `finally` is not run now
        step = branch.next_step(name)
        to_json([step, *_texts(wanted)], f"What {step} asks for")
        request = Request(step, wanted, asyncio.get_running_loop().create_future(), retry)
        if self._recorded is not None and not self._recorded.agrees(branch.name, request):
            self._rest()
            await request.answer  # which never comes: the function goes no further
        branch.in_flight = step
        self._requests[step] = request
        try:
            if not self._answer(request):
                self._fresh.append(request)
                self._rest()
            return await request.answer
        except asyncio.CancelledError:
            if self._is_closed:
                raise
            raise Invalid(
                f"{step} was cancelled by the flow itself, and a resumed flow could not do the same."
                " Give the step a timeout_s instead of asyncio.timeout or wait_for."
            ) from None
        finally:
            branch.in_flight = None
            del self._requests[step]

    async def side_by_side(self, coroutines: Sequence[Awaitable[Any]]) -> list[Any]:
        """Run coroutines in branches of their own, and return how each ended, in order."""
        branches = BRANCH.get().open(len(coroutines))
        self._active += len(coroutines) - 1 if coroutines else 0  # this line waits; the last to end hands over to it
        left = len(coroutines)

        async def run(branch: Branch, coroutine: Awaitable[Any]) -> Any:
            nonlocal left
            BRANCH.set(branch)
            try:
                return await coroutine
            except (SystemExit, KeyboardInterrupt) as error:
                if is_interrupt(error):
                    raise
                raise Invalid(f"A branch of goal.gather raised {class_name(error)}: {text_of(error)}.") from error
            finally:
                left -= 1
                if left:
                    self._rest()

        tasks = [asyncio.ensure_future(run(*pair)) for pair in zip(branches, coroutines, strict=True)]
        try:
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()

    async def _run(self, goal_id: str) -> None:
        BRANCH.set(Branch())
        try:
            goal = Goal(goal_id, self)
            result = await self._flow.fn(goal, *self._args, **self._kwargs)
            await self._require_nothing_open(goal)
            self._end = Termination("done", value=to_json(result, f"What {self._flow.name} returned"))
        except BaseException as error:
            if self._is_closed or is_interrupt(error):
                raise
            self._end = self._ending(error)
        finally:
            self._rest()

    def _ending(self, error: BaseException) -> Termination:
        """Return how the function ended that raised: an end that can be recorded, whatever the exception does."""
        try:
            calls = self._state.calls.values() if self._state is not None else ()
            end = _ending(error, self._flow.path, {call.call.step for call in calls})
            encode(end)
        except BaseException as other:
            if is_interrupt(other):
                raise
            log.exception("the exception that %s raised cannot be described", self._flow.path)
            return Termination("fatal_error", "The flow raised an exception that cannot be described.")
        return end

    async def _require_nothing_open(self, goal: Goal) -> None:
        """See that the function has awaited all that it began."""
        await asyncio.sleep(0)  # a task that it left behind asks for its step now
        goal.unawaited.require_none()
        for step in self._requests:
            raise Invalid(f"The flow returned while {step} was in flight: await it, or use goal.gather.")

    def _rest(self) -> None:
        """One line of the function less is at work."""
        self._active -= 1
        if self._active <= 0:
            self._is_quiet.set()

    def _stir(self) -> None:
        self._active += 1
        if self._active > 0:
            self._is_quiet.clear()

    def _answer_settled(self, state: GoalState) -> None:
        """Let the function go on where something that it waits for has ended since the last time."""
        self._state = state
        ended, self._seen = state.settled[self._seen :], len(state.settled)
        for settled in ended:
            request = self._requests.get(state.calls[settled].call.step)
            if request is None or request.answer.done():
                continue
            self._stir()
            if not self._answer(request):
                self._fresh.append(request)
                self._rest()

    def _answer(self, request: Request) -> bool:
        """Give a request what the history knows of it; tell whether that is its end."""
        if self._state is None:
            return False
        found = standing(self._state, request.step, request.retry)
        if found.is_aborted:
            detail = f"Step {request.step} failed: {found.why}."
            self._end = self._end or Termination("failed", detail, error=found.error, steps=(request.step,))
            return False
        if found.status == "done":
            request.answer.set_result(_value(found))
        elif found.status == "failed":
            request.answer.set_exception(_failure(request.step, found))
        return request.answer.done()

    def _begin_fresh(self, state: GoalState, now_us: int) -> Decided:
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
            action = request.action(found.attempt + 1, lambda seconds: iso(now_us + round(seconds * 1e6)))
            if isinstance(action, ToolCall) and action.effect == "pure":
                unrecorded.append(action)
            else:
                actions.append(action)
        return Decided(actions, unrecorded, wake_us=min(wakes, default=None))


def _texts(wanted: Work | Question | Pause) -> Sequence[Any]:
    """Return what is to be recorded as it was said; the arguments of a step are JSON already."""
    match wanted:
        case Question(question=question, options=options):
            return (question, options)
        case Pause(signal=signal):
            return (signal,)
        case _:
            return ()


def _ending(error: BaseException, where: str, known: Collection[str]) -> Termination:
    """Return how a function ended that raised; of the steps that failed it names those that are known."""
    steps = tuple(step for step in failed_steps(error) if step in known)
    while members := members_of(error):
        error = members[0]  # what came first is why the others came
    failure = failure_of(error, where)
    if not issubclass(type(error), StepFailed):
        return Termination("fatal_error", f"{failure.code}: {failure.message}", error=failure, steps=steps)
    recorded = recorded_error(error) or failure
    return Termination("failed", f"{failure.code}: {text_of(error)}", error=recorded, steps=steps)


def _ended_without(end: Termination | None) -> str | None:
    """Say how code has ended that did not ask for all that was recorded."""
    if end is None:
        return None
    return "the code ended without it" + ("" if end.detail is None else f" ({end.detail})")


def _value(found: Standing) -> Any:
    signal = found.last.signal if found.last else None
    return found.output if signal is None else signal.payload


def _failure(step: str, found: Standing) -> StepFailed:
    failed = StepFailed(found.error.code, found.why, step=step)
    failed.error = found.error
    tag_with_steps(failed, [step])
    return failed
