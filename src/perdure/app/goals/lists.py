"""Lists of goals: by filters, due goals, children, and the newest goal of a folder."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from perdure.app.goals.arguments import validate
from perdure.app.goals.query import GoalQuery, goal_query
from perdure.app.goals.reader import GoalReader
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.resources.parameters import GoalFilters
from perdure.errors import Damaged, NotFound
from perdure.kernel.ports import GoalFilter, Summary
from perdure.statuses import FINAL, Status

_PAGE = 200


class GoalLists(GoalReader):
    """The listing part of `Goals`."""

    async def list(
        self, *, limit: int = 50, before: str | None = None, **filters: Unpack[GoalFilters]
    ) -> Sequence[GoalView]:
        """Return the newest goals that match all filters; `before` is the last id of the previous page.

        `status` is one word or several: running, interrupted, waiting, done, failed, cancelled, or open (running or
        interrupted). `flow` is the name of a flow, or `module:function`. `key`, `bot`, `tag` and `queue` match
        exactly; `parent` is the goal that started others as its children: its id, a prefix of it, or `key:KEY`. `since`
        and `until` choose by the time of creation, from the first up to but without the second: a datetime, a date or
        time as text (local unless it has an offset), or a duration such as `2h`, counted back from now.

        Raises: Invalid
        """
        self.require_open()
        query, limit = goal_query(self._clock.now_us(), filters), validate.number("limit", limit, 1)
        if query.where.parent is not None:
            with suppress(NotFound):  # then it has no children, either
                parent = (await self.find(query.where.parent)).id
                query = replace(query, where=replace(query.where, parent=parent))
        before = None if before is None else validate.goal_id(before)
        return await self._matching(query, limit, before)

    async def _matching(self, query: GoalQuery, limit: int, before: str | None) -> Sequence[GoalView]:
        """Return the goals of a query; filters that need more than a row are applied page by page."""
        needs_only_rows = query.shown is None and query.flow_at is None
        size = limit if needs_only_rows else max(limit, _PAGE)
        found: list[GoalView] = []
        while page := await self._store.list_goals(where=query.where, limit=size, before=before):
            for goal in await self.views_of(page):
                if len(found) < limit and query.has(goal) and await self._is_of_flow(goal, query.flow_at):
                    found.append(goal)
            before = page[-1].goal_id
            if len(page) < size or len(found) >= limit:
                break
        return found

    async def _is_of_flow(self, goal: GoalView, at: str | None) -> bool:
        """Return whether a goal runs the flow `module:function`; None means any flow."""
        if at is None:
            return True
        try:
            return (await self.begun(goal.id)).mind.at == at
        except (NotFound, Damaged):  # deleted meanwhile, or its first event cannot be read
            return False

    async def children_of(self, goal_id: str) -> Sequence[GoalView]:
        """Return the children of a goal, newest first."""
        self.require_open()
        return await self.matching(GoalFilter(parent=goal_id))

    async def matching(self, where: GoalFilter) -> Sequence[GoalView]:
        """Return all goals that match a filter, newest first."""
        found: list[Summary] = []
        before = None
        while page := await self._store.list_goals(where=where, limit=_PAGE, before=before):
            found += page
            before = page[-1].goal_id
        return await self.views_of(found)

    async def finished_before(self, moment_us: int, *, limit: int, before: str | None = None) -> Sequence[GoalView]:
        """Return finished goals that were last updated before a moment, newest first."""
        self.require_open()
        where = GoalFilter(status=tuple(sorted(FINAL)), updated_before_us=moment_us)
        return await self.views_of(await self._store.list_goals(where=where, limit=limit, before=before))

    async def newest_open(self, workdir: Path) -> GoalView:
        """Return the newest goal of a folder that is interrupted or waits.

        Raises: NotFound
        """
        found = [await self._newest(status, workdir) for status in ("open", "waiting")]
        views = [view for view in found if view is not None]
        if not views:
            raise NotFound(f"No goal of {workdir} is interrupted or waits.")
        return max(views, key=lambda view: (view.summary.created_us, view.summary.goal_id))

    async def due(self, *, limit: int = 50) -> Sequence[GoalView]:
        """Return the sleeping goals that are due, the longest overdue first."""
        self.require_open()
        return await self.views_of(await self._store.due(self._clock.now_us(), limit=limit))

    async def each_due(
        self, *, queue: str | None = None, after: GoalView | None = None, until_us: int | None = None
    ) -> AsyncIterator[GoalView]:
        """Yield every due goal once: sleeping goals, and goals that were woken and interrupted.

        `after` is an earlier yielded goal at which to continue. `until_us` replaces the present time.
        """
        self.require_open()
        due_us, last = until_us or self._clock.now_us(), None if after is None else after.summary
        while page := await self._store.due(due_us, queue=queue, limit=_PAGE, after=last):
            for view in await self.views_of(page):
                yield view
            last = page[-1]

    async def _newest(self, status: Status, workdir: Path) -> GoalView | None:
        before = None
        while page := await self.list(status=status, limit=_PAGE, before=before):
            for view in page:
                if view.summary.workdir == str(workdir) and view.status != "running":
                    return view
            before = page[-1].summary.goal_id
        return None

    async def can_continue(self, goal: GoalView) -> bool:
        """Return whether resuming a goal now would make progress: it is interrupted or due, or has pending posts."""
        if goal.is_final or goal.is_running or goal.summary.waiting_for == "hold":
            return False
        due_us = goal.summary.due_us
        is_due = due_us is not None and due_us <= self._clock.now_us()
        return goal.status == "interrupted" or is_due or bool(await self.pending(goal.id))
