"""Options of a start, given before the flow and its arguments: `p.goals.options(key=…).run(flow, …)`."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from perdure.app.goals.arguments.validate import OnFailed
from perdure.app.goals.errors import failure_of
from perdure.app.goals.handle import GoalHandle
from perdure.app.wire.goal_view import GoalResult, GoalView
from perdure.errors import Conflict
from perdure.kernel.events import Limits, PolicySpec
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import Owned

if TYPE_CHECKING:
    from perdure.app.goals.arguments.run_options import RunOptions
    from perdure.app.goals.goals import Goals
    from perdure.app.goals.new_goal import NewGoal
    from perdure.minds.flow.flow import Flow

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class GoalOptions:
    """Options of a start, created by `p.goals.options(…)`.

    options = p.goals.options(key="nightly-2026-11-15", tags=["report"])
    result = await options.run(nightly, "2026-11-15")
    """

    goals: "Goals" = field(repr=False)
    key: str | None = None
    limits: Limits = field(default_factory=Limits)
    tags: tuple[str, ...] = ()
    on_failed: OnFailed = "raise"
    policy: PolicySpec | None = None
    bot: str | None = None
    model: str | None = None
    chat: bool = False

    @overload
    async def run(self, what: "Flow[P, T]", /, *args: P.args, **kwargs: P.kwargs) -> GoalResult[T]: ...
    @overload
    async def run(self, what: str | list[str] | Path, /) -> GoalResult[Any]: ...
    async def run(self, what: Any, /, *args: Any, **kwargs: Any) -> GoalResult[Any]:
        """Run a flow with its arguments, a text for a model, a command or the plan in a file; return the result.

        With a key, the same call is the same goal: it is started once, and every later call resumes it or reads its
        result. While another worker runs it, this call waits for the result, and takes over when that worker dies.

        Raises: GoalFailed; GoalCancelled; GoalWaiting; Invalid; NotFound when the plan file does not exist; Conflict
        when the key started something else, or the code of the flow was changed.
        """
        new = await self._new(what, args, kwargs)
        result = await self._retry_if_failed(await self._run_or_follow(new), self.goals.run_options_of(new))
        return self.goals.result_of(result, self.on_failed)

    @overload
    async def start(self, what: "Flow[P, T]", /, *args: P.args, **kwargs: P.kwargs) -> GoalHandle[T]: ...
    @overload
    async def start(self, what: str | list[str] | Path, /) -> GoalHandle[Any]: ...
    async def start(self, what: Any, /, *args: Any, **kwargs: Any) -> GoalHandle[Any]:
        """Store a goal, run it in the background until the home is closed, and return its handle at once.

        A waiting goal is resumed here when it was answered or is due.

        With a used key, the handle is that of the existing goal, which is resumed if no worker runs it.

        Raises: Invalid; NotFound when the plan file does not exist; Conflict when the key started something else.
        """
        new = await self._new(what, args, kwargs)
        known = await self.goals.started(new)
        if known is None:
            try:
                resume = partial(self._continue, new.flow)
                run = await self.goals.worker.start(lambda options: self._begin(new, options), resume)
                return GoalHandle(self.goals, run.goal_id, run.task, self.on_failed, is_starter=True)
            except Conflict:
                known = await self.goals.started(new)  # another caller was quicker with the same key
                if known is None:
                    raise
        return self._handle_of(known, new.flow)

    async def _new(
        self, what: "Flow[..., Any] | str | list[str] | Path", args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> "NewGoal":
        from perdure.app.goals.new_goal import new_goal, require_text

        self.goals.require_open()
        if isinstance(what, str) or self.bot is not None or self.model is not None or self.chat:
            text, goals = require_text(what, args, kwargs), self.goals.model_goals
            new = await goals.new(text, bot=self.bot, model=self.model, chat=self.chat, limits=self.limits)
            return replace(new, key=self.key, tags=self.tags, policy=self.policy)
        new = new_goal(what, args, kwargs)
        return replace(new, key=self.key, limits=self.limits, tags=self.tags, policy=self.policy)

    async def _run_or_follow(self, new: "NewGoal") -> RunResult:
        """Run a goal here; wait while another worker runs the goal with the same key."""
        has_waited = False
        while True:
            try:
                result = await self.goals.begin_once(new)
                return replace(result, is_recorded=result.is_recorded and not has_waited)
            except Owned:
                known = await self.goals.started(new)
                if known is None:
                    raise
                await self.goals.wait_while_running(known.id)
                has_waited = True

    def _handle_of(self, known: GoalView, flow: "Flow[..., Any] | None") -> GoalHandle[Any]:
        """Return the handle of an existing goal, and resume it unless it has ended, is on hold or runs."""
        is_retried = known.status == "failed" and self.on_failed == "retry"
        is_left_alone = known.is_final or known.is_running or known.summary.waiting_for == "hold"
        task = None
        if is_retried or not is_left_alone:
            task = self.goals.worker.resume(known.id, partial(self._continue, flow))
        return GoalHandle(self.goals, known.id, task, self.on_failed, is_starter=True)

    async def _begin(self, new: "NewGoal", options: "RunOptions") -> RunResult:
        options = self.goals.run_options_of(new, options)
        return await self._retry_if_failed(await self.goals.begin(new, options), options)

    async def _continue(self, flow: "Flow[..., Any] | None", goal_id: str, options: "RunOptions") -> RunResult:
        """Resume a goal with the flow object of the caller, which is kept alive until the goal has ended."""
        options = replace(options, flow=flow)
        return await self._retry_if_failed(await self.goals.resume_run(goal_id, options), options)

    async def _retry_if_failed(self, result: RunResult, options: "RunOptions | None" = None) -> RunResult:
        """Retry a failed goal once if requested. If another caller retries it, return the result of that retry.

        Raises: GoalFailed, because of the Conflict, when it cannot be retried.
        """
        failure = failure_of(result, self.goals.named_home)
        if self.on_failed != "retry" or failure is None or result.state.status != "failed":
            return result
        goal_id = result.state.goal_id
        while True:
            try:
                return await self.goals.reopen(goal_id, options, by="on_failed")
            except Conflict as refused:
                is_retried = (await self.goals.state(goal_id)).head.seq > result.state.head.seq
                if is_retried:
                    return await self._follow(goal_id, options)
                if not isinstance(refused, Owned):
                    raise failure from refused
            await self.goals.pause()  # its worker has not released it yet, or another caller is about to retry it

    async def _follow(self, goal_id: str, options: "RunOptions | None") -> RunResult:
        """Wait for a goal that another worker runs; resume it when that worker leaves it unfinished."""
        while True:
            try:
                return await self.goals.resume_run(goal_id, options)
            except Owned:
                await self.goals.wait_while_running(goal_id)
