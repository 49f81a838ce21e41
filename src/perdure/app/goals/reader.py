"""Reads goals: lists, histories, live events, replays and comparisons."""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from perdure.app.change_feed.feed import ChangeFeed
from perdure.app.change_feed.following import follow_pages, follow_updates
from perdure.app.change_feed.progress import Update
from perdure.app.change_feed.shared_views import SharedViews
from perdure.app.change_feed.subscription import HOME_IS_CLOSED
from perdure.app.goals.arguments import validate
from perdure.app.goals.updates.child_effects import read_child_effects
from perdure.app.home.system import observer
from perdure.app.wire.goal_view import GoalView
from perdure.app.wire.next_commands import is_continued_by_fork
from perdure.errors import Conflict, Damaged, NotFound, Unavailable
from perdure.kernel.events import Event, GoalBegun
from perdure.kernel.fold import GoalState, fold
from perdure.kernel.history.compare import Parted, compare
from perdure.kernel.history.repetition import ChildEffects
from perdure.kernel.history.replay import Replayed, replay, require_unchanged
from perdure.kernel.ports import Clock, GoalStore, InboxRow, Leases, Summary, Worker
from perdure.settings import implied_home

PAGE_BYTES = 4 << 20
"""The maximum size of a page of a history in JSON; a larger event is its own page."""
_RETRY_S = 0.25
RECHECK_S = 1.0
"""The interval of checks for changes without an event: the liveness of the worker, and due times."""
_WHOLE_ID = "Commands that change a goal need the whole id, and so do all requests over HTTP."


