"""A handle on a goal that runs in the background or in another process."""

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from perdure.app.change_feed.following import QUIET_S
from perdure.app.goals.arguments import validate
from perdure.app.goals.arguments.validate import OnFailed
from perdure.app.goals.errors import wait_of
from perdure.app.goals.reader import RECHECK_S
from perdure.app.wire.goal_view import GoalResult, GoalView
from perdure.errors import Unavailable
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import Owned
from perdure.statuses import GoalStatus

if TYPE_CHECKING:
    from perdure.app.goals.goals import Goals

T_co = TypeVar("T_co", covariant=True)


class GoalHandle(Generic[T_co]):
    """A goal by its id, in any process; `p.goals.start(…)` and `p.goals.handle(id)` return one.

    handle = await p.goals.start(nightly, "2026-11-15")
    print(handle.id, await handle.status())
    result = await handle.result(timeout_s=60)
    """

    def __init__(
        self,
        goals: "Goals",
        goal_id: str,
        task: "asyncio.Task[RunResult] | None" = None,
        on_failed: OnFailed = "raise",
        *,
        is_starter: bool = False,
    ) -> None:
        self.id = goal_id
        self._goals = goals
        self._task = task
        self._has_waited = task is not None
        """Whether the goal has run since this handle was created."""
        self._on_failed = on_failed
        self._is_starter = is_starter
        """Whether this process has the code and resumes the goal when it can continue and no worker runs it."""

    def __repr__(self) -> str:
        return f"<goal {self.id}>"

    async def status(self) -> GoalStatus:
        """Return the status of the goal now.

        Raises: NotFound when it was deleted.
        """
        return (await self._goals.get(self.id)).status

    async def result(self, timeout_s: float | None = None) -> GoalResult[T_co]:
        """Wait until the goal has ended, in whichever process, and return its result.

        This includes waits for answers, signals and timers. A goal that was started through this handle is resumed here
        when it can continue and no worker runs it. With `timeout_s=0`, only an ended goal has a result.

        Raises: GoalFailed and GoalCancelled as `run`; TimeoutError after `timeout_s` seconds, with the present state of
        the goal, which continues; Conflict and Unavailable when it could not be run here.
        """
        limit_s = validate.timeout_s(timeout_s)
        result = await self._goals.run_result(self.id, "ended") if await self._has_ended() else None
        try:
            async with asyncio.timeout(limit_s) as limit:
                # a failed goal may be reopened while it is read
                while result is None or result.state.termination is None:
                    self._has_waited = True
                    await self._wait_for_end()
                    result = await self._goals.run_result(self.id, "ended")
        except TimeoutError:
            if not limit.expired():
                raise
            if not await self._has_ended():
                raise TimeoutError(await self._describe_wait()) from None
            result = await self._goals.run_result(self.id, "ended")
        result = replace(result, is_recorded=not self._has_waited)
        return self._goals.result_of(result, self._on_failed)

    async def cancel(self, *, reason: str | None = None, now: bool = False) -> GoalView:
        """Cancel the goal and return it; see `p.goals.cancel`.

        Raises: Conflict when it has ended.
        """
        return await self._goals.cancel(self.id, reason=reason, now=now)

    async def _has_ended(self) -> bool:
        """Return whether the goal has ended and is not about to be retried by its run in this process.

        The flow of a cancelled goal may still be unwinding in this process, without recording anything.
        """
        goal = await self._goals.get(self.id)
        may_be_retried = goal.status == "failed" and self._task is not None and not self._task.done()
        return goal.is_final and not may_be_retried

    async def _describe_wait(self) -> str:
        """Return what the goal waits for, or its status if it does not wait."""
        goal = await self._goals.get(self.id)
        wait = wait_of(await self._goals.run_result(self.id, "waiting")) if goal.status == "waiting" else None
        return f"{self.id} is {goal.status}" if wait is None else wait.detail.removesuffix(".")

    async def _wait_for_end(self) -> None:
        await self._wait_for_task()
        async with self._goals.feed.subscribe(self.id) as changes:
            while not (goal := await self._goals.get(self.id)).is_final:
                if self._is_starter and await self._goals.can_continue(goal):
                    self._task = self._goals.worker.resume(self.id)
                await self._wait_for_task()
                await changes.wait(RECHECK_S if self._is_starter else QUIET_S)

    async def _wait_for_task(self) -> None:
        """Wait for the end of the run in this process.

        Raises: the error of the run, unless another worker owns the goal.
        """
        task, self._task = self._task, None
        if task is None:
            return
        try:
            await asyncio.wait({task})
        finally:
            if not task.done():
                self._task = task
        if task.cancelled():
            raise Unavailable(f"{self.id} was interrupted because the home is being closed. It can be resumed.")
        error = task.exception()
        if error is not None and not isinstance(error, Owned):
            raise error
