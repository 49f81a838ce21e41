"""Posts to goals, such as decisions and cancels: stored in an inbox, recorded at once when no worker runs the goal."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from perdure.app.change_feed.feed import ChangeFeed
from perdure.app.goals.arguments import validate
from perdure.app.wire.goal_view import GoalView
from perdure.app.workers.runner import Runner
from perdure.errors import Conflict, KeyTaken, PerdureError
from perdure.kernel.fold import fold
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import Admit, Clock, Ids, Inbox, Owned, StateStore

CANCEL_WAIT_S = 8.0
"""The time that a cancel waits for the end of the goal; running processes are killed within five seconds."""
_SETTLE_TIMEOUT_S = 2.0
"""The time for which recording a post is retried while a run in this process is unwinding."""
_SETTLE_INTERVAL_S = 0.05
CLEANING_UP = "It is cancelled and ends after the cleanup of its flow."
_CLAIM_WAIT_S = 3.0
"""The time that a cancel waits for a worker of an application to begin the cleanup; a live one needs half a second."""
_RECHECK_S = 0.25
"""The interval of checks whether the worker of a cancelled goal is alive."""
_CANCEL_PENDING = "A cancel is pending: running steps of the goal have not ended yet."


class Posts:
    """Posts to the inboxes of goals; `find` returns a goal with its present status."""

    def __init__(  # noqa: PLR0913 (the composition root gives each)
        self,
        store: StateStore,
        inbox: Inbox,
        runner: Runner,
        clock: Clock,
        ids: Ids,
        *,
        find: Callable[[str], Awaitable[GoalView]],
        feed: ChangeFeed,
    ) -> None:
        self._store = store
        self._inbox = inbox
        self._runner = runner
        self._clock = clock
        self._ids = ids
        self._find = find
        self._feed = feed

    async def decided(self, goal_id: str, key: str | None, given: Mapping[str, Any]) -> GoalView | None:
        """Return the goal if a key has made a decision on it before.

        Raises: KeyTaken when that was another decision.
        """
        known = None if key is None else await self._inbox.posted_as(goal_id, key)
        if key is None or known is None:
            return None
        validate.require_same_decision(key, known, given)
        return replace(await self._find(goal_id), is_news=False)

    async def post(  # noqa: PLR0913 (what is posted, its key, its check and its moment)
        self,
        goal_id: str,
        kind: str,
        payload: dict[str, Any],
        *,
        key: str | None = None,
        after: int = 0,
        admit: Admit | None = None,
        created_us: int | None = None,
    ) -> GoalView:
        """Store a post in the inbox of a goal, durably, and record it at once if no worker runs the goal.

        `created_us` is the time at which the caller checked it (default: now).

        Raises: NotFound; Conflict when the goal has ended, or `admit` rejects it; KeyTaken when the key was used for
        something else.
        """
        post_key = key or self._ids.event_id()
        at_us = self._clock.now_us() if created_us is None else created_us
        try:
            is_news = await self._inbox.post(
                goal_id, kind, payload, key=post_key, after=after, admit=admit, created_us=at_us
            )
        except Conflict as error:
            if key is not None and await self._inbox.posted_as(goal_id, key) is not None:
                raise KeyTaken(error.detail) from error
            raise
        return replace(await self._settle(goal_id), is_news=is_news)

    async def wait_for_claim(self, goal: GoalView) -> GoalView:
        """Wait a short time until a worker runs a cancelled goal that has to clean up, and return the goal.

        Nothing runs an interrupted goal of the command line.
        """
        wait_s = 0.0 if goal.summary.queue == "cli" else _CLAIM_WAIT_S
        deadline_s = self._clock.boottime_s() + wait_s
        async with self._feed.subscribe(goal.id) as changes:
            while _needs_worker(goal) and self._clock.boottime_s() < deadline_s:
                await changes.wait(_RECHECK_S)
                goal = await self._find(goal.id)
        return goal

    async def wait_for_end(self, goal: GoalView, wait_s: float) -> GoalView:
        """Wait up to `wait_s` seconds for the end of a cancelled goal; a goal of a dead worker is ended here."""
        if not goal.is_final:
            goal = await self._wait_until_final(goal, self._clock.boottime_s() + wait_s)
        if not goal.is_final:
            return goal
        return replace(goal, termination=fold(await self._store.load(goal.id)).termination)

    async def _wait_until_final(self, goal: GoalView, deadline_s: float) -> GoalView:
        async with self._feed.subscribe(goal.id) as changes:
            while not goal.is_final:
                is_applied = not any(row.kind == "cancel" for row in await self._inbox.inbox(goal.id))
                if self._clock.boottime_s() > deadline_s:
                    return replace(goal, note=_why_not_ended(goal, is_applied=is_applied))
                self._runner.process.check_inbox(goal.id)
                await changes.wait(_RECHECK_S)
                goal = await self._find(goal.id)
                if not (goal.is_final or goal.is_running or is_applied):
                    with suppress(Conflict):  # another worker has claimed it meanwhile, or may still live
                        goal = await self._runner.settle(goal.id)
        return goal

    async def _settle(self, goal_id: str) -> GoalView:
        """Record pending posts and return the goal.

        A live worker that owns the goal applies them itself before it releases the goal. A run in this process may
        still be unwinding, so a conflict is retried for a short time.
        """
        deadline_s = self._clock.boottime_s() + _SETTLE_TIMEOUT_S
        while True:
            try:
                return await self._runner.settle(goal_id)
            except Conflict:
                seen = await self._find(goal_id)
                if seen.is_running or seen.is_final or self._clock.boottime_s() > deadline_s:
                    return seen
            await self._clock.sleep(_SETTLE_INTERVAL_S)


def cancel_payload(reason: str | None, *, now: bool, by: str | None = None) -> dict[str, Any]:
    """Return the payload of a cancel; `by` is its initiator, if not a person.

    Raises: Invalid when the reason is not a text that can be stored.
    """
    validate.reason(reason)
    payload = {"reason": reason, "now": now or None, "by": by}
    return {name: value for name, value in payload.items() if value is not None}


async def clean_up(goal: GoalView, resume: Callable[[str], Awaitable[RunResult]]) -> GoalView | None:
    """Run the cleanup of a cancelled goal that no worker runs, and return the goal.

    None if there is nothing to run here. A goal whose code is not available, or was changed, stays cancelled and
    interrupted; its `note` says why.
    """
    if not _needs_worker(goal):
        return None
    try:
        result = await resume(goal.id)
    except Owned:
        return None  # a worker has claimed it meanwhile, and runs the cleanup
    except PerdureError as error:
        detail = error.detail.rstrip(".")
        return replace(goal, note=f"{CLEANING_UP} That is not possible here: {detail}. {_run_elsewhere(goal)}")
    return replace(
        GoalView.of_state(result.state, queue=result.queue, start_key=result.start_key),
        termination=result.state.termination,
    )


def cleans_up_in(queue: str, goal_queue: str) -> bool:
    """Return whether a process of a queue may run the cleanup of a goal that no worker runs.

    A goal of an application stays in its queue meanwhile.
    """
    return goal_queue == queue or (queue == "cli" and goal_queue.startswith("app."))


def _needs_worker(goal: GoalView) -> bool:
    return goal.status == "interrupted" and not goal.is_running


def _why_not_ended(goal: GoalView, *, is_applied: bool) -> str:
    """Return why a cancelled goal has not ended, and what runs its cleanup if no worker does."""
    if not is_applied:
        return _CANCEL_PENDING
    return f"{CLEANING_UP} No worker runs it. {_run_elsewhere(goal)}" if _needs_worker(goal) else CLEANING_UP


def _run_elsewhere(goal: GoalView) -> str:
    """Return a sentence that names what runs the cleanup of a cancelled goal; its `next` has the commands."""
    queue = goal.summary.queue
    starts = "`perdure serve`" if queue == "server" else f"the application {queue.removeprefix('app.')!r}"
    start = "" if queue == "cli" else f"Start {starts}, or "
    return f"{start}{'resume' if start else 'Resume'} it where the code of its flow is available."