class GoalReader:
    """The reading part of `Goals`."""

    def __init__(self, home: Path, store: GoalStore, leases: Leases, clock: Clock) -> None:
        self._home = home
        self._store = store
        self._leases = leases
        self._clock = clock
        self._is_closed = False
        self.feed = ChangeFeed(store, store)
        """The feed of changed goals."""
        self.changed = SharedViews(self._view_of, self.feed.seq_of)
        """Goals that the feed has reported."""

    @property
    def named_home(self) -> Path | None:
        """The home, if commands must name it with `--home`; else None."""
        return None if self._home == implied_home() else self._home

    async def find(self, prefix: str) -> GoalView:
        """Return the goal whose id begins with a prefix.

        Raises: NotFound; Conflict when there are several.
        """
        return (await self.views_of([await self._found(prefix)]))[0]

    async def get(self, goal_id: str) -> GoalView:
        """Return the goal with an id; a prefix of it is not enough.

        Raises: NotFound
        """
        return await self._view_of(goal_id)

    async def _view_of(self, goal_id: str) -> GoalView:
        return (await self.views_of([await self._whole(goal_id)]))[0]

    async def look_into(self, goal: GoalView) -> GoalView:
        """Return a goal with its folded state; an unfinished damaged goal is returned unchanged.

        Raises: Damaged when it has ended, because its result cannot be read.
        """
        try:
            state = await self.state(goal.id)
        except Damaged:
            if goal.is_final:
                raise
            return goal
        row = goal.summary if goal.state is None else (await self.find(goal.id)).summary
        summary = replace(goal.summary, queue=row.queue, start_key=row.start_key, deaths=row.deaths)
        ended = state.termination if goal.is_final else None
        below = await self.effects_below(state)
        return replace(goal, summary=summary, termination=ended, state=state, child_effects=below)

    async def effects_below(self, state: GoalState) -> ChildEffects | None:
        """Return the effects of the children of a goal that is continued by a fork; None for any other goal."""
        if not is_continued_by_fork(state):
            return None
        return await read_child_effects(self._store.load, state.calls.values())

    async def history(self, prefix: str) -> Sequence[Event]:
        """Return all events of a goal; a fork's begin with its parents'."""
        return await self._store.load((await self._found(prefix)).goal_id)

    async def unchanged_history(self, prefix: str) -> Sequence[Event]:
        """Return all events of a goal, each with the hash that it was recorded with.

        Raises: NotFound; Damaged when an event was changed or is missing.
        """
        found = await self._found(prefix)
        events = await self._store.load(found.goal_id)
        require_unchanged(events, found.goal_id)
        return events

    async def events(
        self, goal_id: str, *, after: int = 0, limit: int | None = None, max_bytes: int | None = None
    ) -> Sequence[Event]:
        """Return the events of a goal after a seq, in order: at most `limit`, and at most `max_bytes` of JSON.

        One event is returned in any case, if there is one.

        Raises: NotFound; Invalid; Conflict, with `last_seq`, when the goal has fewer events.
        """
        self.require_open()
        after = validate.number("after", after, 0)
        upto = None if limit is None else after + validate.number("limit", limit, 1)
        goal_id = await self._id(goal_id)
        found = await self._store.load(goal_id, after=after, upto=upto, max_bytes=max_bytes)
        if not found and after:
            validate.require_seq(await self._store.find(goal_id), after)
        return found

    async def follow(self, prefix: str, *, after: int = 0) -> AsyncIterator[Event]:
        """Yield the existing and new events of a goal after a seq, each once and in order, until it has ended.

        A goal that is reopened before all its events were read is followed to its next end.

        Raises: NotFound; Invalid; Conflict, with `last_seq`, when the goal has fewer events.
        """
        async with aclosing(self.pages((await self._found(prefix)).goal_id, after)) as pages:
            async for page in pages:
                for event in page:
                    yield event

    def pages(self, goal_id: str, after: int = 0) -> AsyncGenerator[Sequence[Event], None]:
        """Yield the events of a goal as `follow` does, in pages; an empty page after a time without events.

        Raises: as `follow`.
        """
        return follow_pages(self.feed, goal_id, validate.number("after", after, 0))

    def updates(
        self, goal_id: str, after: int = 0, *, with_answers: bool = False
    ) -> AsyncGenerator[Sequence[Update], None]:
        """Yield the pages of `pages`, with the progress reports of calls of this process between the events.

        `with_answers` also yields the answers of a model while they arrive here.

        Raises: as `follow`.
        """
        return follow_updates(self.feed, goal_id, validate.number("after", after, 0), with_answers=with_answers)

    async def wait_while_running(self, goal_id: str) -> None:
        """Wait until no live worker runs a goal, or it has ended."""
        async with self.feed.subscribe(goal_id) as changes:
            await changes.wait(_RETRY_S)  # an unresponsive owner is not running, but cannot be replaced yet
            while (await self.get(goal_id)).is_running:
                await changes.wait(RECHECK_S)

    async def pause(self) -> None:
        """Wait before repeating a call that conflicted with another worker."""
        await self._clock.sleep(_RETRY_S)

    async def state(self, goal_id: str) -> GoalState:
        """Return the state of a goal, folded from its events.

        Raises: NotFound; Damaged when an event was changed or is missing.
        """
        goal_id = await self._id(goal_id)
        events = await self._store.load(goal_id)
        require_unchanged(events, goal_id)
        return fold(events)

    async def begun(self, goal_id: str) -> GoalBegun:
        """Return the first event of a goal, without reading the others.

        Raises: NotFound; Damaged
        """
        return fold(await self._store.load(await self._id(goal_id), upto=1)).begun

    async def pending(self, goal_id: str) -> Sequence[InboxRow]:
        """Return the pending posts of a goal."""
        return await self._store.inbox(await self._id(goal_id))

    async def replay(self, prefix: str) -> Replayed:
        """Fold the history of a goal again, checking every event.

        Raises: Damaged, naming the seq of the event; or the column, when the row of the goal does not match its events.
        """
        summary = await self._found(prefix)
        return replay(await self._store.load(summary.goal_id), summary)

    async def compare(self, left: str, right: str) -> Parted:
        """Return the point at which the histories of two goals differ."""
        return compare(await self.history(left), await self.history(right))

    async def _found(self, name: str) -> Summary:
        """Return the goal with a prefix of its id, or with `key:KEY`.

        Raises: NotFound; Conflict when there are several; Invalid.
        """
        self.require_open()
        key = validate.named_key(name)
        return await self._store.find(validate.goal_id(name)) if key is None else await self._started_by(key)

    async def _started_by(self, key: str) -> Summary:
        """Return the goal with a start key.

        Raises: NotFound
        """
        found = await self._store.started(key)
        if found is None:
            raise NotFound(f"No goal was started with the key {key!r}.")
        return found

    async def _id(self, name: str) -> str:
        """Return the id of the goal for an id, which is not looked up, or `key:KEY`.

        Raises: NotFound; Invalid.
        """
        key = validate.named_key(name)
        return validate.goal_id(name) if key is None else (await self._started_by(key)).goal_id

    async def _whole(self, goal_id: str) -> Summary:
        """Return the goal with an id, or with `key:KEY`.

        Raises: NotFound, with the id of the only goal that matches a prefix.
        """
        try:
            found = await self._found(goal_id)
        except Conflict as error:  # a prefix of several ids
            raise NotFound(f"No goal has the id {goal_id!r}. {error.detail} {_WHOLE_ID}") from error
        if found.goal_id != goal_id and validate.named_key(goal_id) is None:
            raise NotFound(f"No goal has the id {goal_id!r}. Did you mean {found.goal_id}? {_WHOLE_ID}")
        return found

    async def _require_unchanged(self, goal: Summary) -> None:
        """Check the history of a goal before a post, because no worker could apply it to a damaged history.

        Raises: Damaged
        """
        require_unchanged(await self._store.load(goal.goal_id), goal.goal_id)

    def require_open(self) -> None:
        """Check that the home is open.

        Raises: Unavailable
        """
        if self._is_closed:
            raise Unavailable(HOME_IS_CLOSED)

    async def views_of(self, summaries: Sequence[Summary]) -> Sequence[GoalView]:
        """Return the views of goals; one query for all checks which of them a live worker runs."""
        owners = {goal.worker for goal in summaries if goal.worker is not None and not goal.is_final}
        living = await self.living(owners)
        return [GoalView(goal, is_running=goal.worker in living) for goal in summaries]

    def observer(self) -> Worker:
        """Return this process as an observer of workers, which need not be a worker itself."""
        return observer(self._home)

    async def living(self, workers: Collection[str]) -> frozenset[str]:
        """Return which of some workers are alive."""
        return await self._leases.living(workers, self.observer()) if workers else frozenset()
